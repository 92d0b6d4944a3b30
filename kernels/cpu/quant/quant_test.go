package quant_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// Halves that the blocks below use.
const (
	half1    = 0x3c00 // 1
	halfHalf = 0x3800 // 0.5
	halfNeg2 = 0xc000 // -2
)

func le16(h ...uint16) (b []byte) {
	for _, v := range h {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

// The blocks here are written down by hand from the published layouts: a few
// elements are set, the others have the value of zero bits.

func TestQ8_0(t *testing.T) {
	block := append(le16(halfHalf), make([]byte, 32)...)
	block[2+0], block[2+1], block[2+31] = 127, 0x80, 0xff // 127, -128, -1
	got := make([]float32, 32)
	quant.Q8_0.Dequantize(got, block)
	want := make([]float32, 32)
	want[0], want[1], want[31] = 63.5, -64, -0.5
	require.Equal(t, want, got)
}

func TestQ4_0(t *testing.T) {
	block := append(le16(halfNeg2), make([]byte, 16)...)
	block[2+0], block[2+15] = 0xf8, 0x9c // elements 0 and 16: 8 and 15; 15 and 31: 12 and 9
	got := make([]float32, 32)
	quant.Q4_0.Dequantize(got, block)
	for i, v := range got {
		want, ok := map[int]float32{0: 0, 16: -14, 15: -8, 31: -2}[i]
		if !ok {
			want = 16 // (0 - 8) * -2
		}
		require.Equal(t, want, v, "element %d", i)
	}
}

// kScales are twelve bytes that hold the scales 1, 2, 3, 63, 4, 5, 6, 62 and the
// mins 10, 20, 30, 40, 7, 8, 9, 61.
var kScales = []byte{
	1 | 0<<6, 2 | 0<<6, 3 | 0<<6, 63 | 3<<6, // scales 0-3; above: scales 4-7 >> 4
	10 | 0<<6, 20 | 0<<6, 30 | 0<<6, 40 | 3<<6, // mins 0-3; above: mins 4-7 >> 4
	4 | 7<<4, 5 | 8<<4, 6 | 9<<4, 62&15 | 61&15<<4, // scales and mins 4-7, low four bits
}

var (
	wantScales = []float32{1, 2, 3, 63, 4, 5, 6, 62}
	wantMins   = []float32{10, 20, 30, 40, 7, 8, 9, 61}
)

func TestQ4_K(t *testing.T) {
	block := append(append(le16(halfHalf, half1), kScales...), make([]byte, 128)...)
	block[16+0] = 0xa5    // elements 0 and 32
	block[16+127] = 0x1f  // elements 223 and 255
	block[16+32+3] = 0x70 // elements 67 and 99
	got := make([]float32, 256)
	quant.Q4_K.Dequantize(got, block)
	q := map[int]float32{0: 5, 32: 10, 223: 15, 255: 1, 99: 7}
	for i, v := range got {
		require.Equal(t, 0.5*wantScales[i/32]*q[i]-wantMins[i/32], v, "element %d", i)
	}
}

func TestQ5_K(t *testing.T) {
	block := append(append(le16(halfHalf, half1), kScales...), make([]byte, 32+128)...)
	block[16+0] = 1 << 0       // fifth bit of element 0
	block[16+31] = 1<<7 | 1<<1 // of elements 255 and 63
	block[48+0] = 0xa5
	block[48+127] = 0x1f
	got := make([]float32, 256)
	quant.Q5_K.Dequantize(got, block)
	q := map[int]float32{0: 21, 32: 10, 63: 16, 223: 15, 255: 17}
	for i, v := range got {
		require.Equal(t, 0.5*wantScales[i/32]*q[i]-wantMins[i/32], v, "element %d", i)
	}
}

func TestQ6_K(t *testing.T) {
	block := make([]byte, 210)
	copy(block[208:], le16(halfHalf))
	for i := range 16 {
		block[192+i] = byte(int8(i*16 - 128))
	}
	block[0], block[127] = 0xa5, 0x1f               // elements 0 and 64; 191 and 255
	block[32] = 0x03                                // elements 32 and 96
	block[128], block[191] = 0b11100100, 0b01000000 // elements 0, 32, 64, 96: 0 1 2 3; element 255: 1
	got := make([]float32, 256)
	quant.Q6_K.Dequantize(got, block)
	q := map[int]int{0: 5, 64: 10 + 32, 191: 15, 255: 1 + 16, 32: 3 + 16, 96: 48}
	for i, v := range got {
		scale := float32(i/16*16 - 128)
		require.Equal(t, 0.5*scale*float32(q[i]-32), v, "element %d", i)
	}
}

func TestSpecialScales(t *testing.T) {
	got := make([]float32, 32)
	for h, want := range map[uint16]float64{0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x0001: 0x1p-24, 0x8000: 0} {
		block := append(le16(h), make([]byte, 32)...)
		block[2] = 1
		quant.Q8_0.Dequantize(got, block)
		require.Equal(t, want, float64(got[0]), "%#04x", h)
	}
	quant.Q8_0.Dequantize(got, append(le16(0x7e01), make([]byte, 32)...))
	require.True(t, math.IsNaN(float64(got[0])))
}

func TestMadeBlocksAreNear(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for typ, steps := range map[quant.Type]float64{quant.Q8_0: 127, quant.Q4_0: 8} {
		x := make([]float32, 320)
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Exp2(float64(i/32-5)))
		}
		clear(x[64:96])
		b := typ.Append(nil, x)
		require.Len(t, b, typ.RowBytes(len(x)))
		got := make([]float32, len(x))
		typ.Dequantize(got, b)
		for i := 0; i < len(x); i += 32 {
			largest := 0.0
			for _, v := range x[i : i+32] {
				largest = max(largest, math.Abs(float64(v)))
			}
			for j := i; j < i+32; j++ {
				// Half a step, a whole one where Q4_0 has no +8, and the rounding of the scale.
				tolerance := largest / steps * (0.5 + 0.1)
				if typ == quant.Q4_0 {
					tolerance = largest / steps * 1.01
				}
				require.InDelta(t, x[j], got[j], tolerance, "%v element %d", typ, j)
			}
		}
	}
}

func TestMadeBlocks(t *testing.T) {
	x := make([]float32, 32)
	x[0], x[1], x[2] = 127, -63.5, 0.5
	require.Equal(t, append(le16(half1), 127, 0xc0, 1), quant.Q8_0.Append(nil, x)[:5], "ties go away from zero")
	x[0], x[1], x[2], x[16] = -8, 7, 7.6, 3
	require.Equal(t, append(le16(half1), 0xb0, 0x8f, 0x8f), quant.Q4_0.Append(nil, x)[:5])
}
