/*
 * Stands for a VM of the bench `tiering`: memory of which a part is hot, and a count of each page's accesses.
 *
 * tiering play NAME MIB FACTS...: FACTS are words NAME=NUMBER: begin (nanoseconds of the monotonic clock), rate (accesses a
 * second), cold (per mille of them that go to cold memory), dense (per mille of the pages of a hot unit that are used),
 * spare (MiB of cold memory that an oracle lays on node 0), row (milliseconds), place (0: where the kernel puts it, 1: interleaved, 2: an
 * oracle's); then a word MILLISECONDS:MIB for each phase: how long it lasts, and how much is hot in it. The hot part of a
 * phase is none of that of the phase before, as far as there is other memory. NAME.rows gets a line for each row:
 * milliseconds since the beginning, phase, accesses to node 0, accesses to other nodes, hot bytes on node 0, bytes on
 * node 0. It ends with the last phase.
 *
 * tiering fill MIB: holds so much of node 0 until it is killed, and says "filled" once it does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define MIB (1UL << 20)
#define UNIT (4 * MIB) /* of hot memory, aligned: no block of 2 MiB is hot in part */
#define CLUSTER (256UL << 10) /* of cold memory that is used at once */
#define MOST_UNITS 4096
#define MOST_PHASES 64
#define TICK 50000000ULL /* ns */
#define FLUSH 20 /* ticks */
#define BURST 10000000000ULL /* ns from one cluster of cold memory to the next */
#define SCRATCH 64UL /* pages */
#define BIND 2
#define INTERLEAVE 3
#define MOVE 2

struct phase {
	uint64_t ms, mib;
};

static struct phase phases[MOST_PHASES];
static int count_phases;
static uint64_t begin, rate, cold, dense, spare, row, place;
static const struct fact {
	const char *name;
	uint64_t *value;
} facts[] = {
	{ "begin", &begin }, { "rate", &rate }, { "cold", &cold }, { "dense", &dense },
	{ "spare", &spare }, { "row", &row }, { "place", &place },
};

static char *memory;
static size_t size, pages, units;
static uint64_t *accesses; /* by page, since the last row */
static unsigned char *hot; /* by unit, in this phase */
static uint32_t *used; /* the pages that are used of hot units */
static size_t count_used;
static void **addresses;
static int *nodes, *status;
static uint64_t dice = 88172645463325252ULL;

static void fail(const char *what)
{
	fprintf(stderr, "tiering: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *room(size_t bytes)
{
	volatile char *found = calloc(1, bytes);

	if (!found)
		fail("memory");
	/* there at once: it lies where whoever started this wants its own memory, and not where the VM's goes */
	for (size_t at = 0; at < bytes; at += PAGE)
		found[at] = 0;
	return (void *)found;
}

static uint64_t roll(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice;
}

static void until(uint64_t at)
{
	struct timespec wake = { .tv_sec = at / 1000000000ULL, .tv_nsec = at % 1000000000ULL };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
		;
}

/* Which units are hot from now on: those that were not, in an order that the dice say, then the others. */
static void choose_hot(uint64_t mib)
{
	size_t wanted = mib * MIB / UNIT, taken = 0;
	size_t order[MOST_UNITS];
	unsigned char *was = room(units);

	memcpy(was, hot, units);
	memset(hot, 0, units);
	for (size_t i = 0; i < units; i++) {
		size_t other = roll() % (i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < units && taken < wanted; i++)
			if (was[order[i]] == again) {
				hot[order[i]] = 1;
				taken++;
			}
	free(was);
	count_used = 0;
	for (size_t page = 0; page < pages; page++)
		if (hot[page / (UNIT / PAGE)] && page * 2654435761UL % 1000 < dense)
			used[count_used++] = page;
}

/* What somebody who knows the hot part does: all of it to node 0, and of the rest what there is room for. */
static void lay(void)
{
	size_t free_units = spare * MIB / UNIT;
	unsigned char *up = room(units);

	for (size_t unit = 0; unit < units; unit++) {
		up[unit] = hot[unit] || free_units;
		free_units -= !hot[unit] && free_units;
	}
	/* down first, so that there is room for what comes up */
	for (int target = 1; target >= 0; target--) {
		size_t some = 0;
		void **list = room(pages * sizeof(*list));
		int *where = room(pages * sizeof(*where));

		for (size_t page = 0; page < pages; page++)
			if (up[page / (UNIT / PAGE)] == !target) {
				list[some] = addresses[page];
				where[some++] = target;
			}
		if (some && syscall(SYS_move_pages, 0, some, list, where, status, MOVE) < 0)
			fail("move_pages");
		free(list);
		free(where);
	}
	free(up);
}

static void touch(size_t page)
{
	(*(volatile uint64_t *)(memory + page * PAGE))++;
	accesses[page]++;
}

static void write_row(FILE *out, uint64_t ms, int phase)
{
	uint64_t near = 0, far = 0, hot_near = 0, all_near = 0;

	if (syscall(SYS_move_pages, 0, pages, addresses, NULL, nodes, 0) < 0)
		fail("move_pages");
	for (size_t page = 0; page < pages; page++) {
		if (nodes[page] == 0) {
			near += accesses[page];
			all_near += PAGE;
			hot_near += hot[page / (UNIT / PAGE)] ? PAGE : 0;
		} else {
			far += accesses[page];
		}
		accesses[page] = 0;
	}
	fprintf(out, "%lu %d %lu %lu %lu %lu\n", ms, phase, near, far, hot_near, all_near);
	fflush(out);
}

static void play(const char *name)
{
	char path[256], *scratch;
	uint64_t end = begin, next_row, next_burst, at;
	size_t cluster = 0;
	long ticks = 0;
	FILE *out;

	snprintf(path, sizeof(path), "%s.rows", name);
	out = fopen(path, "w");
	if (!out)
		fail(path);
	syscall(SYS_set_mempolicy, 0, NULL, 0); /* a kernel without NUMA has none to leave */
	memory = mmap(NULL, size + 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	scratch = mmap(NULL, SCRATCH * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || scratch == MAP_FAILED)
		fail("mmap");
	memory = (char *)(((uintptr_t)memory + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(memory, size, MADV_NOHUGEPAGE);
	madvise(memory, size, MADV_DONTFORK); /* as QEMU marks its RAM */
	if (place == 1) {
		unsigned long both = 3;

		if (syscall(SYS_mbind, memory, size, INTERLEAVE, &both, 3, 0))
			fail("mbind");
	}
	for (size_t page = 0; page < pages; page++) {
		memory[page * PAGE] = 1;
		addresses[page] = memory + page * PAGE;
	}
	prctl(PR_SET_NAME, "CPU 0/TCG");
	puts("ready");
	fflush(stdout);
	next_row = begin + row * 1000000ULL;
	next_burst = begin;
	at = begin;
	for (int phase = 0; phase < count_phases; phase++) {
		choose_hot(phases[phase].mib);
		if (place == 2)
			lay();
		end += phases[phase].ms * 1000000ULL;
		while (at < end) {
			until(at);
			for (uint64_t one = 0; one < rate * TICK / 1000000000ULL; one++) {
				size_t page;

				if (!count_used || roll() % 1000 < cold)
					page = cluster + roll() % (CLUSTER / PAGE);
				else
					page = used[roll() % count_used];
				touch(page);
			}
			at += TICK;
			if (at >= next_burst) {
				do
					cluster = roll() % (size / CLUSTER) * (CLUSTER / PAGE);
				while (hot[cluster / (UNIT / PAGE)]);
				next_burst += BURST;
			}
			if (++ticks % FLUSH == 0) {
				/* an emulated processor keeps translations, and their bits are not set again: this drops them */
				memset(scratch, 1, SCRATCH * PAGE);
				madvise(scratch, SCRATCH * PAGE, MADV_DONTNEED);
			}
			if (at >= next_row) {
				write_row(out, (at - begin) / 1000000ULL, phase);
				next_row += row * 1000000ULL;
			}
		}
	}
	fclose(out);
}

static void fill(size_t bytes)
{
	unsigned long node = 1;
	char *held = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (held == MAP_FAILED || syscall(SYS_mbind, held, bytes, BIND, &node, 2, 0))
		fail("filling");
	memset(held, 1, bytes);
	puts("filled");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "fill")) {
		fill(strtoul(argv[2], NULL, 10) * MIB);
		return 0;
	}
	if (argc < 5 || strcmp(argv[1], "play")) {
		fprintf(stderr, "tiering: play NAME MIB FACTS..., or fill MIB\n");
		return 2;
	}
	size = strtoul(argv[3], NULL, 10) * MIB;
	pages = size / PAGE;
	units = size / UNIT;
	if (!units || units > MOST_UNITS || size % UNIT) {
		fprintf(stderr, "tiering: MIB has to be a multiple of 4, and at most 16384\n");
		return 2;
	}
	for (int i = 4; i < argc; i++) {
		char *value = strchr(argv[i], '='), *colon = strchr(argv[i], ':');

		if (colon && count_phases < MOST_PHASES) {
			phases[count_phases].ms = strtoul(argv[i], NULL, 10);
			phases[count_phases++].mib = strtoul(colon + 1, NULL, 10);
			if (phases[count_phases - 1].mib * MIB >= size) {
				fprintf(stderr, "tiering: not all of the memory can be hot\n");
				return 2;
			}
			continue;
		}
		for (size_t one = 0; value && one < sizeof(facts) / sizeof(*facts); one++)
			if (!strncmp(facts[one].name, argv[i], value - argv[i]) && !facts[one].name[value - argv[i]])
				*facts[one].value = strtoul(value + 1, NULL, 10);
	}
	dice ^= (uint64_t)argv[2][strlen(argv[2]) - 1] << 32;
	accesses = room(pages * sizeof(*accesses));
	used = room(pages * sizeof(*used));
	hot = room(units);
	addresses = room(pages * sizeof(*addresses));
	nodes = room(pages * sizeof(*nodes));
	status = room(pages * sizeof(*status));
	play(argv[2]);
	return 0;
}
