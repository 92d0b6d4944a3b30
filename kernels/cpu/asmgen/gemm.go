package main

import "fmt"

// Registers of a product:
//
//	DI              the Gemm
//	R8              the group's first tile
//	R10             output of the group
//	R11             tiles left
//	R12             distance of output rows
//	AX, BX, SI, R9  the group's tiles
//	CX, R13         offset in every tile of the column at hand, and where to stop
//	DX              panel, then output rows
//
// Columns are taken two at a time, because a BF16 tile holds them in pairs; an
// odd last one is computed after the loop.

// format is a weight format.
type format struct {
	name string
	pair int // bytes of two columns of a tile
}

var formats = []format{{"F32", 128}, {"F16", 64}, {"BF16", 64}}

// attendFormats are those of keys and values.
var attendFormats = append(formats[:len(formats):len(formats)], format{"I8", 32})

// gemms writes one function per format, with a branch per number of columns.
func gemms(f *file, s *isa) {
	for _, w := range formats {
		f.function("gemm"+w.name+s.name, "(args *Gemm)", 8)
		f.op("MOVQ", "args+0(FP)", "DI")
		f.op("MOVQ", "Gemm_W(DI)", "R8")
		f.op("MOVQ", "Gemm_Out(DI)", "R10")
		f.op("MOVQ", "Gemm_Tiles(DI)", "R11")
		if w.name == "BF16" {
			(&kernel{file: f, isa: s, format: w}).makeMask()
		}
		f.op("MOVQ", "Gemm_NR(DI)", "R13")
		f.perColumns(s.maxCols, func(nr int) {
			for _, tiles := range s.tiles(nr) {
				(&kernel{file: f, isa: s, format: w, nr: nr, tiles: tiles}).group()
			}
		})
	}
}

// perColumns writes a branch that ends the function for every number of columns up
// to most, and jumps to that of R13.
func (f *file) perColumns(most int, write func(nr int)) {
	for nr := 2; nr <= most; nr++ {
		f.op("CMPQ", "R13", imm(nr))
		f.op("JEQ", fmt.Sprintf("cols%d", nr))
	}
	for nr := 1; nr <= most; nr++ {
		f.label(fmt.Sprintf("cols%d", nr))
		write(nr)
		f.end()
	}
}

// tileRegs hold the addresses of a group's tiles.
var tileRegs = []string{"AX", "BX", "SI", "R9"}

// kernel is the code for tiles tiles times nr columns.
type kernel struct {
	*file
	*isa
	format
	nr, tiles int
}

// acc is the accumulator of a tile, column and part.
func (k *kernel) acc(tile, col, part int) string {
	return k.reg((tile*k.nr+col)*k.parts + part)
}

// weight is the register of a tile's widened weights.
func (k *kernel) weight(tile, part int) string {
	return k.reg((k.tiles*k.nr+tile)*k.parts + part)
}

// value is the register of a broadcast activation, mask that of BF16's mask.
func (k *kernel) value() string { return k.reg(k.last() - 1) }
func (k *kernel) mask() string  { return k.reg(k.last()) }

func (k *kernel) last() int {
	if k.evex {
		return 31
	}
	return 15
}

// makeMask sets the mask of a pair's odd column: the high half of every lane.
func (k *kernel) makeMask() {
	if k.evex {
		k.op("VPTERNLOGD", imm(255), k.mask(), k.mask(), k.mask())
	} else {
		k.op("VPCMPEQD", k.mask(), k.mask(), k.mask())
	}
	k.op("VPSLLD", imm(16), k.mask(), k.mask())
}

// group loops over groups of k.tiles tiles while as many are left, and in each
// over pairs of columns.
func (k *kernel) group() {
	name := fmt.Sprintf("cols%dtiles%d", k.nr, k.tiles)
	k.label(name)
	k.op("CMPQ", "R11", imm(k.tiles))
	k.op("JLT", name+"end")
	k.each(func(tile, col, part int) { k.zero(k.file, k.acc(tile, col, part)) }, nil)
	for _, r := range tileRegs[:k.tiles] {
		k.op("MOVQ", "R8", r)
		k.op("ADDQ", "Gemm_TileBytes(DI)", "R8")
	}
	k.op("MOVQ", "Gemm_X(DI)", "DX")
	k.op("XORQ", "CX", "CX")
	k.op("MOVQ", "Gemm_pairs(DI)", "R13")
	k.op("IMUL3Q", imm(k.pair), "R13", "R13")
	k.op("TESTQ", "R13", "R13")
	k.op("JZ", name+"odd")
	k.op("PCALIGN", imm(32))
	k.label(name + "pair")
	k.column(0)
	k.column(1)
	k.op("ADDQ", imm(k.pair), "CX")
	k.op("ADDQ", imm(8*k.nr), "DX")
	k.op("CMPQ", "CX", "R13")
	k.op("JNE", name+"pair")
	k.label(name + "odd")
	k.op("TESTQ", imm(1), "Gemm_K(DI)")
	k.op("JZ", name+"next")
	k.column(0)
	k.label(name + "next")
	k.finish(name, "Gemm", k.acc)
	k.op("ADDQ", imm(64*k.tiles), "R10")
	k.op("SUBQ", imm(k.tiles), "R11")
	k.op("JMP", name)
	k.label(name + "end")
}

// finish stores the accumulators acc, with Add after adding what is there. args is
// the name of the struct at DI.
func (k *kernel) finish(name, args string, acc func(tile, col, part int) string) {
	k.op("CMPQ", args+"_Finish(DI)", "$const_Add")
	k.op("JNE", name+"set")
	k.firstRow(args)
	k.each(func(tile, col, part int) {
		a := acc(tile, col, part)
		k.op("VADDPS", k.output(tile, part), a, a)
	}, k.nextRow)
	k.label(name + "set")
	k.firstRow(args)
	k.each(func(tile, col, part int) {
		k.op("VMOVUPS", acc(tile, col, part), k.output(tile, part))
	}, k.nextRow)
}

// each visits every accumulator, column by column, with between after each
// column but the last.
func (k *kernel) each(visit func(tile, col, part int), between func()) {
	for col := range k.nr {
		if col > 0 && between != nil {
			between()
		}
		for tile := range k.tiles {
			for part := range k.parts {
				visit(tile, col, part)
			}
		}
	}
}

// firstRow points DX at the group's output and sets R12 to the distance of rows in
// bytes. args is the name of the struct at DI.
func (k *kernel) firstRow(args string) {
	k.op("MOVQ", "R10", "DX")
	if k.nr > 1 {
		k.op("MOVQ", args+"_LDO(DI)", "R12")
		k.op("SHLQ", imm(2), "R12")
	}
}

func (k *kernel) nextRow() { k.op("ADDQ", "R12", "DX") }

// output is where a tile's part is in the output row at DX.
func (k *kernel) output(tile, part int) string { return mem(64*tile+k.isa.width*part, "DX") }

// column adds the products of one of the two columns at hand.
func (k *kernel) column(odd int) {
	if k.nr == 1 {
		k.oneColumn(odd)
		return
	}
	for tile := range k.tiles {
		for part := range k.parts {
			k.widen(tile, part, odd, k.weight(tile, part))
		}
	}
	for col := range k.nr {
		x := mem(4*(odd*k.nr+col), "DX")
		if k.tiles == 1 && k.evex {
			k.op("VFMADD231PS.BCST", x, k.weight(0, 0), k.acc(0, col, 0))
			continue
		}
		k.op("VBROADCASTSS", x, k.value())
		for tile := range k.tiles {
			for part := range k.parts {
				k.op("VFMADD231PS", k.value(), k.weight(tile, part), k.acc(tile, col, part))
			}
		}
	}
}

// oneColumn is column for a panel of one: each weight is used once, so that a
// few registers in turn are enough for all tiles.
func (k *kernel) oneColumn(odd int) {
	k.op("VBROADCASTSS", mem(4*odd, "DX"), k.value())
	first := k.tiles * k.parts
	for tile := range k.tiles {
		for part := range k.parts {
			if k.format.name == "F32" {
				k.op("VFMADD231PS", k.tileAt(tile, part, odd), k.value(), k.acc(tile, 0, part))
				continue
			}
			w := k.reg(first + (tile*k.parts+part)%4)
			k.widen(tile, part, odd, w)
			k.op("VFMADD231PS", k.value(), w, k.acc(tile, 0, part))
		}
	}
}

// widen loads sixteen weights of one column, or the part of them, as float32.
func (k *kernel) widen(tile, part, odd int, to string) {
	at := k.tileAt(tile, part, odd)
	switch {
	case k.format.name == "F32":
		k.op("VMOVUPS", at, to)
	case k.format.name == "F16":
		k.op("VCVTPH2PS", at, to)
	case k.format.name == "I8":
		k.op("VPMOVSXBD", at, to)
		k.op("VCVTDQ2PS", to, to)
	case odd == 1:
		k.op(k.and(), at, k.mask(), to)
	case k.evex:
		k.op("VPSLLD", imm(16), at, to)
	default:
		k.op(k.load(), at, to)
		k.op("VPSLLD", imm(16), to, to)
	}
}

// tileAt is the address of one column's part of a tile.
func (k *kernel) tileAt(tile, part, odd int) string {
	disp := 0
	switch k.format.name {
	case "F32":
		disp = 64*odd + k.isa.width*part
	case "F16":
		disp = 32*odd + k.isa.width/2*part
	case "I8":
		disp = 16*odd + k.isa.width/4*part
	case "BF16": // both columns are in the same lanes
		disp = k.isa.width * part
	}
	return mem(disp, tileRegs[tile]) + "(CX*1)"
}
