# A guest in place of a BIOS: writes to every page of its memory, says "r" on the serial line, and waits there for a byte
# before it does so again; or, with RESTS, halts for good. Linked so that the last 16 bytes are where an x86 processor begins.
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
	xorl	%ebx, %ebx
again:
	incl	%ebx
	movl	$0x100000, %edi
page:
	movl	%edi, %eax
	addl	%ebx, %eax
	movl	%eax, (%edi)
	addl	$4096, %edi
	cmpl	$END, %edi
	jb	page
	movw	$0x3f8, %dx
	movb	$'r', %al
	outb	%al, %dx
await:
#ifdef RESTS
	hlt
	jmp	await
#endif
	movw	$0x3fd, %dx
	inb	%dx, %al
	testb	$1, %al
	jz	await
	movw	$0x3f8, %dx
	inb	%dx, %al
	jmp	again
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
