// SPDX-License-Identifier: GPL-2.0
/*
 * As page_fault1 of will-it-scale does, by one or several tasks: map 128 MiB, touch each page, unmap. The pages of all
 * tasks together are as many in each window.
 *
 * Several tasks hand over to each other. Were it left to the scheduler who runs when, a handful of instructions more or
 * less would change the order, and with it which blocks are whole: two kernels would differ by chance, and not a little.
 *
 * Of its own it takes the word
 *
 *   tasks=N     at most so many at a time
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "window.h"

enum { SIZE = 128 * MIB, MOST = 4 };

/*
 * A CPU keeps freed pages on lists of its own, by default as many as it thinks it needs, up to an eighth of memory: most
 * pages never get to where blocks form, and two runs of one kernel differ by up to 2 %. `lists` is
 * vm.percpu_pagelist_high_fraction and fixes how many. 2000 is the least there can be, 252 pages: nearly all are merged to
 * blocks. Blocks of 2 MiB would then push page tables out by chance, therefore 8 there: an eighth of memory stays.
 *
 * `turn` is what a task touches before it hands over: about what the scheduler gives it time for, 3 ms.
 */
static const struct kind {
	const char *name, *lists;
	int advice;
	size_t page, turn;
	int rounds;
} kinds[] = {
	{ "base", "2000", MADV_NOHUGEPAGE, PAGE, MIB, 4 },
	{ "thp", "8", MADV_HUGEPAGE, BLOCK, 32 * MIB, 32 },
};

static const struct tasks {
	const char *name;
	int nr, threads;
} tasks[] = { { "1", 1, 0 }, { "2p", 2, 0 }, { "4p", 4, 0 }, { "2t", 2, 1 }, { "4t", 4, 1 } };

static struct {
	const struct kind *kind;
	int nr, rounds;
	int ready[2], go[2], done[2], end[2];
} job;

/* The number of the task that may run. Processes see it, too. */
static _Atomic int *turn;

static void await_turn(int me)
{
	int now;

	while ((now = atomic_load(turn)) != me)
		syscall(SYS_futex, turn, FUTEX_WAIT_BITSET, now, NULL, NULL, 1 << me);
}

static void hand_over(int me)
{
	int next = (me + 1) % job.nr;

	if (next == me)
		return;
	atomic_store(turn, next);
	syscall(SYS_futex, turn, FUTEX_WAKE_BITSET, 1, NULL, NULL, 1 << next);
}

static void run_round(int me)
{
	char *whole = NULL, *p = NULL;

	for (size_t at = 0; at < SIZE; at += job.kind->turn) {
		await_turn(me);
		if (!at) {
			whole = map(SIZE + BLOCK);
			p = (char *)(((uintptr_t)whole + BLOCK - 1) & ~(uintptr_t)(BLOCK - 1));
			madvise(p, SIZE, job.kind->advice);
		}
		touch(p + at, job.kind->turn, job.kind->page);
		if (at + job.kind->turn == SIZE)
			munmap(whole, SIZE + BLOCK);
		hand_over(me);
	}
}

static void *work(void *number)
{
	int me = (intptr_t)number;

	run_round(me);
	give(job.ready[1], 1);
	await(job.go[0], 1);
	for (int i = 0; i < job.rounds; i++)
		run_round(me);
	give(job.done[1], 1);
	/* what a task takes to end is not counted */
	await(job.end[0], 1);
	return NULL;
}

static void start(const struct tasks *set, pthread_t *threads)
{
	for (int i = 0; i < set->nr; i++) {
		void *number = (void *)(intptr_t)i;

		if (set->threads) {
			if (pthread_create(&threads[i], NULL, work, number))
				fail("pthread_create");
			continue;
		}
		switch (fork()) {
		case -1:
			fail("fork");
			break;
		case 0:
			work(number);
			_exit(0);
		}
	}
}

static void run(const struct kind *kind, const struct tasks *set)
{
	int rounds = (kind->rounds * scale / 100 + set->nr - 1) / set->nr;
	pthread_t threads[MOST];
	char name[32];

	job.kind = kind;
	job.nr = set->nr;
	job.rounds = rounds;
	atomic_store(turn, 0);
	put("/proc/sys/vm/percpu_pagelist_high_fraction", kind->lists);
	start(set, threads);
	await(job.ready[0], set->nr);
	open_window();
	give(job.go[1], set->nr);
	await(job.done[0], set->nr);
	snprintf(name, sizeof(name), "%s-%s", kind->name, set->name);
	close_window(name, rounds * set->nr * (int)(SIZE / kind->page));
	give(job.end[1], set->nr);
	for (int i = 0; i < set->nr; i++)
		if (set->threads)
			pthread_join(threads[i], NULL);
		else
			wait(NULL);
}

int main(void)
{
	begin_guest();
	if (pipe(job.ready) || pipe(job.go) || pipe(job.done) || pipe(job.end))
		fail("pipe");
	turn = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (turn == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (size_t j = 0; j < sizeof(tasks) / sizeof(tasks[0]); j++)
			if (tasks[j].nr <= number("tasks", MOST))
				run(&kinds[i], &tasks[j]);
	end_guest();
	return 0;
}
