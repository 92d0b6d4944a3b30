package half

import "math"

// ToFloat32 widens a half. It is exact; NaN becomes a quiet NaN.
func ToFloat32(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&1023)
	switch {
	case exp == 31:
		if frac != 0 {
			frac |= 0x200 // quiet, as VCVTPH2PS does
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp == 0: // zero and subnormals: frac * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*(1.0/(1<<24))))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// FromFloat32 rounds to the nearest half, ties to even; what is too large
// becomes an infinity.
func FromFloat32(f float32) uint16 {
	u := math.Float32bits(f)
	sign, abs := uint16(u>>16&0x8000), u&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x47800000: // 2^16 and more
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14 the unit is 2^-24: let an addition round
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-0x3f000000)
	}
	return sign | uint16((abs-0x38000000+0xfff+abs>>13&1)>>13)
}
