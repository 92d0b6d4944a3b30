package main

import "fmt"

// isa is an instruction set as the kernels see it. Sixteen float32 lanes are
// parts registers of width bytes.
type isa struct {
	name, file string
	prefix     string // of a vector register
	width      int    // of a vector register, bytes
	parts      int
	evex       bool // masks, broadcasts in operands, 32 registers
	dots       bool // dot products of bytes
	maxCols    int
	// tiles lists, for a panel of nr columns, how many tiles are computed at
	// once: the largest group that the registers hold, at most four, then
	// smaller ones for the rest. Eight or more chains keep two FMA units with a
	// latency of four cycles busy; fewer suffice where memory is the limit.
	tiles func(nr int) []int
}

var avx512 = &isa{
	name: "AVX512", file: "avx512", prefix: "Z", width: 64, parts: 1, evex: true, dots: true, maxCols: 12,
	tiles: func(nr int) []int {
		switch {
		case nr <= 2:
			return []int{4, 2, 1}
		case nr <= 6:
			return []int{4, 1}
		}
		return []int{2, 1}
	},
}

var avx2 = &isa{
	name: "AVX2", file: "avx2", prefix: "Y", width: 32, parts: 2, maxCols: 6,
	tiles: func(nr int) []int {
		switch nr {
		case 1:
			return []int{4, 2, 1}
		case 2:
			return []int{2, 1}
		}
		return []int{1}
	},
}

// avxvnni is AVX2 with dot products of bytes, and used for those only.
var avxvnni = &isa{name: "AVXVNNI", file: "avxvnni", prefix: "Y", width: 32, parts: 2, dots: true}

// reg names vector register i.
func (s *isa) reg(i int) string {
	if !s.evex && i >= 16 || i >= 32 {
		panic(fmt.Sprintf("%s has no register %d", s.name, i))
	}
	return fmt.Sprintf("%s%d", s.prefix, i)
}

// zero clears a register.
func (s *isa) zero(f *file, r string) {
	if s.evex {
		f.op("VPXORD", r, r, r)
	} else {
		f.op("VXORPS", r, r, r)
	}
}

// and is the bitwise operation on whole registers.
func (s *isa) and() string {
	if s.evex {
		return "VPANDD"
	}
	return "VPAND"
}

// load is the move of integer lanes.
func (s *isa) load() string {
	if s.evex {
		return "VMOVDQU32"
	}
	return "VMOVDQU"
}
