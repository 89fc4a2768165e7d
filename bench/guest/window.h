/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of counted guests share: each is the only one of its guest, does fixed amounts of work in windows, and
 * then the guest ends.
 *
 * The kernel hands over the words of its command line that it does not know as environment; these all programs take:
 *
 *   scale=N     run N percent of the work
 *   skew=N      begin differently: other memory is in use, and reporting is at another point of its delay
 *   pause=1     switch reporting off before the first window, after everything was reported
 *   settle=N    sleep so many seconds before each window, 60 unless given
 *
 *   all=N       MiB that are used once at first, so that the host has all of them: 800, most of it, unless given
 *
 * Before each window it sleeps until
 * everything that can be reported is. For each window it prints
 *
 *   opened
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

enum { PAGE = 4096, BLOCK = 2 << 20, MIB = 1 << 20 };

static int scale, skew, pausing, settling;

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

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
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

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? atoi(text) : otherwise;
}

/* processes that wait for each other: a byte for each */
static inline void give(int fd, int nr)
{
	while (nr--)
		if (write(fd, "", 1) != 1)
			fail("pipe");
}

static inline void await(int fd, int nr)
{
	char byte;

	while (nr--)
		if (read(fd, &byte, 1) != 1)
			fail("pipe");
}

static unsigned long opened_ticks, opened_pages, opened_batches;

static void open_window(void)
{
	struct timespec time = { settling + skew * 150 / 1000, skew * 150 % 1000 * 1000000 };

	nanosleep(&time, NULL);
	if (pausing)
		put(PARAMETERS "enabled", "0");
	puts("opened");
	fflush(stdout);
	opened_pages = counter("page_report_pages");
	opened_batches = counter("page_report_batch");
	opened_ticks = __builtin_ia32_rdtsc();
	begin_window();
}

static void close_window(const char *name, int operations)
{
	unsigned long ticks;

	end_window();
	ticks = __builtin_ia32_rdtsc() - opened_ticks;
	printf("window %s\t%d\t%lu\t%lu\t%lu\n", name, operations, ticks, counter("page_report_pages") - opened_pages,
	       counter("page_report_batch") - opened_batches);
	fflush(stdout);
}

static void begin_guest(void)
{
	size_t size;
	char *all;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	if (!freopen("/dev/ttyS0", "w", stdout))
		reboot(RB_AUTOBOOT);
	scale = number("scale", 100);
	skew = number("skew", 0);
	pausing = number("pause", 0);
	settling = number("settle", 60);
	size = (size_t)number("all", 800) * MIB;
	if (size) {
		all = map(size);
		madvise(all, size, MADV_HUGEPAGE);
		touch(all, size, PAGE);
		munmap(all, size);
	}
	if (skew)
		touch(map(skew * 3 * MIB), skew * 3 * MIB, PAGE);
}

static void end_guest(void)
{
	puts("done");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
}
