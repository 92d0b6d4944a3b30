package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
)

// CanMake reports whether [Type.Append] makes blocks of the type.
func (t Type) CanMake() bool { return t == Q8_0 || t == Q4_0 }

// Append quantises src, a whole number of blocks, and appends the blocks: each
// element becomes the nearest multiple of the scale, which is the smallest that
// covers the block. It gives the bits of ggml's reference quantisers.
func (t Type) Append(dst []byte, src []float32) []byte {
	if !t.CanMake() || len(src)%t.Elements() != 0 {
		panic(fmt.Sprintf("quant: cannot make %v of %d elements", t, len(src)))
	}
	for ; len(src) > 0; src = src[32:] {
		if t == Q8_0 {
			dst = appendQ8(dst, src[:32])
		} else {
			dst = appendQ4(dst, src[:32])
		}
	}
	return dst
}

func appendQ8(dst []byte, x []float32) []byte {
	largest := float32(0)
	for _, v := range x {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	d, inverse := largest/127, float32(0)
	if d != 0 {
		inverse = 1 / d
	}
	dst = binary.LittleEndian.AppendUint16(dst, half.FromFloat32(d))
	for _, v := range x {
		q := math.Round(float64(float32(v * inverse))) // ties away from zero, as roundf
		dst = append(dst, byte(int8(min(max(q, -127), 127))))
	}
	return dst
}

func appendQ4(dst []byte, x []float32) []byte {
	largest, signed := float32(0), float32(0) // the largest in absolute value, and with its sign
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > largest {
			largest, signed = a, v
		}
	}
	// That element becomes -8, which has no positive counterpart.
	d, inverse := signed/-8, float32(0)
	if d != 0 {
		inverse = 1 / d
	}
	dst = binary.LittleEndian.AppendUint16(dst, half.FromFloat32(d))
	nibble := func(v float32) byte {
		return byte(min(max(float32(v*inverse)+8.5, 0), 15))
	}
	for i := range 16 {
		dst = append(dst, nibble(x[i])|nibble(x[i+16])<<4)
	}
	return dst
}
