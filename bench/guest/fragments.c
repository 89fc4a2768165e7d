// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is free in single pages: every other page of a range is freed, and its neighbours stay. In the window they are
 * used once more and freed again, and then the guest rests; after it, it waits for whoever wants to look at what the host
 * has. Of its own it takes the words
 *
 *   data=N      MiB of the range
 *   rest=N      seconds of rest in the window
 */
#include "window.h"

enum { WAITS = 20 };

/* xorshift64: no two pages are alike, and none is zero */
static uint64_t state = 0x9e3779b97f4a7c15u;

static void fill(char *p, size_t size, size_t step)
{
	for (size_t at = 0; at < size; at += step)
		for (uint64_t *word = (uint64_t *)(p + at); word < (uint64_t *)(p + at + PAGE); word++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			*word = state;
		}
}

static void drop(char *p, size_t size)
{
	for (size_t at = 0; at < size; at += 2 * PAGE)
		if (madvise(p + at, PAGE, MADV_DONTNEED))
			fail("madvise");
}

static void rest(int seconds)
{
	struct timespec time = { seconds, 0 };

	nanosleep(&time, NULL);
}

int main(void)
{
	size_t size;
	char *p;

	begin_guest();
	/* as few pages as can be on the CPU's own lists, from which nothing comes back: see pagefault.c */
	put("/proc/sys/vm/percpu_pagelist_high_fraction", "2000");
	size = (size_t)number("data", 240) * MIB;
	p = map(size);
	madvise(p, size, MADV_NOHUGEPAGE);
	fill(p, size, PAGE);
	drop(p, size);
	open_window();
	fill(p, size, 2 * PAGE);
	drop(p, size);
	rest(number("rest", 30));
	close_window("holes", size / PAGE / 2);
	rest(WAITS);
	end_guest();
	return 0;
}
