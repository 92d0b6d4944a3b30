package main

import "fmt"

// scoreStride is Attend's distance of rows of scores, in bytes: ScoreStride.
const scoreStride = 272 * 4

// ahead is how many pieces before its turn a piece is fetched: Ahead.
const ahead = 4

// Registers of the products of attention:
//
//	DI              the Attend
//	R8              where in the list of pieces the next offset is
//	R10             output of the group
//	R11             tiles left
//	AX, BX, SI, R9  the group's tiles: pieces of keys, or dimensions of values
//	CX              offset in every tile of the column at hand
//	DX              queries or weights, then output rows
//	R12 … R15       as scores and values say
//
// Every piece is in the first cache before its turn: pages lie anywhere, and what
// is not contiguous no processor fetches ahead by itself.

// attends writes both products of every format.
func attends(f *file, s *isa) {
	for _, w := range attendFormats {
		k := &kernel{file: f, isa: s, format: w}
		k.attend("scores", scoreGroups, func() {
			k.op("MOVQ", "Attend_Pieces(DI)", "R8")
			k.op("MOVQ", "Attend_Cache(DI)", "R12")
		}, (*kernel).scores)
		k.attend("values", valueGroups, func() {
			k.op("MOVQ", "Attend_Cache(DI)", "AX")
		}, (*kernel).values)
	}
}

// attend writes one product: a branch per number of columns that has groups.
func (k *kernel) attend(name string, groups func(*isa, int) []int, start func(), group func(*kernel)) {
	k.function(name+k.format.name+k.isa.name, "(args *Attend)", 8)
	k.op("MOVQ", "args+0(FP)", "DI")
	k.op("MOVQ", "Attend_Out(DI)", "R10")
	k.op("MOVQ", "Attend_tiles(DI)", "R11")
	if k.format.name == "BF16" {
		k.makeMask()
	}
	start()
	k.op("MOVQ", "Attend_NR(DI)", "R13")
	most := k.maxCols
	for len(groups(k.isa, most)) == 0 {
		most--
	}
	k.perColumns(most, func(nr int) {
		for _, tiles := range groups(k.isa, nr) {
			group(&kernel{file: k.file, isa: k.isa, format: k.format, nr: nr, tiles: tiles})
		}
	})
}

// scoreGroups lists how many pieces are computed at once: eight chains where the
// registers hold them, down to one piece.
func scoreGroups(s *isa, nr int) []int {
	k := kernel{isa: s}
	switch {
	case nr <= 2 && (4*nr+4)*s.parts <= k.last():
		return []int{4, 2, 1}
	case (2*nr+2)*s.parts+1 <= k.last():
		return []int{2, 1}
	}
	return []int{1}
}

// valueGroups lists how many tiles are computed at once: each has two chains. It
// is empty for more columns than the registers hold.
func valueGroups(s *isa, nr int) (sizes []int) {
	k := kernel{isa: s}
	for n := 4; n > 0; n /= 2 {
		if (2*nr+1)*n*s.parts < k.last() {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// scores loops over groups of pieces. R12 holds the cache's address, R13 where to
// stop in a piece.
func (k *kernel) scores() {
	name := fmt.Sprintf("cols%dtiles%d", k.nr, k.tiles)
	k.label(name)
	k.op("CMPQ", "R11", imm(k.tiles))
	k.op("JLT", name+"end")
	k.each(func(tile, col, part int) { k.zero(k.file, k.acc(tile, col, part)) }, nil)
	for i, r := range tileRegs[:k.tiles] {
		k.op("MOVQ", mem(8*i, "R8"), r)
		k.op("ADDQ", "R12", r)
	}
	k.op("ADDQ", imm(8*k.tiles), "R8")
	k.op("MOVQ", "Attend_X(DI)", "DX")
	k.op("XORQ", "CX", "CX")
	k.op("MOVQ", "Attend_pairs(DI)", "R13")
	k.op("IMUL3Q", imm(k.pair), "R13", "R13")
	k.op("TESTQ", "R13", "R13")
	k.op("JZ", name+"odd")
	k.op("PCALIGN", imm(32))
	k.label(name + "pair")
	for i := range k.tiles {
		k.op("MOVQ", mem(8*i, "R8"), "R14")
		k.op("ADDQ", "R12", "R14")
		k.prefetch("R14", "CX")
	}
	k.column(0)
	k.column(1)
	k.op("ADDQ", imm(k.pair), "CX")
	k.op("ADDQ", imm(8*k.nr), "DX")
	k.op("CMPQ", "CX", "R13")
	k.op("JNE", name+"pair")
	k.label(name + "odd")
	k.op("TESTQ", imm(1), "Attend_Dim(DI)")
	k.op("JZ", name+"store")
	k.column(0)
	k.label(name + "store")
	k.each(func(tile, col, part int) {
		k.op("VMOVUPS", k.acc(tile, col, part), mem(scoreStride*col+64*tile+k.isa.width*part, "R10"))
	}, nil)
	k.op("ADDQ", imm(64*k.tiles), "R10")
	k.op("SUBQ", imm(k.tiles), "R11")
	k.op("JMP", name)
	k.label(name + "end")
}

// prefetch fetches the two columns at base+index.
func (k *kernel) prefetch(base, index string) {
	for at := 0; at < k.pair; at += 64 {
		k.op("PREFETCHT0", fmt.Sprintf("%s(%s*1)", mem(at, base), index))
	}
}

// values loops over groups of tiles, and in each over pieces. Even positions add to
// one set of chains and odd ones to another, because a head has few tiles. R13 holds
// how many positions are left, R12 how many, plus one, there will be after this
// piece, R14 how much further the piece to be fetched is, and AX the group's first
// tile.
func (k *kernel) values() {
	name := fmt.Sprintf("cols%dtiles%d", k.nr, k.tiles)
	k.label(name)
	k.op("CMPQ", "R11", imm(k.tiles))
	k.op("JLT", name+"end")
	for i := range 2 * k.tiles * k.nr * k.parts {
		k.zero(k.file, k.reg(i))
	}
	for i, r := range tileRegs[1:k.tiles] {
		k.op("MOVQ", tileRegs[i], r)
		k.op("ADDQ", "Attend_TileBytes(DI)", r)
	}
	k.op("MOVQ", "Attend_Pieces(DI)", "R8")
	k.op("MOVQ", "Attend_X(DI)", "DX")
	k.op("MOVQ", "Attend_Positions(DI)", "R13")
	k.label(name + "piece")
	k.op("TESTQ", "R13", "R13")
	k.op("JLE", name+"store")
	k.op("MOVQ", "(R8)", "CX")
	k.op("MOVQ", mem(8*ahead, "R8"), "R14")
	k.op("SUBQ", "CX", "R14")
	k.op("ADDQ", imm(8), "R8")
	k.op("XORQ", "R15", "R15")
	k.op("MOVQ", "R13", "R12")
	k.op("SUBQ", imm(16), "R12")
	k.op("CMOVQLT", "R15", "R12")
	k.op("INCQ", "R12")
	k.op("CMPQ", "R13", "R12")
	k.op("JLE", name+"odd")
	k.op("PCALIGN", imm(32))
	k.label(name + "pair")
	k.op("LEAQ", "(CX)(R14*1)", "R15")
	for _, r := range tileRegs[:k.tiles] {
		k.prefetch(r, "R15")
	}
	k.position(0)
	k.position(1)
	k.op("ADDQ", imm(k.pair), "CX")
	k.op("ADDQ", imm(8), "DX")
	k.op("SUBQ", imm(2), "R13")
	k.op("CMPQ", "R13", "R12")
	k.op("JGT", name+"pair")
	k.label(name + "odd")
	k.op("JLT", name+"piece")
	k.position(0)
	k.label(name + "store")
	k.storeValues()
	k.op("JMP", name)
	k.label(name + "end")
}

// chain is the accumulator of even or odd positions.
func (k *kernel) chain(odd, tile, col, part int) string {
	return k.acc(odd*k.tiles+tile, col, part)
}

// position adds the values of one of the two positions at hand, weighted.
func (k *kernel) position(odd int) {
	value := func(tile, part int) string { return k.reg((2*k.tiles*k.nr+tile)*k.parts + part) }
	for tile := range k.tiles {
		for part := range k.parts {
			k.widen(tile, part, odd, value(tile, part))
		}
	}
	for col := range k.nr {
		weight := mem(scoreStride*col+4*odd, "DX")
		if k.tiles == 1 && k.evex {
			k.op("VFMADD231PS.BCST", weight, value(0, 0), k.chain(odd, 0, col, 0))
			continue
		}
		k.op("VBROADCASTSS", weight, k.value())
		for tile := range k.tiles {
			for part := range k.parts {
				k.op("VFMADD231PS", k.value(), value(tile, part), k.chain(odd, tile, col, part))
			}
		}
	}
}

// storeValues adds the two sets of chains and moves on to the next group.
func (k *kernel) storeValues() {
	k.firstRow("Attend")
	k.each(func(tile, col, part int) {
		sum := k.chain(0, tile, col, part)
		k.op("VADDPS", k.chain(1, tile, col, part), sum, sum)
		k.op("VMOVUPS", sum, k.output(tile, part))
	}, k.nextRow)
	k.op("MOVQ", tileRegs[k.tiles-1], "AX")
	k.op("ADDQ", "Attend_TileBytes(DI)", "AX")
	k.op("ADDQ", imm(64*k.tiles), "R10")
	k.op("SUBQ", imm(k.tiles), "R11")
}
