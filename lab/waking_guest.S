# A guest in place of a BIOS that works with its memory as a byte on its serial line says, and answers "r", or "x" where
# a word is not what it wrote:
#   f        writes every word of its memory: its own address
#   h        writes a word of three pages in ten: of the first, the fourth and the seventh
#   0 to 9   writes a word of each page of all, and reads every word of that page so often before it goes on
#include "flat_guest.S"
	enter
	movb	$'r', %bl
answer:
	movw	$0x3f8, %dx
	movb	%bl, %al
	outb	%al, %dx
	movb	$'r', %bl
	movl	$0x100000, %edi
await:
	movw	$0x3fd, %dx
	inb	%dx, %al
	testb	$1, %al
	jz	await
	movw	$0x3f8, %dx
	inb	%dx, %al
	cmpb	$'f', %al
	je	fill
	cmpb	$'h', %al
	je	hot
	subb	$'0', %al
	movzbl	%al, %ebp
page:
	movl	%edi, (%edi)
	leal	4096(%edi), %esi
	movl	%ebp, %ecx
again:
	subl	$1, %ecx
	jc	next
	leal	-4096(%esi), %edi
word:
	cmpl	%edi, (%edi)
	jne	wrong
	addl	$4, %edi
	cmpl	%esi, %edi
	jb	word
	jmp	again
next:
	movl	%esi, %edi
	cmpl	$END, %edi
	jb	page
	jmp	answer
wrong:
	movb	$'x', %bl
	jmp	answer
fill:
	movl	%edi, (%edi)
	addl	$4, %edi
	cmpl	$END, %edi
	jb	fill
	jmp	answer
hot:
	movl	%edi, (%edi)
	movl	$0x3000, %esi
	addl	%edi, %esi
	movl	%esi, (%esi)
	addl	$0x3000, %esi
	movl	%esi, (%esi)
	addl	$0xa000, %edi
	cmpl	$END - 0x7000, %edi
	jb	hot
	jmp	answer
	leave_room_for_reset
