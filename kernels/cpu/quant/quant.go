package quant

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
)

// Type is a block layout.
type Type uint8

// The layouts.
const (
	Q8_0 Type = iota // 8 bits, a scale per 32
	Q4_0             // 4 bits, a scale per 32
	Q4_K             // 4 bits, a scale and a min of 6 bits per 32, in blocks of 256
	Q5_K             // 5 bits, otherwise as Q4_K
	Q6_K             // 6 bits, a scale of 8 bits per 16, in blocks of 256
)

// MaxElements is the number of elements in the largest block.
const MaxElements = 256

// layout is the shape of a type's blocks.
type layout struct {
	name     string
	elements int // per block
	bytes    int // per block
	group    int // elements per scale
	offset   int // what q is above the number it stands for
}

var layouts = [...]layout{
	Q8_0: {"q8_0", 32, 34, 32, 128},
	Q4_0: {"q4_0", 32, 18, 32, 8},
	Q4_K: {"q4_k", 256, 144, 32, 0},
	Q5_K: {"q5_k", 256, 176, 32, 0},
	Q6_K: {"q6_k", 256, 210, 16, 32},
}

// String returns ggml's name in small letters.
func (t Type) String() string { return layouts[t].name }

// Elements returns the elements of a block.
func (t Type) Elements() int { return layouts[t].elements }

// Bytes returns the bytes of a block.
func (t Type) Bytes() int { return layouts[t].bytes }

// Group returns for how many elements there is a scale.
func (t Type) Group() int { return layouts[t].group }

// Offset returns what an unpacked q is above the number it stands for.
func (t Type) Offset() int { return layouts[t].offset }

// HasMin reports whether there are mins.
func (t Type) HasMin() bool { return t == Q4_K || t == Q5_K }

// RowBytes returns the bytes of a row of cols elements, a multiple of Elements.
func (t Type) RowBytes(cols int) int { return cols / t.Elements() * t.Bytes() }

// Block is a block taken apart.
type Block struct {
	Q      [MaxElements]uint8 // in the order of the elements
	D      uint16             // IEEE half
	DMin   uint16             // IEEE half; 0 without mins
	Scales [16]int8           // of the groups; 1 where D alone is the scale
	Mins   [8]uint8           // of the groups
}

// Dequantize sets dst to the elements of whole blocks. The only rounding is that
// of the last subtraction, of types with mins.
func (t Type) Dequantize(dst []float32, src []byte) {
	l := layouts[t]
	if len(dst)%l.elements != 0 || len(src) != t.RowBytes(len(dst)) {
		panic(fmt.Sprintf("quant: %d elements of %v in %d bytes", len(dst), t, len(src)))
	}
	var b Block
	for ; len(dst) > 0; dst, src = dst[l.elements:], src[l.bytes:] {
		t.Unpack(&b, src)
		d, dmin := half.ToFloat32(b.D), half.ToFloat32(b.DMin)
		for i, q := range b.Q[:l.elements] {
			group := i / l.group
			scale := d * float32(b.Scales[group])
			v := float32(scale * float32(int(q)-l.offset))
			if t.HasMin() {
				v -= float32(dmin * float32(b.Mins[group]))
			}
			dst[i] = v
		}
	}
}

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
