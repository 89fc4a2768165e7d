// What one process learns of another's memory by the time that its own takes, once KSM has merged both.
//
//	merged_page_timing ROUNDS
//
// Two processes stand for two VMs: one watches, the other holds pages and reads some; zeros it has for a while only. KSM
// must run, with use_zero_pages. Each line that is printed has a name, and the median and the 5th and 95th percentile of
// cycles; "seen" lines say in how many of all rounds a read was taken for one that somebody else had just made.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE 4096
#define PAGES 512  // of each kind
#define LINE 1792  // the line of a page that is read: any will do
#define WAIT 20000 // cycles that the other has for its read
#define PATIENCE 120

// Kinds of the watcher's pages: by their content, and by whether the other holds the same when they are written to.
enum { DATA_OTHER_HAS, DATA_OTHER_HAS_NOT, ZERO_OTHER_WILL_HAVE, ZERO_OTHER_HAS, ZERO_OTHER_HAD, KINDS };
static const char *const names[KINDS] = {
	"data_other_has", "data_other_has_not", "zero_other_will_have", "zero_other_has", "zero_other_had",
};
#define ZEROS ZERO_OTHER_WILL_HAVE // this kind and all that follow

enum { NOTHING, READ_ZERO, READ_DATA, GET_ZEROS, LOSE_ZEROS };
static volatile int *task; // of the other

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

// Before whatever else wants the processors, where that is allowed: for less than a second.
static void first(pid_t pid)
{
	struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(pid, SCHED_FIFO, &param))
		perror("not first on its processor");
}

static unsigned char *memory(int pages)
{
	unsigned char *at = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	madvise(at, (size_t)pages * PAGE, MADV_NOHUGEPAGE); // KSM splits no huge page for a while
	return at;
}

// Every page of its own, or all zeros; written to in each case.
static void fill(unsigned char *page, int number, int zero)
{
	for (int i = 0; i < PAGE; i += 8)
		*(uint64_t *)(page + i) = 0x9e3779b97f4a7c15ull * (number * PAGE + i + 1);
	if (zero)
		memset(page, 0, PAGE);
}

// A number from a file of /proc/self, after its name; -1 where there is none.
static long counter(const char *file, const char *name)
{
	char line[256];
	long value = -1, found;
	FILE *from = fopen(file, "r");

	while (from && fgets(line, sizeof(line), from))
		if (!strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), "%ld", &found) == 1)
			value = found;
	if (from)
		fclose(from);
	return value;
}

static long merged(void)
{
	return counter("/proc/self/ksm_merging_pages", "");
}

static long zeroed(void)
{
	return counter("/proc/self/ksm_stat", "ksm_zero_pages");
}

static void mergeable(unsigned char *at, int pages)
{
	if (madvise(at, (size_t)pages * PAGE, MADV_MERGEABLE))
		fail("madvise MADV_MERGEABLE");
}

static void wait_merged(long data, long zero)
{
	for (int tenths = 0; merged() < data || zeroed() < zero; tenths++) {
		if (tenths > 10 * PATIENCE) {
			fprintf(stderr, "KSM merged %ld of %ld pages, and %ld of %ld zero pages\n", merged(), data, zeroed(), zero);
			exit(2);
		}
		usleep(100000);
	}
}

static inline uint64_t begin(void)
{
	_mm_mfence();
	_mm_lfence();
	return __rdtsc();
}

static inline uint64_t end(void)
{
	unsigned int cpu;
	uint64_t now = __rdtscp(&cpu);

	_mm_lfence();
	return now;
}

static int by_value(const void *one, const void *two)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;

	return (a > b) - (a < b);
}

static void tell(const char *what, const char *name, uint64_t *took, int number)
{
	qsort(took, number, sizeof(*took), by_value);
	printf("%s %s %lu %lu %lu\n", what, name, took[number / 2], took[number / 20], took[number - 1 - number / 20]);
}

static void say(int ready)
{
	if (write(ready, "", 1) != 1)
		fail("write");
}

static void hear(int ready)
{
	char word;

	if (read(ready, &word, 1) != 1)
		fail("the other has ended: read");
}

static void other(int ready)
{
	unsigned char *data = memory(PAGES), *zero = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	on_cpu(1);
	for (int i = 0; i < PAGES; i++)
		fill(data + i * PAGE, i, 0); // as DATA_OTHER_HAS
	say(ready);
	mergeable(data, PAGES);
	wait_merged(PAGES, 0);
	say(ready);
	for (;;) {
		if (*task == READ_ZERO)
			(void)*(volatile unsigned char *)(zero + LINE);
		else if (*task == READ_DATA)
			(void)*(volatile unsigned char *)(data + LINE);
		else if (*task == GET_ZEROS) {
			*task = NOTHING;
			// Memory that KSM has not seen yet: where it looks at a page that turns into zeros at that moment, it
			// takes it for data, and may merge it with another one of zeros.
			zero = memory(PAGES);
			memset(zero, 0, PAGES * PAGE);
			mergeable(zero, PAGES);
			wait_merged(PAGES, PAGES);
			say(ready);
		} else if (*task == LOSE_ZEROS) {
			*task = NOTHING;
			munmap(zero, PAGES * PAGE);
			say(ready);
		}
		_mm_pause();
	}
}

// Flush a line of one's own, let the other go on, and time one's own read of it.
static uint64_t reload(volatile unsigned char *line)
{
	uint64_t at;

	_mm_clflush((const void *)line);
	_mm_mfence();
	for (at = __rdtsc(); __rdtsc() - at < WAIT;)
		_mm_pause();
	at = begin();
	(void)*line;
	return end() - at;
}

static void watch_reads(const char *name, volatile unsigned char *line, int what, int rounds)
{
	uint64_t *took[2] = { calloc(rounds, sizeof(uint64_t)), calloc(rounds, sizeof(uint64_t)) };
	uint64_t edge = 0;
	int seen[2] = { 0, 0 };
	char full[64];

	for (int i = 0; i < 2 * rounds; i++) {
		*task = i % 2 ? what : NOTHING;
		for (uint64_t at = __rdtsc(); __rdtsc() - at < WAIT;) // until it has heard
			_mm_pause();
		took[i % 2][i / 2] = reload(line);
	}
	*task = NOTHING;
	for (int on = 0; on < 2; on++) {
		uint64_t *copy = calloc(rounds, sizeof(uint64_t));

		memcpy(copy, took[on], rounds * sizeof(uint64_t));
		snprintf(full, sizeof(full), "%s_%s", name, on ? "read" : "left_alone");
		tell("reload", full, copy, rounds);
		if (!on)
			edge = copy[rounds / 20]; // of 20 reloads of a line that nobody reads, one is as fast
		free(copy);
	}
	for (int on = 0; on < 2; on++)
		for (int i = 0; i < rounds; i++)
			seen[on] += took[on][i] < edge;
	printf("seen %s %d %d %d\n", name, seen[1], seen[0], rounds);
}

static void time_writes(unsigned char *at, int kind)
{
	uint64_t took[PAGES];

	for (int i = 0; i < PAGES; i++) {
		volatile unsigned char *page = at + (kind * PAGES + i) * PAGE;
		uint64_t began;

		(void)page[0]; // mapped, and in the TLB
		began = begin();
		page[0] = 1;
		took[i] = end() - began;
	}
	tell("write", names[kind], took, PAGES);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 2000, ready[2];
	unsigned char *at = memory(KINDS * PAGES), *own = memory(1);
	pid_t child;

	task = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (task == MAP_FAILED || pipe(ready))
		fail("mmap, pipe");
	child = fork();
	if (!child)
		other(ready[1]);
	close(ready[1]);
	on_cpu(0);
	for (int i = 0; i < KINDS * PAGES; i++)
		fill(at + i * PAGE, i, i >= ZEROS * PAGES);
	fill(own, KINDS * PAGES, 0);
	hear(ready[0]);
	mergeable(at, KINDS * PAGES);
	wait_merged(PAGES, (KINDS - ZEROS) * PAGES);
	hear(ready[0]);
	first(child);
	first(0);

	time_writes(at, ZERO_OTHER_WILL_HAVE);
	*task = GET_ZEROS;
	hear(ready[0]);
	time_writes(at, ZERO_OTHER_HAS);
	watch_reads("zero_page", at + ZERO_OTHER_HAD * PAGES * PAGE + LINE, READ_ZERO, rounds);
	watch_reads("data_page", at + LINE, READ_DATA, rounds);
	watch_reads("own_page", own + LINE, READ_ZERO, rounds);
	*task = LOSE_ZEROS;
	hear(ready[0]);
	time_writes(at, ZERO_OTHER_HAD);
	time_writes(at, DATA_OTHER_HAS);
	time_writes(at, DATA_OTHER_HAS_NOT);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
