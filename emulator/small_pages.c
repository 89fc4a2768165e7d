/*
 * An <emulator> for libvirt: QEMU whose memory is never in transparent huge pages.
 *
 * Neither libvirt nor QEMU can ask for that, and the kernel's word for it, PR_SET_THP_DISABLE, holds for the process that
 * says it and for what that becomes. So this says it and becomes QEMU, in the same process and with the same words: who
 * asks it for capabilities, as libvirt does, is answered by QEMU itself.
 *
 *   cc -O2 -Wall -o /usr/bin/memhint-small-pages emulator/small_pages.c
 *
 * With -DQEMU='"/opt/qemu/bin/qemu-system-x86_64"' it becomes that one and no other.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NAME "memhint-small-pages: "

#ifndef QEMU
/* What QEMU calls a processor, where the kernel has another word for it. */
static const char *qemus_word(const char *machine)
{
	return strcmp(machine, "ppc64le") ? machine : "ppc64";
}
#endif

int main(int argc, char **argv)
{
	(void)argc;
	if (prctl(PR_SET_THP_DISABLE, 1L, 0L, 0L, 0L)) {
		fprintf(stderr, NAME "PR_SET_THP_DISABLE: %s\n", strerror(errno));
		return 1; /* a VM that is to have small pages is not started with others */
	}
#ifdef QEMU
	argv[0] = QEMU;
	execv(QEMU, argv);
	fprintf(stderr, NAME QEMU ": %s\n", strerror(errno));
#else
	struct utsname host;
	char native[sizeof host.machine + sizeof "/usr/bin/qemu-system-"];
	uname(&host);
	snprintf(native, sizeof native, "/usr/bin/qemu-system-%s", qemus_word(host.machine));
	/* The second is where Red Hat and its kin have it. libvirt looks for them in this order, too. */
	const char *const known[] = {native, "/usr/libexec/qemu-kvm"};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		argv[0] = (char *)known[i];
		execv(known[i], argv);
		if (errno != ENOENT) {
			fprintf(stderr, NAME "%s: %s\n", known[i], strerror(errno));
			return 1;
		}
	}
	fprintf(stderr, NAME "there is neither %s nor /usr/libexec/qemu-kvm\n", native);
#endif
	return 1;
}
