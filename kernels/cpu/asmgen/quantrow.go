package main

import "fmt"

// quantize writes the quantisation of a row, block by block. It needs AVX2 only,
// so every instruction set shares it.
func quantize(f *file) {
	f.line("")
	f.comment("the order of dwords that undoes the packing of two lanes")
	for i, pair := range []uint64{0x4_0000_0000, 0x5_0000_0001, 0x6_0000_0002, 0x7_0000_0003} {
		f.line("DATA unpackOrder<>+%d(SB)/8, $0x%016x", 8*i, pair)
	}
	f.line("GLOBL unpackOrder<>(SB), RODATA|NOPTR, $32")
	f.function("quantizeBlocks", "(q *int8, scale *float32, sums *int32, x *float32, blocks int)", 40)
	for i, r := range []string{"DI", "DX", "R8", "SI", "CX"} {
		f.op("MOVQ", fmt.Sprintf("%s+%d(FP)", []string{"q", "scale", "sums", "x", "blocks"}[i], 8*i), r)
	}
	f.op("VMOVDQU", "unpackOrder<>(SB)", "Y14")
	f.op("VPCMPEQD", "Y15", "Y15", "Y15")
	f.op("VPSRLD", imm(1), "Y15", "Y15")
	f.op("MOVL", fmt.Sprintf("$0x%08x", f32(127)), "AX")
	f.op("VMOVD", "AX", "X13")
	f.label("block")
	largest(f)
	f.op("CMPL", "AX", fmt.Sprintf("$0x%08x", f32(1e-30)))
	f.op("JCS", "zero")
	f.op("CMPL", "AX", "$0x7f800000")
	f.op("JCC", "nan")
	roundBlock(f)
	f.label("next")
	f.op("ADDQ", imm(128), "SI")
	f.op("ADDQ", imm(32), "DI")
	f.op("ADDQ", imm(4), "DX")
	f.op("ADDQ", imm(8), "R8")
	f.op("DECQ", "CX")
	f.op("JNZ", "block")
	f.end()
	f.label("nan")
	f.op("MOVL", "$0x7fc00000", "(DX)")
	f.op("JMP", "clear")
	f.label("zero")
	f.op("MOVL", "$0", "(DX)")
	f.label("clear")
	f.op("MOVQ", "$0", "(R8)")
	f.op("VPXOR", "Y0", "Y0", "Y0")
	f.op("VMOVDQU", "Y0", "(DI)")
	f.op("JMP", "next")
}

// largest loads a block into Y0 to Y3 and sets AX and X4 to the largest absolute
// value, compared as bits.
func largest(f *file) {
	for i := range 4 {
		f.op("VMOVUPS", mem(32*i, "SI"), fmt.Sprintf("Y%d", i))
		f.op("VPAND", "Y15", fmt.Sprintf("Y%d", i), fmt.Sprintf("Y%d", 4+i))
	}
	f.op("VPMAXUD", "Y5", "Y4", "Y4")
	f.op("VPMAXUD", "Y7", "Y6", "Y6")
	f.op("VPMAXUD", "Y6", "Y4", "Y4")
	f.op("VEXTRACTI128", imm(1), "Y4", "X5")
	f.op("VPMAXUD", "X5", "X4", "X4")
	for _, order := range []int{0x4e, 0xb1} {
		f.op("VPSHUFD", imm(order), "X4", "X5")
		f.op("VPMAXUD", "X5", "X4", "X4")
	}
	f.op("VMOVD", "X4", "AX")
}

// roundBlock stores a block's integers, scale and sums.
func roundBlock(f *file) {
	f.op("VDIVSS", "X13", "X4", "X5")
	f.op("VMOVSS", "X5", "(DX)")
	f.op("VDIVSS", "X4", "X13", "X6")
	f.op("VBROADCASTSS", "X6", "Y6")
	for i := range 4 {
		x := fmt.Sprintf("Y%d", i)
		f.op("VMULPS", "Y6", x, x)
		f.op("VCVTPS2DQ", x, x)
	}
	f.op("VPADDD", "Y1", "Y0", "Y4")
	f.op("VPADDD", "Y3", "Y2", "Y5")
	f.op("VPHADDD", "Y5", "Y4", "Y4")
	f.op("VPHADDD", "Y4", "Y4", "Y4")
	f.op("VEXTRACTI128", imm(1), "Y4", "X5")
	f.op("VPADDD", "X5", "X4", "X4")
	f.op("VMOVQ", "X4", "(R8)")
	f.op("VPACKSSDW", "Y1", "Y0", "Y0")
	f.op("VPACKSSDW", "Y3", "Y2", "Y2")
	f.op("VPACKSSWB", "Y2", "Y0", "Y0")
	f.op("VPERMD", "Y0", "Y14", "Y0")
	f.op("VMOVDQU", "Y0", "(DI)")
}
