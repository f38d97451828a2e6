#include "textflag.h"

// func rawClone(flags uintptr) uintptr
// The child exits at once, before any Go code could run in it.
TEXT ·rawClone(SB), NOSPLIT, $0-16
	MOVQ	flags+0(FP), DI
	XORQ	SI, SI
	XORQ	DX, DX
	XORQ	R10, R10
	XORQ	R8, R8
	MOVQ	$56, AX
	SYSCALL
	CMPQ	AX, $0
	JEQ	child
	MOVQ	AX, ret+8(FP)
	RET
child:
	MOVQ	$0, DI
	MOVQ	$231, AX
	SYSCALL
	INT	$3
	RET

// func rawClone3(args unsafe.Pointer, size uintptr) uintptr
TEXT ·rawClone3(SB), NOSPLIT, $0-24
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	$435, AX
	SYSCALL
	CMPQ	AX, $0
	JEQ	child
	MOVQ	AX, ret+16(FP)
	RET
child:
	MOVQ	$0, DI
	MOVQ	$231, AX
	SYSCALL
	INT	$3
	RET

// func int80(number uintptr) uintptr
// A system call through the 32-bit gate, numbered as on i386.
TEXT ·int80(SB), NOSPLIT, $0-16
	MOVQ	number+0(FP), AX
	XORQ	BX, BX
	XORQ	CX, CX
	XORQ	DX, DX
	INT	$0x80
	MOVQ	AX, ret+8(FP)
	RET
