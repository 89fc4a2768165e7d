# A guest in place of a BIOS: writes to every page of its memory, says "r" on the serial line, and waits there for a byte
# before it does so again; or, with RESTS, halts for good.
#include "flat_guest.S"
	enter
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
	leave_room_for_reset
