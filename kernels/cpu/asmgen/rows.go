package main

import (
	"fmt"
	"math"
)

// The constants of exp, GeluMul and stores, each repeated over sixteen lanes so that every
// instruction set can use it as a memory operand. They are those of the Go code.
var expConstants = []struct {
	name string
	bits uint32
}{
	{"min", f32(-88.1)},
	{"max", f32(88)},
	{"log2e", f32(1.44269504088896341)},
	{"ln2Hi", f32(-0.693359375)},
	{"ln2Lo", f32(2.12194440e-4)},
	{"p0", f32(1.9875691500e-4)},
	{"p1", f32(1.3981999507e-3)},
	{"p2", f32(8.3334519073e-3)},
	{"p3", f32(4.1665795894e-2)},
	{"p4", f32(1.6666665459e-1)},
	{"p5", f32(5.0000001201e-1)},
	{"one", f32(1)},
	{"bias", 127},
	{"sign", 1 << 31},
	{"lowest", f32(math.Inf(-1))},
	{"exp2Min", f32(-127)},
	{"exp2Shift", f32(3<<22 + 127)},
	{"exp2P0", f32(1.535336188319500e-4)},
	{"exp2P1", f32(1.339887440266574e-3)},
	{"exp2P2", f32(9.618437357674640e-3)},
	{"exp2P3", f32(5.550332471162809e-2)},
	{"exp2P4", f32(2.402264791363012e-1)},
	{"exp2P5", f32(6.931472028550421e-1)},
	{"geluLinear", f32(-1.5957691216057308)},
	{"geluCubic", f32(-0.07135481627260025)},
	{"magnitude", 1<<31 - 1},
	{"leastF16", f32(-65504)},
	{"mostF16", f32(65504)},
	{"leastI8", f32(-127)},
	{"mostI8", f32(127)},
}

func f32(x float64) uint32 { return math.Float32bits(float32(x)) }

// constants writes the table.
func constants(f *file) {
	f.line("")
	for i, c := range expConstants {
		f.line("// %s", c.name)
		for lane := 0; lane < 16; lane += 2 {
			f.line("DATA expTable<>+%d(SB)/8, $0x%08x%08x", 64*i+4*lane, c.bits, c.bits)
		}
	}
	f.line("GLOBL expTable<>(SB), RODATA|NOPTR, $%d", 64*len(expConstants))
}

// constant is the memory operand of a constant.
func constant(name string) string {
	for i, c := range expConstants {
		if c.name == name {
			return fmt.Sprintf("expTable<>+%d(SB)", 64*i)
		}
	}
	panic("no constant " + name)
}

// rowKernel writes the loops over a row in groups of sixteen elements. CX counts
// groups; AX, BX and DX walk along up to three rows.
type rowKernel struct {
	*file
	*isa
}

func rows(f *file, s *isa) {
	k := rowKernel{f, s}
	k.sumSquares()
	k.scaleMul()
	k.scale()
	k.blend()
	k.siluMul()
	k.geluMul()
	k.softCap()
	k.softmax()
	k.exp2Row()
	k.stores()
}

// loop writes a loop over the groups, part by part, and moves the cursors on.
func (k rowKernel) loop(body func(part int), cursors ...string) {
	k.op("TESTQ", "CX", "CX")
	k.op("JLE", "done")
	k.label("group")
	for part := range k.parts {
		body(part)
	}
	for _, c := range cursors {
		k.op("ADDQ", imm(64), c)
	}
	k.op("DECQ", "CX")
	k.op("JNZ", "group")
	k.label("done")
}

// part is the address of a part of the group at a cursor.
func (k rowKernel) part(part int, base string) string { return mem(k.width*part, base) }

// reduce combines the sixteen lanes in register first (and the next) to one
// result in X0, in the order of lanes.sum: 8 apart, 4 apart, 2 apart, neighbours.
// It uses registers 0 and 1.
func (k rowKernel) reduce(op string, first int) {
	if k.evex {
		k.op("VEXTRACTF64X4", imm(1), k.reg(first), "Y1")
		k.op(op+"PS", "Y1", fmt.Sprintf("Y%d", first), "Y0")
	} else {
		k.op(op+"PS", k.reg(first+1), k.reg(first), "Y0")
	}
	k.op("VEXTRACTF128", imm(1), "Y0", "X1")
	k.op(op+"PS", "X1", "X0", "X0")
	k.op("VPERMILPS", imm(0x0e), "X0", "X1")
	k.op(op+"PS", "X1", "X0", "X0")
	k.op("VPERMILPS", imm(1), "X0", "X1")
	k.op(op+"SS", "X1", "X0", "X0")
}

func (k rowKernel) sumSquares() {
	k.function("sumSquares"+k.name, "(x *float32, groups int, acc *lanes)", 24)
	k.op("MOVQ", "x+0(FP)", "AX")
	k.op("MOVQ", "groups+8(FP)", "CX")
	k.op("MOVQ", "acc+16(FP)", "SI")
	for part := range k.parts {
		k.zero(k.file, k.reg(part))
	}
	k.loop(func(part int) {
		x := k.reg(4)
		k.op("VMOVUPS", k.part(part, "AX"), x)
		k.op("VFMADD231PS", x, x, k.reg(part))
	}, "AX")
	for part := range k.parts {
		k.op("VMOVUPS", k.reg(part), k.part(part, "SI"))
	}
	k.end()
}

func (k rowKernel) scaleMul() {
	k.function("scaleMul"+k.name, "(dst, x, w *float32, groups int, scale float32)", 36)
	k.op("MOVQ", "dst+0(FP)", "DX")
	k.op("MOVQ", "x+8(FP)", "AX")
	k.op("MOVQ", "w+16(FP)", "BX")
	k.op("MOVQ", "groups+24(FP)", "CX")
	k.op("VBROADCASTSS", "scale+32(FP)", k.reg(0))
	k.loop(func(part int) {
		x := k.reg(1)
		k.op("VMULPS", k.part(part, "AX"), k.reg(0), x)
		k.op("VMULPS", k.part(part, "BX"), x, x)
		k.op("VMOVUPS", x, k.part(part, "DX"))
	}, "AX", "BX", "DX")
	k.end()
}

func (k rowKernel) scale() {
	k.function("scale"+k.name, "(dst, x *float32, groups int, scale float32)", 28)
	k.op("MOVQ", "dst+0(FP)", "DX")
	k.op("MOVQ", "x+8(FP)", "AX")
	k.op("MOVQ", "groups+16(FP)", "CX")
	k.op("VBROADCASTSS", "scale+24(FP)", k.reg(0))
	k.loop(func(part int) {
		x := k.reg(1)
		k.op("VMULPS", k.part(part, "AX"), k.reg(0), x)
		k.op("VMOVUPS", x, k.part(part, "DX"))
	}, "AX", "DX")
	k.end()
}

func (k rowKernel) blend() {
	k.function("blend"+k.name, "(dst, x *float32, groups int, a, b float32)", 32)
	k.op("MOVQ", "dst+0(FP)", "DX")
	k.op("MOVQ", "x+8(FP)", "AX")
	k.op("MOVQ", "groups+16(FP)", "CX")
	k.op("VBROADCASTSS", "a+24(FP)", k.reg(0))
	k.op("VBROADCASTSS", "b+28(FP)", k.reg(1))
	k.loop(func(part int) {
		sum := k.reg(2)
		k.op("VMULPS", k.part(part, "DX"), k.reg(0), sum)
		k.op("VFMADD231PS", k.part(part, "AX"), k.reg(1), sum)
		k.op("VMOVUPS", sum, k.part(part, "DX"))
	}, "AX", "DX")
	k.end()
}

func (k rowKernel) siluMul() {
	k.function("siluMul"+k.name, "(dst, gate, up *float32, groups int)", 32)
	k.op("MOVQ", "dst+0(FP)", "DX")
	k.op("MOVQ", "gate+8(FP)", "AX")
	k.op("MOVQ", "up+16(FP)", "BX")
	k.op("MOVQ", "groups+24(FP)", "CX")
	k.loadLimits()
	k.loop(func(part int) {
		gate, x := k.reg(6+part), k.reg(part)
		k.op("VMOVUPS", k.part(part, "AX"), gate)
		k.op("VXORPS", constant("sign"), gate, x)
		k.exp(part)
		k.op("VADDPS", constant("one"), x, x)
		k.op("VDIVPS", x, gate, x)
		k.op("VMULPS", k.part(part, "BX"), x, x)
		k.op("VMOVUPS", x, k.part(part, "DX"))
	}, "AX", "BX", "DX")
	k.end()
}

func (k rowKernel) geluMul() {
	k.function("geluMul"+k.name, "(dst, gate, up *float32, groups int)", 32)
	k.op("MOVQ", "dst+0(FP)", "DX")
	k.op("MOVQ", "gate+8(FP)", "AX")
	k.op("MOVQ", "up+16(FP)", "BX")
	k.op("MOVQ", "groups+24(FP)", "CX")
	k.loadLimits()
	k.loop(func(part int) {
		gate, x, p := k.reg(6+part), k.reg(part), k.reg(9)
		k.op("VMOVUPS", k.part(part, "AX"), gate)
		k.op("VMULPS", gate, gate, x)
		k.op("VMOVUPS", constant("geluCubic"), p)
		k.op("VFMADD213PS", constant("geluLinear"), x, p)
		k.op("VMULPS", gate, p, x)
		k.exp(part)
		k.op("VADDPS", constant("one"), x, x)
		k.op("VDIVPS", x, gate, x)
		k.op("VMULPS", k.part(part, "BX"), x, x)
		k.op("VMOVUPS", x, k.part(part, "DX"))
	}, "AX", "BX", "DX")
	k.end()
}

func (k rowKernel) softCap() {
	k.function("softCap"+k.name, "(x *float32, groups int, inner, outer, limit float32)", 28)
	k.op("MOVQ", "x+0(FP)", "AX")
	k.op("MOVQ", "groups+8(FP)", "CX")
	inner, outer, limit := k.reg(4), k.reg(5), k.reg(6)
	k.op("VBROADCASTSS", "inner+16(FP)", inner)
	k.op("VBROADCASTSS", "outer+20(FP)", outer)
	k.op("VBROADCASTSS", "limit+24(FP)", limit)
	k.loadLimits()
	k.loop(func(part int) {
		x := k.reg(part)
		k.op("VMULPS", k.part(part, "AX"), inner, x)
		k.exp(part)
		k.op("VADDPS", constant("one"), x, x)
		k.op("VDIVPS", x, outer, x)
		k.op("VSUBPS", limit, x, x)
		k.op("VMOVUPS", x, k.part(part, "AX"))
	}, "AX")
	k.end()
}

// softmax turns rows of scores into weights, row by row: AX walks along one, BX
// is its start. Registers 6 and 7 hold lanes of the largest score, then of the sum.
func (k rowKernel) softmax() {
	k.function("softmax"+k.name, "(x *float32, rows, groups, strideBytes int, scale float32, largest, total *float32)", 56)
	k.op("MOVQ", "x+0(FP)", "BX")
	k.op("MOVQ", "rows+8(FP)", "DX")
	k.op("VBROADCASTSS", "scale+32(FP)", k.reg(4))
	k.op("MOVQ", "largest+40(FP)", "SI")
	k.op("MOVQ", "total+48(FP)", "DI")
	k.loadExp2()
	k.label("row")
	k.pass("max", "lowest", func(part int) {
		x, largest := k.reg(5), k.reg(6+part)
		k.op("VMULPS", k.part(part, "AX"), k.reg(4), x)
		k.op("VMOVUPS", x, k.part(part, "AX"))
		k.op("VMAXPS", x, largest, largest)
	})
	k.reduce("VMAX", 6)
	k.op("VMOVSS", "X0", "(SI)")
	k.op("VBROADCASTSS", "X0", k.reg(8))
	k.pass("exp", "", k.exp2Group)
	k.reduce("VADD", 6)
	k.op("VMOVSS", "X0", "(DI)")
	k.op("ADDQ", "strideBytes+24(FP)", "BX")
	k.op("ADDQ", imm(4), "SI")
	k.op("ADDQ", imm(4), "DI")
	k.op("DECQ", "DX")
	k.op("JNZ", "row")
	k.end()
}

// pass is a loop over the groups of the row at BX, with registers 6 and 7 set to a
// constant before, or to zero.
func (k rowKernel) pass(label, start string, body func(part int)) {
	for part := range k.parts {
		if start == "" {
			k.zero(k.file, k.reg(6+part))
		} else {
			k.op("VMOVUPS", constant(start), k.reg(6+part))
		}
	}
	k.op("MOVQ", "BX", "AX")
	k.op("MOVQ", "groups+16(FP)", "CX")
	k.label(label)
	for part := range k.parts {
		body(part)
	}
	k.op("ADDQ", imm(64), "AX")
	k.op("DECQ", "CX")
	k.op("JNZ", label)
}

// exp2Group replaces a part of the group at AX by exp2(x - register 8) and adds it
// to register 6+part.
func (k rowKernel) exp2Group(part int) {
	x := k.reg(part)
	k.op("VMOVUPS", k.part(part, "AX"), x)
	k.op("VSUBPS", k.reg(8), x, x)
	k.exp2(part)
	k.op("VMOVUPS", x, k.part(part, "AX"))
	k.op("VADDPS", x, k.reg(6+part), k.reg(6+part))
}

func (k rowKernel) exp2Row() {
	k.function("exp2Row"+k.name, "(x *float32, groups int)", 16)
	k.op("MOVQ", "x+0(FP)", "AX")
	k.op("MOVQ", "groups+8(FP)", "CX")
	k.loadExp2()
	k.loop(func(part int) {
		x := k.reg(part)
		k.op("VMOVUPS", k.part(part, "AX"), x)
		k.exp2(part)
		k.op("VMOVUPS", x, k.part(part, "AX"))
	}, "AX")
	k.end()
}

// loadExp2 puts exp2's limit and shift into registers 14 and 15, and its first
// coefficient into 13.
func (k rowKernel) loadExp2() {
	k.op("VMOVUPS", constant("exp2Min"), k.reg(14))
	k.op("VMOVUPS", constant("exp2Shift"), k.reg(15))
	k.op("VMOVUPS", constant("exp2P0"), k.reg(13))
}

// exp2 replaces register part by two to its power, as exp2f does it. It uses
// registers 9 to 11.
func (k rowKernel) exp2(part int) {
	x, p, n, shifted := k.reg(part), k.reg(9), k.reg(10), k.reg(11)
	k.op("VMAXPS", x, k.reg(14), x)
	k.op("VADDPS", k.reg(15), x, shifted)
	k.op("VSUBPS", k.reg(15), shifted, n)
	k.op("VSUBPS", n, x, x)
	k.op("VMOVAPS", k.reg(13), p)
	for _, c := range []string{"exp2P1", "exp2P2", "exp2P3", "exp2P4", "exp2P5", "one"} {
		k.op("VFMADD213PS", constant(c), x, p)
	}
	k.op("VPSLLD", imm(23), shifted, shifted)
	k.op("VMULPS", shifted, p, x)
}

// loadLimits puts exp's limits into registers 14 and 15: MAX and MIN return
// their second source if one is NaN, so the constant must be the first.
func (k rowKernel) loadLimits() {
	k.op("VMOVUPS", constant("min"), k.reg(14))
	k.op("VMOVUPS", constant("max"), k.reg(15))
}

// exp replaces register part by its exponential, as exp32 does it. It uses
// registers 9 to 13.
func (k rowKernel) exp(part int) {
	x, p, n, i, square := k.reg(part), k.reg(9), k.reg(10), k.reg(11), k.reg(12)
	k.op("VMAXPS", x, k.reg(14), x)
	k.op("VMINPS", x, k.reg(15), x)
	k.op("VMULPS", constant("log2e"), x, n)
	k.op("VCVTPS2DQ", n, i)
	k.op("VCVTDQ2PS", i, n)
	k.op("VFMADD231PS", constant("ln2Hi"), n, x)
	k.op("VFMADD231PS", constant("ln2Lo"), n, x)
	k.op("VMOVUPS", constant("p0"), p)
	for _, c := range []string{"p1", "p2", "p3", "p4", "p5"} {
		k.op("VFMADD213PS", constant(c), x, p)
	}
	k.op("VMULPS", x, x, square)
	k.op("VFMADD213PS", x, square, p)
	k.op("VADDPS", constant("one"), p, p)
	k.op("VPADDD", constant("bias"), i, i)
	k.op("VPSLLD", imm(23), i, i)
	k.op("VMULPS", i, p, x)
}
