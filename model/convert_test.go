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

// roundTrip appends to values and want: every finite value of d must survive,
// and what lies between it and the next must go to the nearer one, from the
// middle to the even one.
func roundTrip(d []float32) (values []float32, want []uint16) {
	for h := range 1 << 15 {
		a := d[h]
		if a-a != 0 {
			continue // infinite or NaN
		}
		values, want = append(values, a, -a), append(want, uint16(h), uint16(h|1<<15))
		b := d[h+1]
		middle := a + (b-a)/2
		if b-b != 0 || middle == a || middle == b {
			continue // overflow is refused; float32's own smallest values have no middle
		}
		values = append(values, middle, math.Nextafter32(middle, a), math.Nextafter32(middle, b))
		want = append(want, uint16(h+h&1), uint16(h), uint16(h+1))
	}
	return values, want
}

func TestConversionRoundsToNearestEven(t *testing.T) {
	for _, d := range []compute.DType{compute.F16, compute.BF16} {
		t.Run(d.String(), func(t *testing.T) {
			var all, input []byte
			for h := range 1 << 16 {
				all = binary.LittleEndian.AppendUint16(all, uint16(h))
			}
			wide := convert(t, all, d, compute.F32)
			decoded := make([]float32, 1<<16)
			for h := range decoded {
				decoded[h] = math.Float32frombits(binary.LittleEndian.Uint32(wide[4*h:]))
			}
			values, want := roundTrip(decoded)
			require.Greater(t, len(values), 4*31000)
			for _, v := range values {
				input = binary.LittleEndian.AppendUint32(input, math.Float32bits(v))
			}
			got := convert(t, input, compute.F32, d)
			for i, w := range want {
				if g := binary.LittleEndian.Uint16(got[2*i:]); g != w {
					require.Failf(t, "wrong rounding", "%g became %#x, want %#x", values[i], g, w)
				}
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
