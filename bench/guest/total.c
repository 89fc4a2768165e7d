// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A TCG plugin: how many instructions a guest with one CPU has executed so far.
 *
 *   -plugin total.so,out=FILE
 *
 * The file holds one 64-bit number that follows the guest; whoever wants to know reads it at any time. Nothing grows
 * with what the guest does, so QEMU's resident memory is not changed by being watched. Each repetition of a string
 * instruction counts, as with QEMU's -icount. See count.c for why the functions of QEMU are declared here.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_info;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*cb)(unsigned cpu, void *data), int flags,
					  void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);

EXPORT int qemu_plugin_version = VERSION;

static volatile uint64_t *total;

static void run_block(unsigned cpu, void *data)
{
	(void)cpu;
	*total += (uintptr_t)data;
}

static void translate(plugin_id id, struct qemu_plugin_tb *tb)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, run_block, 0, (void *)(uintptr_t)qemu_plugin_tb_n_insns(tb));
}

EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
	int fd = -1;

	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			fd = open(argv[i] + 4, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, sizeof(*total))) {
		fprintf(stderr, "total.so: needs an out= that can be written\n");
		return 1;
	}
	total = mmap(NULL, sizeof(*total), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (total == MAP_FAILED) {
		perror("total.so");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
