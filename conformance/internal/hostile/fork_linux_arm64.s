#include "textflag.h"

// func rawClone(flags uintptr) uintptr
// The child exits at once, before any Go code could run in it.
TEXT ·rawClone(SB), NOSPLIT, $0-16
	MOVD	flags+0(FP), R0
	MOVD	$0, R1
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$220, R8
	SVC
	CBZ	R0, child
	MOVD	R0, ret+8(FP)
	RET
child:
	MOVD	$0, R0
	MOVD	$94, R8
	SVC
	RET

// func rawClone3(args unsafe.Pointer, size uintptr) uintptr
TEXT ·rawClone3(SB), NOSPLIT, $0-24
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	$435, R8
	SVC
	CBZ	R0, child
	MOVD	R0, ret+16(FP)
	RET
child:
	MOVD	$0, R0
	MOVD	$94, R8
	SVC
	RET

// func int80(number uintptr) uintptr
// There is no such gate here.
TEXT ·int80(SB), NOSPLIT, $0-16
	MOVD	$-38, R0
	MOVD	R0, ret+8(FP)
	RET
