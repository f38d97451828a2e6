#include "textflag.h"

// func rawVfork(trap, flags uintptr) (pid, errno uintptr)
//
// The child shares the parent's stack and overwrites what lies below the
// caller's frame, this call's return address included. It is kept in a
// register meanwhile.
TEXT ·rawVfork(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	trap+0(FP), AX
	MOVQ	flags+8(FP), DI
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	MOVQ	$-1, pid+16(FP)
	NEGQ	AX
	MOVQ	AX, errno+24(FP)
	RET
ok:
	MOVQ	AX, pid+16(FP)
	MOVQ	$0, errno+24(FP)
	RET
