package main

import (
	"fmt"
	"strconv"
	"strings"
)

// Registers of a product of quantised weights:
//
//	DI              the QGemm
//	R8              the group's first tile
//	R10             output of the group
//	R11             tiles left
//	AX, BX, SI, R9  the group's tiles
//	CX              offset in every tile of the block's integers
//	R13             offset of the block's scales
//	R15             offset of the scales' scale, of types with two levels
//	R14             where R13 will be when R15 has to move on
//	DX              integers of the panel, then output rows
//	SI              weights to be asked for ahead, where fewer tiles leave it free
//	R12             what else the panel has for the block, then the distance of output rows

// scaling is how integers become numbers.
type scaling uint8

const (
	oneScale  scaling = iota // a half per 32 columns
	scaleMin                 // halves per 256 columns times bytes per 32, for a scale and a min
	halfBlock                // a half per 256 columns times a signed byte per 16
)

// qformat is a type of quantised weights.
type qformat struct {
	name    string
	bits    int  // per integer
	signed  bool // integers are 128 above what they stand for
	scaling scaling
}

var qformats = []qformat{
	{"Q8", 8, true, oneScale},
	{"Q4", 4, false, oneScale},
	{"Q4K", 4, false, scaleMin},
	{"Q5K", 5, false, scaleMin},
	{"Q6K", 6, false, halfBlock},
}

// wide reports whether an integer takes a byte; of others, the low four bits of two
// share one.
func (q qformat) wide() bool { return q.bits == 8 }

// bytes returns the bytes of a block's integers in a tile.
func (q qformat) bytes() int { return 64 * q.bits }

// side returns the words per block and column that go with the panel.
func (q qformat) side() int {
	if q.scaling == halfBlock {
		return 3
	}
	return 2
}

// maxQCols is the most columns of a panel.
func (s *isa) maxQCols() int {
	if s.evex {
		return 8
	}
	return 2
}

// qtiles lists, for a panel of nr columns, how many tiles are computed at once. A
// single column needs many streams from memory to use all of its bandwidth; with
// many, one tile's integers come from a register and the panel from operands.
func (s *isa) qtiles(nr int) []int {
	switch {
	case s.evex && nr == 1:
		return []int{4, 1}
	case s.evex && nr > 6:
		return []int{1}
	case s.evex || nr == 1:
		return []int{2, 1}
	}
	return []int{1}
}

// quantFiles adds the kernels of quantised weights to files.
func quantFiles(files map[string][]byte) {
	decl := newFile("package cpu", "", "// The functions below have no bounds checks: their callers check.")
	for _, s := range []*isa{avx2, avxvnni, avx512} {
		f := newFile(`#include "go_asm.h"`, `#include "textflag.h"`)
		magic(f)
		for _, q := range qformats {
			qgemm(f, s, q)
			declareOne(decl, fmt.Sprintf("qgemm%s%s(args *QGemm)", q.name, s.name))
		}
		files["qgemm_"+s.file+"_amd64.s"] = f.bytes()
	}
	f := newFile(`#include "textflag.h"`)
	quantize(f)
	declareOne(decl, "quantizeBlocks(q *int8, scale *float32, sums *int32, x *float32, blocks int)")
	files["quantize_amd64.s"] = f.bytes()
	files["qdecl_amd64.go"] = decl.bytes()
}

// qgemm writes the function of one type, with a branch per number of columns.
func qgemm(f *file, s *isa, q qformat) {
	f.function("qgemm"+q.name+s.name, "(args *QGemm)", 8)
	f.op("MOVQ", "args+0(FP)", "DI")
	f.op("MOVQ", "QGemm_W(DI)", "R8")
	f.op("MOVQ", "QGemm_Out(DI)", "R10")
	f.op("MOVQ", "QGemm_Tiles(DI)", "R11")
	f.op("MOVQ", "QGemm_Ahead(DI)", "SI")
	(&qkernel{kernel: kernel{file: f, isa: s}, qformat: q}).constants()
	f.op("MOVQ", "QGemm_NR(DI)", "R13")
	f.perColumns(s.maxQCols(), func(nr int) {
		for _, tiles := range s.qtiles(nr) {
			k := &qkernel{kernel: kernel{file: f, isa: s, nr: nr, tiles: tiles}, qformat: q}
			k.group()
		}
	})
}

// qkernel is the code for tiles tiles times nr columns. Its registers: the
// accumulators of integers (dot), then those of floats (acc), then temporary ones
// (temp), constants at the end.
type qkernel struct {
	kernel
	qformat
}

func (k *qkernel) dot(tile, col, part int) string { return k.kernel.acc(tile, col, part) }

func (k *qkernel) acc(tile, col, part int) string {
	return k.reg((k.tiles*k.nr+tile*k.nr+col)*k.parts + part)
}

// temp is temporary register i.
func (k *qkernel) temp(i int) string { return k.reg(2*k.tiles*k.nr*k.parts + i) }

// The constants: mask has every byte's low half set, or only its sign where
// integers are signed; ones has every 16-bit word 1.
func (k *qkernel) mask() string { return k.reg(k.last()) }
func (k *qkernel) ones() string { return k.reg(k.last() - 1) }

func (k *qkernel) constants() {
	set := func(value, reg string) {
		k.op("MOVL", "$"+value, "AX")
		if k.evex {
			k.op("VPBROADCASTD", "AX", reg)
			return
		}
		k.op("VMOVD", "AX", "X0")
		k.op("VPBROADCASTD", "X0", reg)
	}
	switch {
	case !k.wide():
		set("0x0f0f0f0f", k.mask())
	case k.signed && !k.dots:
		set("0x80808080", k.mask())
	}
	switch k.bits {
	case 5:
		set("0x10101010", k.upper())
	case 6:
		set("0x30303030", k.upper())
	}
	if !k.dots {
		set("0x00010001", k.ones())
	}
	if k.evex && (k.bits == 4 || k.wide()) {
		k.op("VMOVUPS", "qmagic<>+64(SB)", k.minusMagic())
	}
}

// group loops over groups of k.tiles tiles while as many are left, and in each
// over blocks.
func (k *qkernel) group() {
	name := fmt.Sprintf("cols%dtiles%d", k.nr, k.tiles)
	k.label(name)
	k.op("CMPQ", "R11", imm(k.tiles))
	k.op("JLT", name+"end")
	for _, r := range tileRegs[:k.tiles] {
		k.op("MOVQ", "R8", r)
		k.op("ADDQ", "QGemm_TileBytes(DI)", "R8")
	}
	k.each(func(tile, col, part int) { k.zero(k.file, k.acc(tile, col, part)) }, nil)
	k.op("MOVQ", "QGemm_X(DI)", "DX")
	k.op("MOVQ", "QGemm_Blocks(DI)", "R12")
	k.op("IMUL3Q", imm(32*k.nr), "R12", "R12")
	k.op("ADDQ", "DX", "R12")
	k.op("XORQ", "CX", "CX")
	k.op("MOVQ", "QGemm_end(DI)", "R13")
	if k.scaling != oneScale {
		k.nextScales()
	}
	k.op("PCALIGN", imm(32))
	k.label(name + "block")
	k.askAhead()
	k.block()
	k.op("ADDQ", imm(k.bytes()), "CX")
	k.op("ADDQ", imm(32), "R13")
	k.op("ADDQ", imm(32*k.nr), "DX")
	k.op("ADDQ", imm(4*k.side()*k.nr), "R12")
	if k.scaling != oneScale {
		k.op("CMPQ", "R13", "R14")
		k.op("JNE", name+"block")
		k.nextScales()
	}
	k.op("CMPQ", "CX", "QGemm_end(DI)")
	k.op("JNE", name+"block")
	k.finish(name, "QGemm", k.acc)
	k.op("ADDQ", imm(64*k.tiles), "R10")
	k.op("SUBQ", imm(k.tiles), "R11")
	k.op("JMP", name)
	k.label(name + "end")
}

// nextScales moves on to the scales of the next 256 columns.
func (k *qkernel) nextScales() {
	k.op("MOVQ", "R13", "R15")
	k.op("ADDQ", imm(k.header()), "R13")
	k.op("LEAQ", mem(8*32, "R13"), "R14")
}

// header returns the bytes of halves before the bytes of two levels of scales.
func (k *qkernel) header() int {
	if k.scaling == scaleMin {
		return 64
	}
	return 32
}

// block adds 32 columns. A step is four of them: a word per lane.
func (k *qkernel) block() {
	groups := 1
	if k.scaling == halfBlock {
		groups = 2
	}
	for g := range groups {
		k.startDots(g)
		for step := g * 8 / groups; step < (g+1)*8/groups; step += k.stepsPerLoad() {
			if k.evex {
				k.stepsVNNI(step)
			} else {
				k.stepsAVX2(step)
			}
		}
		k.scale(g)
	}
}

// stepsPerLoad is how many steps a vector of integers is for.
func (k *qkernel) stepsPerLoad() int {
	if k.wide() {
		return 1
	}
	return 2
}

// startDots sets the sums of integers to the magic, less what makes up for the offset.
func (k *qkernel) startDots(group int) {
	bare := k.scaling == scaleMin || k.signed && !k.dots // the panel has none that serves
	k.each(func(tile, col, part int) {
		switch first := k.dot(0, col, 0); {
		case bare:
			k.op(k.load(), "qmagic<>(SB)", k.dot(tile, col, part))
		case tile == 0 && part == 0:
			k.op("VPBROADCASTD", k.sideAt(1+group, col), first)
		default:
			k.move(first, k.dot(tile, col, part))
		}
	}, nil)
}

// move copies a register.
func (k *qkernel) move(from, to string) {
	if k.evex {
		k.op("VMOVDQA32", from, to)
	} else {
		k.op("VMOVDQA", from, to)
	}
}

// sideAt is word i of the block for a column.
func (k *qkernel) sideAt(i, col int) string { return mem(4*(i*k.nr+col), "R12") }

// xAt is the word of the panel for a step and column.
func (k *qkernel) xAt(step, col int) string { return mem(4*(step*k.nr+col), "DX") }

// integers is where the integers of a step are in a tile.
func (k *qkernel) integers(tile, step, part int) string {
	return mem(64*(step/k.stepsPerLoad())+k.width*part, tileRegs[tile]) + "(CX*1)"
}

// prefetch asks for what a tile needs some blocks later: fewer tiles, further ahead.
// Of panels of few columns, the arithmetic is done long before memory answers.
func (k *qkernel) prefetch(tile, step int) {
	distance := 4096 / k.tiles
	if k.nr > 1 {
		distance = 16384 / k.tiles
	}
	k.op("PREFETCHT0", mem(distance+64*(step/k.stepsPerLoad()), tileRegs[tile])+"(CX*1)")
	if lines := k.bits - 4; !k.wide() && step/2 < lines {
		k.op("PREFETCHT0", mem(distance+256+64*(step/2), tileRegs[tile])+"(CX*1)")
	}
}

// askAhead asks for two lines per tile of what is computed after these tiles. Spread
// over blocks and panels that way, it comes while memory would be idle.
func (k *qkernel) askAhead() {
	if k.nr == 1 || !k.evex {
		return
	}
	for i := range 2 * k.tiles {
		k.op("PREFETCHT1", mem(64*i, "SI"))
	}
	k.op("ADDQ", imm(aheadBytes*k.tiles), "SI")
}

// aheadBytes is cpu.aheadBytes.
const aheadBytes = 128

// stepsVNNI adds the products of the steps of one load.
func (k *qkernel) stepsVNNI(step int) {
	low, high := func(tile int) string { return k.temp(tile) }, func(tile int) string { return k.temp(k.tiles + tile) }
	for tile := range k.tiles {
		k.prefetch(tile, step)
		k.op("VMOVDQU32", k.integers(tile, step, 0), low(tile))
		if !k.wide() {
			k.op("VPSRLW", imm(4), low(tile), high(tile))
			k.op("VPANDD", k.mask(), low(tile), low(tile))
			k.op("VPANDD", k.mask(), high(tile), high(tile))
			k.addUpper(upperBits{tile: tile, step: step, temp: 2 * k.tiles}, low(tile), high(tile))
		}
	}
	for i, w := range []func(int) string{low, high}[:k.stepsPerLoad()] {
		for col := range k.nr {
			if k.tiles == 1 {
				k.op("VPDPBUSD.BCST", k.xAt(step+i, col), w(0), k.dot(0, col, 0))
				continue
			}
			x := k.reg(k.last() - 1)
			k.op("VPBROADCASTD", k.xAt(step+i, col), x)
			for tile := range k.tiles {
				k.op("VPDPBUSD", x, w(tile), k.dot(tile, col, 0))
			}
		}
	}
}

// stepsAVX2 is stepsVNNI with AVX2's registers. Without dot products, pairs of
// products are added in 16 bits: they fit, if integers that may use all eight bits
// are made signed, and their signs given to the other factor.
func (k *qkernel) stepsAVX2(step int) {
	low, high, x, product := k.temp(0), k.temp(1), k.temp(2), k.temp(3)
	for tile := range k.tiles {
		k.prefetch(tile, step)
		for part := range k.parts {
			k.op("VMOVDQU", k.integers(tile, step, part), low)
			switch {
			case !k.wide():
				k.op("VPSRLW", imm(4), low, high)
				k.op("VPAND", k.mask(), low, low)
				k.op("VPAND", k.mask(), high, high)
				k.addUpper(upperBits{tile: tile, step: step, part: part, temp: 4}, low, high)
			case k.signed && !k.dots:
				k.op("VPXOR", k.mask(), low, low)
				k.op("VPABSB", low, high)
			}
			for i, w := range []string{low, high}[:k.stepsPerLoad()] {
				for col := range k.nr {
					k.op("VPBROADCASTD", k.xAt(step+i, col), x)
					if k.dots {
						k.vexDot(x, w, k.dot(tile, col, part))
						continue
					}
					if k.signed {
						k.op("VPSIGNB", low, x, x)
						w = high
					}
					k.op("VPMADDUBSW", x, w, product)
					k.op("VPMADDWD", k.ones(), product, product)
					k.op("VPADDD", product, k.dot(tile, col, part), k.dot(tile, col, part))
				}
			}
		}
	}
}

// vexDot writes VPDPBUSD x, w, dot byte by byte: the assembler knows its EVEX form
// only, which takes AVX-512. VEX.256.66.0F38.W0 50 /r, Intel's manual, volume 2.
func (k *qkernel) vexDot(x, w, dot string) {
	number := func(reg string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(reg, k.prefix))
		if err != nil {
			panic(err)
		}
		return n
	}
	rm, vvvv, reg := number(x), number(w), number(dot)
	k.comment("VPDPBUSD %s, %s, %s", x, w, dot)
	k.op(fmt.Sprintf("BYTE $0xc4; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x50; BYTE $0x%02x",
		(^reg&8)<<4|1<<6|(^rm&8)<<2|2, (^vvvv&15)<<3|1<<2|1, 0xc0|reg&7<<3|rm&7))
}
