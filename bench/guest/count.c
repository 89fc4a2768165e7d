// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A TCG plugin: instructions a guest executes inside windows which its own program opens and closes.
 *
 *   -plugin count.so,begin=ADDRESS,end=ADDRESS,out=FILE
 *
 * A window opens when the instruction at `begin` is executed and closes at the one at `end`. For each the file gets
 *
 *   window INSTRUCTIONS STEPS MINOR_FAULTS SYSTEM_US WALL_US RESIDENT
 *   at ADDRESS INSTRUCTIONS            (hexadecimal; one line per block of code that ran)
 *
 * INSTRUCTIONS counts a repeated string instruction (rep movs, rep stos) once, as a CPU's counter of retired instructions
 * does. STEPS counts each repetition, as QEMU's clock does with -icount. A block that a page fault ends early is counted
 * whole. Faults and system time are those of QEMU, by getrusage(2): what /proc/PID/stat shows. RESIDENT: its pages when the
 * window opened. For a guest with one CPU.
 *
 * The functions of QEMU are declared here: no package has the header for every version. These did not change since 4.2.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*cb)(unsigned cpu, void *data), int flags,
					  void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*cb)(unsigned cpu, void *data),
					    int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/* a translation block: code that runs from the first instruction to the last */
struct block {
	struct block *next;
	uint64_t first, last, nr, runs, repeats;
};

EXPORT int qemu_plugin_version = VERSION;

static struct block *blocks;
static uint64_t begin, end, latest;
static struct rusage opened;
static int64_t opened_at;
static unsigned long resident;
static FILE *out;

static void run_block(unsigned cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	block->runs++;
	/* QEMU runs a repeated instruction as a block of its own that jumps to itself */
	if (block->nr == 1 && block->first == latest)
		block->repeats++;
	latest = block->last;
}

static int64_t microseconds(struct timeval time)
{
	return time.tv_sec * 1000000LL + time.tv_usec;
}

static int64_t wall(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static unsigned long resident_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		abort();
	fclose(file);
	return pages;
}

static void open_window(unsigned cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (struct block *block = blocks; block; block = block->next)
		block->runs = block->repeats = 0;
	resident = resident_pages();
	opened_at = wall();
	getrusage(RUSAGE_SELF, &opened);
}

static void close_window(unsigned cpu, void *data)
{
	uint64_t instructions = 0, steps = 0;
	struct rusage now;

	(void)cpu;
	(void)data;
	getrusage(RUSAGE_SELF, &now);
	for (struct block *block = blocks; block; block = block->next) {
		instructions += block->runs * block->nr - block->repeats;
		steps += block->runs * block->nr;
	}
	fprintf(out, "window %" PRIu64 " %" PRIu64 " %ld %" PRId64 " %" PRId64 " %lu\n", instructions, steps,
		now.ru_minflt - opened.ru_minflt, microseconds(now.ru_stime) - microseconds(opened.ru_stime),
		wall() - opened_at, resident);
	for (struct block *block = blocks; block; block = block->next)
		if (block->runs)
			fprintf(out, "at %" PRIx64 " %" PRIu64 "\n", block->first, block->runs * block->nr - block->repeats);
	fflush(out);
}

static void translate(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t nr = qemu_plugin_tb_n_insns(tb);
	struct block *block = calloc(1, sizeof(*block));

	(void)id;
	if (!block)
		abort();
	block->nr = nr;
	block->first = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	block->last = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, nr - 1));
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, run_block, 0, block);
	for (size_t i = 0; i < nr; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t at = qemu_plugin_insn_vaddr(insn);

		if (at == begin)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, open_window, 0, NULL);
		if (at == end)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, close_window, 0, NULL);
	}
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "begin=", 6))
			begin = strtoull(argv[i] + 6, NULL, 0);
		else if (!strncmp(argv[i], "end=", 4))
			end = strtoull(argv[i] + 4, NULL, 0);
		else if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "w");
	}
	if (!begin || !end || !out) {
		fprintf(stderr, "count.so: needs begin=, end= and an out= that can be written\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
