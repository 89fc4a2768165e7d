/*
 * Moves memory between two NUMA nodes and back with move_pages(2), in several ways by turns, and says how long each took.
 *
 * migrate ROUNDS SMALL HUGE ARM...: a line "ARM BYTES NANOSECONDS" per arm and round. SMALL and HUGE are the MiB that lie in
 * pages of 4 KiB and of 2 MiB. An arm is WAY:BATCH:THREADS, where the way is "small" or "huge" and the batch is the pages
 * of one call; or "swap:BATCH:THREADS": a set of huge pages goes down and another one comes up, one after the other by one
 * thread, or at once by two.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SMALL 4096UL
#define HUGE (2UL << 20)
#define MIB (1UL << 20)
#define MOST 4096

struct part {
	char *start;
	size_t pages, step;
	int batch, node;
	pthread_barrier_t *begin;
};

static void fail(const char *what)
{
	fprintf(stderr, "migrate: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *move(void *given)
{
	struct part *part = given;
	void *pages[MOST];
	int nodes[MOST], status[MOST];

	if (part->begin)
		pthread_barrier_wait(part->begin);
	for (size_t done = 0; done < part->pages; done += part->batch) {
		int count = part->pages - done < (size_t)part->batch ? (int)(part->pages - done) : part->batch;

		for (int i = 0; i < count; i++) {
			pages[i] = part->start + (done + i) * part->step;
			nodes[i] = part->node;
		}
		if (syscall(SYS_move_pages, 0, (long)count, pages, nodes, status, 2) < 0)
			fail("move_pages");
		for (int i = 0; i < count; i++) {
			if (status[i] != part->node) {
				errno = status[i] < 0 ? -status[i] : EAGAIN;
				fail("a page was not moved");
			}
		}
	}
	return NULL;
}

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ULL + at.tv_nsec;
}

/* The parts at once, a thread each; nanoseconds. */
static uint64_t at_once(struct part *parts, int count)
{
	pthread_barrier_t begin;
	pthread_t threads[16];
	uint64_t began;

	if (count == 1) {
		began = now();
		move(&parts[0]);
		return now() - began;
	}
	pthread_barrier_init(&begin, NULL, count + 1);
	for (int i = 0; i < count; i++) {
		parts[i].begin = &begin;
		if (pthread_create(&threads[i], NULL, move, &parts[i]))
			fail("pthread_create");
	}
	pthread_barrier_wait(&begin);
	began = now();
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	began = now() - began;
	pthread_barrier_destroy(&begin);
	return began;
}

static uint64_t there_and_back(char *start, size_t size, size_t step, int batch, int threads)
{
	struct part parts[16];
	uint64_t took = 0;

	for (int node = 1; node >= 0; node--) {
		for (int i = 0; i < threads; i++) {
			size_t share = size / threads;

			parts[i] = (struct part){start + i * share, share / step, step, batch, node, NULL};
		}
		took += at_once(parts, threads);
	}
	return took;
}

/* One half lies on node 0 and the other on node 1: they change places, and back. */
static uint64_t swapped(char *start, size_t size, int batch, int threads)
{
	uint64_t took = 0;
	struct part up = {start + size / 2, size / 2 / HUGE, HUGE, batch, 1, NULL};

	move(&up);
	for (int turn = 0; turn < 2; turn++) {
		struct part parts[2] = {
			{start, size / 2 / HUGE, HUGE, batch, !turn, NULL},
			{start + size / 2, size / 2 / HUGE, HUGE, batch, turn, NULL},
		};

		if (threads == 2) {
			took += at_once(parts, 2);
		} else {
			took += at_once(&parts[0], 1);
			took += at_once(&parts[1], 1);
		}
	}
	up.node = 0;
	move(&up);
	return took;
}

static char *mapped(size_t size, int advice)
{
	char *start = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		fail("mmap");
	start = (char *)(((uintptr_t)start + HUGE - 1) & ~(HUGE - 1));
	if (madvise(start, size, advice))
		fail("madvise");
	for (size_t at = 0; at < size; at += SMALL)
		*(size_t *)(start + at) = at;
	return start;
}

static void check(const char *start, size_t size)
{
	for (size_t at = 0; at < size; at += SMALL) {
		if (*(const size_t *)(start + at) != at) {
			errno = EIO;
			fail("a page does not hold what was written to it");
		}
	}
}

int main(int count, char **words)
{
	if (count < 5)
		return 2;

	int rounds = atoi(words[1]);
	size_t small_size = strtoul(words[2], NULL, 10) * MIB, huge_size = strtoul(words[3], NULL, 10) * MIB;
	char *small = mapped(small_size, MADV_NOHUGEPAGE), *huge = mapped(huge_size, MADV_HUGEPAGE);

	/* whatever they lie on now: a round begins on node 0 */
	move(&(struct part){small, small_size / SMALL, SMALL, 512, 0, NULL});
	move(&(struct part){huge, huge_size / HUGE, HUGE, 16, 0, NULL});
	for (int round = 0; round < rounds; round++) {
		for (int i = 4; i < count; i++) {
			char way[16];
			int batch, threads;
			size_t size;
			uint64_t took;

			if (sscanf(words[i], "%15[a-z]:%d:%d", way, &batch, &threads) != 3 || batch < 1 || batch > MOST ||
			    threads < 1 || threads > 16) {
				errno = EINVAL;
				fail(words[i]);
			}
			if (!strcmp(way, "small")) {
				size = small_size;
				took = there_and_back(small, size, SMALL, batch, threads);
			} else if (!strcmp(way, "huge")) {
				size = huge_size;
				took = there_and_back(huge, size, HUGE, batch, threads);
			} else {
				size = huge_size;
				took = swapped(huge, size, batch, threads);
			}
			printf("%s %zu %llu\n", words[i], 2 * size, (unsigned long long)took);
		}
	}
	check(small, small_size);
	check(huge, huge_size);
	return 0;
}
