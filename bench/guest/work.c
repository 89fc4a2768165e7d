// SPDX-License-Identifier: GPL-2.0
/*
 * The only process of a guest whose instructions are counted: fixed amounts of work in windows, then the guest ends.
 *
 * The kernel hands over the words of its command line that it does not know as environment:
 *
 *   scale=N     run N percent of the rounds
 *   skew=N      begin differently: other memory is in use, and reporting is at another point of its delay
 *   force=1     after each round of work, within the window, report everything that is free
 *   pause=1     switch reporting off before the first window, after everything was reported
 *   only=NAME   leave out the other workloads
 *
 * At first the guest uses most of its memory once, so that the host has all of it. Before each window it sleeps until
 * everything that can be reported is. For each window it prints
 *
 *   window NAME OPERATIONS TICKS PAGES BATCHES
 *
 * ticks of the CPU's time stamp counter, and pages and batches reported in it, 0 on a kernel that does not count them.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <time.h>
#include <unistd.h>

#define PARAMETERS "/sys/module/page_reporting/parameters/"

enum { PAGE = 4096, BLOCK = 2 << 20, MIB = 1 << 20, ALL = 800 * MIB };

static int force, pause_first, skew, scale = 100;
static const char *only;

/* The plugin knows these by their addresses, which are given to the linker. */
__attribute__((noinline, section(".begin"))) void begin_window(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline, section(".end"))) void end_window(void)
{
	__asm__ volatile("" ::: "memory");
}

static void fail(const char *what)
{
	printf("failed: %s: %m\n", what);
	fflush(stdout);
	reboot(RB_AUTOBOOT);
}

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	return p;
}

static void touch(char *p, size_t size, size_t step)
{
	for (size_t i = 0; i < size; i += step)
		*(volatile char *)(p + i) = 1;
}

/* pages of order 0: fault in one by one, free together, the mapping stays */
static void small_round(char *region)
{
	touch(region, 192 * MIB, PAGE);
	madvise(region, 192 * MIB, MADV_DONTNEED);
}

/* transparent huge pages, each of them a block that can be reported */
static void huge_round(char *region)
{
	touch(region, 512 * MIB, BLOCK);
	madvise(region, 512 * MIB, MADV_DONTNEED);
}

/* as page_fault1 of will-it-scale does */
static void fault_round(char *region)
{
	char *p = map(128 * MIB);

	(void)region;
	madvise(p, 128 * MIB, MADV_NOHUGEPAGE);
	touch(p, 128 * MIB, PAGE);
	munmap(p, 128 * MIB);
}

/*
 * A CPU keeps freed pages on lists of its own, by default as many as it thinks it needs, up to an eighth of memory: most
 * pages never get to where blocks form, and two runs of one kernel differ by up to 2 %. `lists` is
 * vm.percpu_pagelist_high_fraction and fixes how many. 2000 is the least there can be, 252 pages: nearly all are merged to
 * blocks. Blocks of 2 MiB would then push page tables out by chance, therefore 8 there: an eighth of memory stays.
 */
static const struct work {
	const char *name, *lists;
	void (*round)(char *region);
	size_t region;
	int advice;
	int rounds, operations;
} works[] = {
	{ "small", "2000", small_round, 192 * MIB, MADV_NOHUGEPAGE, 4, 192 * MIB / PAGE },
	{ "huge", "8", huge_round, 512 * MIB, MADV_HUGEPAGE, 8, 512 * MIB / BLOCK },
	{ "fault", "2000", fault_round, PAGE, MADV_NOHUGEPAGE, 6, 128 * MIB / PAGE },
};

static void nap(long milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

static void flush(void)
{
	char left[32];
	ssize_t got;
	int fd = open(PARAMETERS "flush", O_RDONLY);

	put(PARAMETERS "flush", "1000000");
	do {
		nap(1);
		got = pread(fd, left, sizeof(left), 0);
	} while (got > 0 && left[0] != '0');
	close(fd);
}

static unsigned long counter(const char *name)
{
	FILE *file = fopen("/proc/vmstat", "r");
	char key[64];
	unsigned long value, found = 0;

	while (file && fscanf(file, "%63s %lu", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	if (file)
		fclose(file);
	return found;
}

static void run(const struct work *work)
{
	int rounds = (work->rounds * scale + 99) / 100;
	char *region = map(work->region + BLOCK);
	unsigned long pages, batches;
	uint64_t ticks;

	region = (char *)(((uintptr_t)region + BLOCK - 1) & ~(uintptr_t)(BLOCK - 1));
	madvise(region, work->region, work->advice);
	put("/proc/sys/vm/percpu_pagelist_high_fraction", work->lists);
	work->round(region);
	nap(60000 + 150 * skew);
	if (pause_first)
		put(PARAMETERS "enabled", "0");
	pages = counter("page_report_pages");
	batches = counter("page_report_batch");
	ticks = __builtin_ia32_rdtsc();
	begin_window();
	for (int i = 0; i < rounds; i++) {
		work->round(region);
		if (force)
			flush();
	}
	end_window();
	ticks = __builtin_ia32_rdtsc() - ticks;
	printf("window %s\t%d\t%lu\t%lu\t%lu\n", work->name, rounds * work->operations, (unsigned long)ticks,
	       counter("page_report_pages") - pages, counter("page_report_batch") - batches);
	fflush(stdout);
	munmap(region, work->region);
}

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? atoi(text) : otherwise;
}

int main(void)
{
	char *all;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	if (!freopen("/dev/ttyS0", "w", stdout))
		return 1;
	scale = number("scale", 100);
	skew = number("skew", 0);
	force = number("force", 0);
	only = getenv("only");
	pause_first = number("pause", 0);
	all = map(ALL);
	madvise(all, ALL, MADV_HUGEPAGE);
	touch(all, ALL, PAGE);
	munmap(all, ALL);
	if (skew)
		touch(map(skew * 3 * MIB), skew * 3 * MIB, PAGE);
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		if (!only || !strcmp(only, works[i].name))
			run(&works[i]);
	puts("done");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	return 0;
}
