// SPDX-License-Identifier: GPL-2.0
/*
 * What the tests need a program for in the guest.
 *
 *   memory hold MIB   use that much memory, print "held", keep it until killed
 *   memory churn MIB  use and free that much memory again and again, until killed
 *   memory walk       print the free pages that /proc/kpageflags shows as reported
 *   memory merge EMPTY OTHER  have as many MiB of empty pages, and of pages that are like no other, a few in turns;
 *                     let KSM merge them, print "held", keep them until killed
 *   memory lines      copy lines, each with one write, so that whoever reads a pipe never waits within one
 *   memory kick FILE  notify all queues of a virtio device, FILE being the memory of its BAR 4 as QEMU lays it out
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UPTODATE = 3, BUDDY = 10, MOST = 65536 };

static char *map(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	madvise(p, size, MADV_HUGEPAGE);
	return p;
}

static int hold(size_t size)
{
	char *p = map(size);

	/* not a pattern that the host could share */
	for (size_t i = 0; i < size; i += sizeof(size_t))
		*(size_t *)(p + i) = i + 1;
	puts("held");
	fflush(stdout);
	pause();
	return 0;
}

/* small pages: what it costs to split huge ones is not what is measured */
static int merge(size_t empty, size_t other)
{
	enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t) };
	size_t pages = (empty + other) / PAGE, put = 0;
	uint64_t next = 88172645463325252;
	uint64_t *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || madvise(p, pages * PAGE, MADV_NOHUGEPAGE))
		return 1;
	for (size_t page = 0; page < pages; page++) {
		uint64_t *words = p + page * WORDS;

		/* as many empty ones as there are to be up to here */
		if (put * pages <= page * (empty / PAGE) && put < empty / PAGE) {
			memset(words, 0, PAGE);
			put++;
			continue;
		}
		for (int at = 0; at < WORDS; at++) {
			next ^= next << 13;
			next ^= next >> 7;
			next ^= next << 17;
			words[at] = next;
		}
	}
	if (madvise(p, pages * PAGE, MADV_MERGEABLE))
		return 1;
	puts("held");
	fflush(stdout);
	pause();
	return 0;
}

static _Noreturn void churn(size_t size)
{
	/* a write to each huge page is enough to take all of it */
	for (;;) {
		char *p = map(size);

		for (size_t i = 0; i < size; i += 2 << 20)
			p[i] = 1;
		munmap(p, size);
	}
}

static int is_free(uint64_t flags)
{
	return flags >> BUDDY & 1;
}

/* the first page of a reported block: on a free list and, by PG_reported being an alias, uptodate */
static int is_head(uint64_t flags)
{
	return is_free(flags) && flags >> UPTODATE & 1;
}

/* the pages of the largest block that the kernel keeps */
static unsigned long max_block(void)
{
	return sysconf(_SC_PAGESIZE) == 65536 ? 1 << 13 : 1 << 10;
}

/*
 * All pages of a free block are shown as free, and where a block ends is not shown. Two free blocks that are each other's
 * buddy would be one block, so a block is the largest aligned range of free pages from its head.
 */
static int walk(void)
{
	static uint64_t flags[MOST];
	const unsigned long most = max_block();
	unsigned long sum = 0;
	int fd = open("/proc/kpageflags", O_RDONLY);
	ssize_t got;

	if (fd < 0)
		return 1;
	while ((got = read(fd, flags, sizeof(flags))) > 0) {
		unsigned long nr = got / sizeof(flags[0]);

		for (unsigned long head = 0; head < nr; head++) {
			unsigned long size = 1, end = head + 1;

			if (!is_head(flags[head]))
				continue;
			while (end < nr && end < head + most && is_free(flags[end]) && !is_head(flags[end]))
				end++;
			while (head + 2 * size <= end && head % (2 * size) == 0)
				size *= 2;
			sum += size;
		}
	}
	printf("%lu\n", sum);
	return 0;
}

static int lines(void)
{
	static char line[4096]; /* a pipe takes as much at once */
	size_t size = 0;

	while (size < sizeof(line) && read(0, line + size, 1) == 1) {
		if (line[size++] != '\n')
			continue;
		if (write(1, line, size) != (ssize_t)size)
			return 1;
		size = 0;
	}
	return 1;
}

static int kick(const char *path)
{
	enum { NOTIFY = 0x3000, SIZE = 0x4000, STEP = 4, QUEUES = 8 };
	int fd = open(path, O_RDWR);
	volatile char *p;

	p = fd < 0 ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return 1;
	for (int queue = 0; queue < QUEUES; queue++)
		*(volatile uint16_t *)(p + NOTIFY + STEP * queue) = queue;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "hold"))
		return hold(strtoul(argv[2], NULL, 10) << 20);
	if (argc == 3 && !strcmp(argv[1], "churn"))
		churn(strtoul(argv[2], NULL, 10) << 20);
	if (argc == 4 && !strcmp(argv[1], "merge"))
		return merge(strtoul(argv[2], NULL, 10) << 20, strtoul(argv[3], NULL, 10) << 20);
	if (argc == 2 && !strcmp(argv[1], "walk"))
		return walk();
	if (argc == 2 && !strcmp(argv[1], "lines"))
		return lines();
	if (argc == 3 && !strcmp(argv[1], "kick"))
		return kick(argv[2]);
	fprintf(stderr, "usage: memory hold MIB | memory churn MIB | memory merge EMPTY OTHER | memory walk | memory lines | "
			"memory kick FILE\n");
	return 2;
}
