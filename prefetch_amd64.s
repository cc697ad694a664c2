#include "textflag.h"

// func prefetch(address, size uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ address+0(FP), AX
	MOVQ size+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX
line:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	CMPQ AX, CX
	JCS  line
	RET
