# A guest in place of a BIOS that works with its memory as a byte on its serial line says, and answers "r", or "x" where
# a word is not what it wrote:
#   f        writes every word of its memory: its own address
#   h        writes a word of three pages in ten: of the first, the fourth and the seventh
#   0 to 9   writes a word of each page of all, and reads every word of that page so often before it goes on
# Linked so that the last 16 bytes are where an x86 processor begins.
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
