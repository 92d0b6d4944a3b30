package main

import "fmt"

// packFour interleaves four rows, four columns at a time, by transposing 4x4
// blocks. It needs AVX only, so every instruction set shares it.
func packFour(f *file) {
	f.function("packFour", "(dst, src *float32, quads, ldBytes, strideBytes int)", 40)
	f.op("MOVQ", "dst+0(FP)", "DI")
	f.op("MOVQ", "src+8(FP)", "SI")
	f.op("MOVQ", "quads+16(FP)", "CX")
	f.op("MOVQ", "ldBytes+24(FP)", "R8")
	f.op("MOVQ", "strideBytes+32(FP)", "R9")
	f.op("LEAQ", "(R8)(R8*2)", "R10")
	f.op("LEAQ", "(R9)(R9*2)", "R11")
	f.op("TESTQ", "CX", "CX")
	f.op("JLE", "done")
	f.label("quad")
	for i, at := range []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R10*1)"} {
		f.op("VMOVUPS", at, fmt.Sprintf("X%d", i))
	}
	f.op("VUNPCKLPS", "X1", "X0", "X4")
	f.op("VUNPCKHPS", "X1", "X0", "X5")
	f.op("VUNPCKLPS", "X3", "X2", "X6")
	f.op("VUNPCKHPS", "X3", "X2", "X7")
	f.op("VUNPCKLPD", "X6", "X4", "X0")
	f.op("VUNPCKHPD", "X6", "X4", "X1")
	f.op("VUNPCKLPD", "X7", "X5", "X2")
	f.op("VUNPCKHPD", "X7", "X5", "X3")
	for i, at := range []string{"(DI)", "(DI)(R9*1)", "(DI)(R9*2)", "(DI)(R11*1)"} {
		f.op("VMOVUPS", fmt.Sprintf("X%d", i), at)
	}
	f.op("ADDQ", imm(16), "SI")
	f.op("LEAQ", "(DI)(R9*4)", "DI")
	f.op("DECQ", "CX")
	f.op("JNZ", "quad")
	f.label("done")
	f.end()
}

// packTwo interleaves two rows, four columns at a time, for the rows that
// packFour leaves.
func packTwo(f *file) {
	f.function("packTwo", "(dst, src *float32, quads, ldBytes, strideBytes int)", 40)
	f.op("MOVQ", "dst+0(FP)", "DI")
	f.op("MOVQ", "src+8(FP)", "SI")
	f.op("MOVQ", "quads+16(FP)", "CX")
	f.op("MOVQ", "ldBytes+24(FP)", "R8")
	f.op("MOVQ", "strideBytes+32(FP)", "R9")
	f.op("LEAQ", "(R9)(R9*2)", "R11")
	f.op("TESTQ", "CX", "CX")
	f.op("JLE", "done")
	f.label("quad")
	f.op("VMOVUPS", "(SI)", "X0")
	f.op("VMOVUPS", "(SI)(R8*1)", "X1")
	f.op("VUNPCKLPS", "X1", "X0", "X2")
	f.op("VUNPCKHPS", "X1", "X0", "X3")
	f.op("VMOVLPS", "X2", "(DI)")
	f.op("VMOVHPS", "X2", "(DI)(R9*1)")
	f.op("VMOVLPS", "X3", "(DI)(R9*2)")
	f.op("VMOVHPS", "X3", "(DI)(R11*1)")
	f.op("ADDQ", imm(16), "SI")
	f.op("LEAQ", "(DI)(R9*4)", "DI")
	f.op("DECQ", "CX")
	f.op("JNZ", "quad")
	f.label("done")
	f.end()
}
