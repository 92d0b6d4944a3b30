package model_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/model"
)

func convert(tb testing.TB, data []byte, from, to compute.DType) []byte {
	tb.Helper()
	out, err := model.AppendConverted(nil, compute.RawTensor{Name: "t", DType: from, Data: data}, to)
	require.NoError(tb, err)
	return out
}

// narrow converts one float32.
func narrow(tb testing.TB, v float32, to compute.DType) uint16 {
	tb.Helper()
	b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	return binary.LittleEndian.Uint16(convert(tb, b, compute.F32, to))
}

// Every 16-bit value survives the way to float32 and back, and what lies
// between two neighbours goes to the nearer one, to the even one from the middle.
func TestConversionRoundsToNearestEven(t *testing.T) {
	for _, d := range []compute.DType{compute.F16, compute.BF16} {
		t.Run(d.String(), func(t *testing.T) {
			var all []byte
			for h := range 1 << 16 {
				all = binary.LittleEndian.AppendUint16(all, uint16(h))
			}
			wide := convert(t, all, d, compute.F32)
			value := func(h int) float32 {
				return math.Float32frombits(binary.LittleEndian.Uint32(wide[4*h:]))
			}
			back := convert(t, wide, compute.F32, d)
			for h := range 1 << 15 {
				a := value(h)
				if a != a {
					require.NotEqual(t, value(h|1<<15), value(h|1<<15), "a NaN with a sign is one too")
					continue
				}
				require.Equal(t, -a, value(h|1<<15))
				require.EqualValues(t, h, binary.LittleEndian.Uint16(back[2*h:]))
				b := value(h + 1)
				if b-b != 0 {
					continue // infinity: overflow is refused
				}
				middle := a + (b-a)/2
				if middle == a || middle == b {
					continue // float32's own smallest values have no middle
				}
				require.EqualValues(t, h+h&1, narrow(t, middle, d), "between %g and %g", a, b)
				require.EqualValues(t, h, narrow(t, math.Nextafter32(middle, a), d))
				require.EqualValues(t, h+1, narrow(t, math.Nextafter32(middle, b), d))
			}
		})
	}
}

func TestConversionKnownValues(t *testing.T) {
	for h, want := range map[uint16]float32{0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 0x1p-24, 0x0400: 0x1p-14, 0x3555: 0.333251953125} {
		require.Equal(t, h, narrow(t, want, compute.F16))
	}
	for h, want := range map[uint16]float32{0x3f80: 1, 0xc000: -2, 0x7f7f: 0x1.fep127} {
		require.Equal(t, h, narrow(t, want, compute.BF16))
	}
	_, err := model.AppendConverted(nil, compute.RawTensor{Name: "t", DType: compute.F32,
		Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(65520))}, compute.F16)
	require.ErrorContains(t, err, `tensor "t" holds 65520, which float16 cannot represent`)
}
