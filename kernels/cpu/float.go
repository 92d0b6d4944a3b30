package cpu

import "math"

// fma32 returns a*b + c rounded once, as the FMA instructions do. The product of
// two float32 is exact in float64, so only the sum needs care: it is rounded to
// float64 first, which matters when that lands exactly between two float32.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if u := math.Float64bits(s); u&0x1fffffff == 0x10000000 || u&(1<<63-1) < minNormal32 {
		return fmaRoundOnce(p, float64(c), s)
	}
	return float32(s)
}

// minNormal32 is the float64 pattern of the smallest normal float32: below it
// more bits are dropped than the test for a tie looks at.
const minNormal32 = (1023 - 126) << 52

// fmaRoundOnce rounds p + c to float32, given s = p + c rounded to float64. If
// the sum was inexact, s is moved to the neighbour with an odd last bit, from
// which the second rounding goes the right way.
func fmaRoundOnce(p, c, s float64) float32 {
	t := s - p
	rest := (p - (s - t)) + (c - t)
	if u := math.Float64bits(s); u&1 == 0 && (rest > 0 || rest < 0) {
		if (rest > 0) == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}

// BF16ToF32 widens a bfloat16.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to even. NaN stays NaN.
func F32ToBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}
