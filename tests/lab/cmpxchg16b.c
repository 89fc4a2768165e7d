/*
 * cmpxchg16b changes the zero flag and no other. Says which flags it leaves where those of the instruction before it
 * were not looked at by anything, for a few terms of an addition: the first process of a guest, or a program anywhere.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/reboot.h>
#include <unistd.h>

static uint64_t flags_after(uint64_t term)
{
	static __attribute__((aligned(16))) uint64_t cell[2];
	uint64_t flags;

	cell[0] = cell[1] = 0;
	asm volatile("pushfq\n\t"
		     "popfq\n\t"		/* from here an emulator has the flags as one word */
		     "jmp	1f\n"		/* and begins a new block */
		     "1:\n\t"
		     "xor	%%eax, %%eax\n\t"
		     "xor	%%edx, %%edx\n\t"
		     "xor	%%ebx, %%ebx\n\t"
		     "xor	%%ecx, %%ecx\n\t"
		     "add	%[term], %%r8\n\t"
		     "cmpxchg16b %[cell]\n\t"
		     "pushfq\n\t"
		     "popq	%[flags]\n\t"
		     "pushq	$2\n\t"
		     "popfq\n"
		     : [flags] "=&r"(flags), [cell] "+m"(cell)
		     : [term] "r"(term)
		     : "rax", "rbx", "rcx", "rdx", "r8", "cc", "memory");
	return flags;
}

int main(void)
{
	static const uint64_t terms[] = { 0, 0x40000, 0xdeadbeef };

	for (unsigned int i = 0; i < sizeof(terms) / sizeof(*terms); i++)
		printf("flags %#lx %#lx\n", terms[i], flags_after(terms[i]));
	fflush(stdout);
	if (getpid() == 1)
		reboot(RB_POWER_OFF);
	return 0;
}
