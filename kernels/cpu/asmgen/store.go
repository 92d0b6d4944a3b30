package main

import "fmt"

// stores writes what a cache's tiles are filled with: rotations of keys, and rows of
// F16 and I8 that go to a lane of a tile or to a column of several.
func (k rowKernel) stores() {
	k.rotate()
	k.magnitude()
	for _, format := range []string{"F16", "I8"} {
		k.store("storeLane", format, k.toLane)
		k.store("storeColumns", format, k.toColumn)
	}
}

// rotate turns the pairs of elements at AX and BX by the angles of cosines at SI and
// sines at DI, every product rounded.
func (k rowKernel) rotate() {
	k.function("rotate"+k.name, "(x, cos, sin *float32, groups, halfBytes int)", 40)
	k.op("MOVQ", "x+0(FP)", "AX")
	k.op("MOVQ", "AX", "BX")
	k.op("ADDQ", "halfBytes+32(FP)", "BX")
	k.op("MOVQ", "cos+8(FP)", "SI")
	k.op("MOVQ", "sin+16(FP)", "DI")
	k.op("MOVQ", "groups+24(FP)", "CX")
	k.loop(func(part int) {
		a, b, cos, sin := k.reg(0), k.reg(1), k.reg(2), k.reg(3)
		sum, product := k.reg(4), k.reg(5)
		k.op("VMOVUPS", k.part(part, "AX"), a)
		k.op("VMOVUPS", k.part(part, "BX"), b)
		k.op("VMOVUPS", k.part(part, "SI"), cos)
		k.op("VMOVUPS", k.part(part, "DI"), sin)
		k.op("VMULPS", cos, a, sum)
		k.op("VMULPS", sin, b, product)
		k.op("VSUBPS", product, sum, sum)
		k.op("VMOVUPS", sum, k.part(part, "AX"))
		k.op("VMULPS", cos, b, sum)
		k.op("VMULPS", sin, a, product)
		k.op("VADDPS", product, sum, sum)
		k.op("VMOVUPS", sum, k.part(part, "BX"))
	}, "AX", "BX", "SI", "DI")
	k.end()
}

// magnitude returns the largest pattern of an element without its sign. As integers,
// because a NaN is then the largest, and not lost.
func (k rowKernel) magnitude() {
	k.function("magnitude"+k.name, "(x *float32, groups int) uint32", 20)
	k.op("MOVQ", "x+0(FP)", "AX")
	k.op("MOVQ", "groups+8(FP)", "CX")
	for part := range k.parts {
		k.zero(k.file, k.reg(part))
	}
	k.loop(func(part int) {
		x := k.reg(4)
		k.op("VMOVUPS", k.part(part, "AX"), x)
		k.op("VANDPS", constant("magnitude"), x, x)
		k.op("VPMAXSD", x, k.reg(part), k.reg(part))
	}, "AX")
	if k.evex {
		k.op("VEXTRACTI64X4", imm(1), "Z0", "Y1")
	}
	k.op("VPMAXSD", "Y1", "Y0", "Y0")
	k.op("VEXTRACTI128", imm(1), "Y0", "X1")
	k.op("VPMAXSD", "X1", "X0", "X0")
	for _, order := range []int{0x0e, 1} {
		k.op("VPSHUFD", imm(order), "X0", "X1")
		k.op("VPMAXSD", "X1", "X0", "X0")
	}
	k.op("VMOVD", "X0", "AX")
	k.op("MOVL", "AX", "ret+16(FP)")
	k.end()
}

// store writes a kernel that converts groups of sixteen elements at AX and hands
// their halves or bytes, at DX, to write; groups go strideBytes apart.
func (k rowKernel) store(name, format string, write func(format string, part int)) {
	signature, size := "(dst *byte, src *float32, groups, strideBytes int)", 32
	if format == "I8" {
		signature, size = "(dst *byte, src *float32, groups, strideBytes int, inverse float32)", 36
	}
	k.function(name+format+k.name, signature, size)
	k.op("MOVQ", "dst+0(FP)", "DX")
	k.op("MOVQ", "src+8(FP)", "AX")
	k.op("MOVQ", "groups+16(FP)", "CX")
	k.op("MOVQ", "strideBytes+24(FP)", "BX")
	if format == "I8" {
		k.op("VBROADCASTSS", "inverse+32(FP)", k.reg(4))
	}
	k.op("VMOVUPS", constant("least"+format), k.reg(14))
	k.op("VMOVUPS", constant("most"+format), k.reg(15))
	k.loop(func(part int) {
		x := k.reg(part)
		if format == "I8" {
			k.op("VMULPS", k.part(part, "AX"), k.reg(4), x)
		} else {
			k.op("VMOVUPS", k.part(part, "AX"), x)
		}
		// A NaN stays one: see loadLimits.
		k.op("VMAXPS", x, k.reg(14), x)
		k.op("VMINPS", x, k.reg(15), x)
		if format == "F16" {
			k.op("VCVTPS2PH", imm(0), x, k.halves())
			write(format, part)
		} else {
			k.op("VCVTPS2DQ", x, x)
		}
		if part < k.parts-1 {
			return
		}
		if format == "I8" {
			k.packBytes()
			write(format, 0)
		}
		k.op("ADDQ", "BX", "DX")
	}, "AX")
	k.end()
}

// halves is the register that a part's halves are in.
func (k rowKernel) halves() string {
	if k.evex {
		return "Y2"
	}
	return "X2"
}

// packBytes narrows the sixteen integers in register 0 (and 1) to bytes in X2; that
// of a NaN becomes the lowest.
func (k rowKernel) packBytes() {
	if k.evex {
		k.op("VPMOVSDB", "Z0", "X2")
		return
	}
	k.op("VPACKSSDW", "Y1", "Y0", "Y0")
	k.op("VPERMQ", imm(0xd8), "Y0", "Y0") // words of 128 bits each came from both
	k.op("VEXTRACTI128", imm(1), "Y0", "X1")
	k.op("VPACKSSWB", "X1", "X0", "X2")
}

// toColumn writes elements side by side.
func (k rowKernel) toColumn(format string, part int) {
	if format == "F16" {
		k.op("VMOVDQU", k.halves(), mem(k.width/2*part, "DX"))
		return
	}
	k.op("VMOVDQU", "X2", "(DX)")
}

// toLane writes elements to one lane of columns.
func (k rowKernel) toLane(format string, part int) {
	if format == "I8" {
		for i := range 16 {
			k.op("VPEXTRB", imm(i), "X2", mem(16*i, "DX"))
		}
		return
	}
	for eight := range k.width / 32 {
		if eight == 1 {
			k.op("VEXTRACTI128", imm(1), "Y2", "X2")
		}
		for i := range 8 {
			k.op("VPEXTRW", imm(i), "X2", mem(32*(k.width/4*part+8*eight+i), "DX"))
		}
	}
}

// declareStores writes the Go declarations of what stores writes.
func declareStores(f *file, s *isa) {
	for _, d := range []string{
		"rotate%s(x, cos, sin *float32, groups, halfBytes int)",
		"magnitude%s(x *float32, groups int) uint32",
		"storeLaneF16%s(dst *byte, src *float32, groups, strideBytes int)",
		"storeColumnsF16%s(dst *byte, src *float32, groups, strideBytes int)",
		"storeLaneI8%s(dst *byte, src *float32, groups, strideBytes int, inverse float32)",
		"storeColumnsI8%s(dst *byte, src *float32, groups, strideBytes int, inverse float32)",
	} {
		declareOne(f, fmt.Sprintf(d, s.name))
	}
}
