# What guests in place of a BIOS begin and end with: from the reset of an x86 processor to 32 bits without paging. Linked so
# that the last 16 bytes are where the processor begins.
	.macro	enter
	.code16
	.globl	_start
_start:
	cli
	lgdtl	%cs:(gdtr - _start + 0xf000)
	movl	%cr0, %eax
	orb	$1, %al
	movl	%eax, %cr0
	ljmpl	$8, $flat
	.code32
flat:
	movw	$16, %ax
	movw	%ax, %ds
	.endm

	.macro	leave_room_for_reset
	.balign	8
gdt:
	.quad	0
	.quad	0x00cf9a000000ffff
	.quad	0x00cf92000000ffff
gdtr:
	.word	23
	.long	gdt
	.org	0xff0
	.code16
	jmp	_start
	.org	0x1000
	.endm
