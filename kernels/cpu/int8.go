package cpu

import "math"

// A head's key or value in I8 is a row of integers that count units of its own: a
// 127th of the row's largest magnitude, so that nothing is cut off and the error of
// an element is half a unit at most.
const (
	maxI8 = 127
	// leastI8 is what the largest magnitude must reach: a row below it is all zero,
	// as the inverse of its unit would not be finite.
	leastI8 = 1e-30
)

// UnitI8 returns the unit of a row, and its inverse, by which elements are counted.
// An infinity counts as the largest finite number. With a NaN in x the unit is NaN,
// and so is everything computed with the row.
func UnitI8(t Tier, x []float32) (unit, inverse float32) {
	largest := min(magnitude(t, x), math.MaxFloat32)
	if largest < leastI8 {
		return 0, 0
	}
	return largest / maxI8, maxI8 / largest
}

// magnitude returns the largest |x|, NaN if one is NaN, 0 for none. Patterns without
// sign are in the order of their values, NaNs behind all.
func magnitude(t Tier, x []float32) float32 {
	largest, done := magnitudeAsm(t, x)
	for _, v := range x[done:] {
		largest = max(largest, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(largest)
}

// toI8 rounds to the nearest integer of I8, ties to even. NaN becomes -128, which
// counts for nothing, as its unit is NaN.
func toI8(x float32) byte {
	if x != x {
		return 0x80
	}
	return byte(int8(math.RoundToEven(float64(min(max(x, -maxI8), maxI8)))))
}
