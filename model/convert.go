package model

import (
	"encoding/binary"
	"math"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
)

// appendConverted appends t's elements in another type, rounded to nearest
// even. A finite value that becomes infinite is an error: the model could only
// give nonsense.
func appendConverted(dst []byte, t compute.RawTensor, to compute.DType) ([]byte, error) {
	size := t.DType.Size()
	for i := 0; i < len(t.Data); i += size {
		v := element(t.Data[i:], t.DType)
		switch to {
		case compute.F32:
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
			continue
		case compute.BF16:
			dst = binary.LittleEndian.AppendUint16(dst, toBF16(v))
		case compute.F16:
			dst = binary.LittleEndian.AppendUint16(dst, toF16(v))
		}
		if finite32(v) && !finite32(element(dst[len(dst)-2:], to)) {
			return dst, infer.Errorf(infer.CodeInvalid, "dtype",
				"tensor %q holds %g, which %v cannot represent: choose another --dtype (the checkpoint's is %v)", t.Name, v, to, t.DType)
		}
	}
	return dst, nil
}

// element decodes the first element of b.
func element(b []byte, d compute.DType) float32 {
	switch d {
	case compute.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	case compute.F16:
		return fromF16(binary.LittleEndian.Uint16(b))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}

func finite32(v float32) bool { return v-v == 0 }

func toBF16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40 // stay a NaN
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func fromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // zero or subnormal: fraction * 2^-24
		return math.Float32frombits(math.Float32bits(float32(fraction)*0x1p-24) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

func toF16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 // NaN
	case b >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case b < 0x38800000: // below the smallest normal: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(b))*0x1p24))
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-112<<23)>>13)
}
