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
func UnitI8(x []float32) (unit, inverse float32) {
	largest := min(magnitude(x), math.MaxFloat32)
	if largest < leastI8 {
		return 0, 0
	}
	return largest / maxI8, maxI8 / largest
}

// magnitude returns the largest |x|, NaN if one is NaN, 0 for none.
func magnitude(x []float32) (largest float32) {
	for _, v := range x {
		largest = max(largest, math.Float32frombits(math.Float32bits(v)&^(1<<31)))
	}
	return largest
}

// StoreLaneI8 writes v, counted in units of 1/inverse, to one lane of a tile of I8:
// v[k] to column k.
func StoreLaneI8(tile []byte, lane int, v []float32, inverse float32) {
	for k, x := range v {
		tile[k*TileRows+lane] = toI8(x * inverse)
	}
}

// StoreColumnI8 writes v, counted in units of 1/inverse, to column k of a tile of
// I8: v[lane] to lane.
func StoreColumnI8(tile []byte, k int, v []float32, inverse float32) {
	at := tile[k*TileRows:][:len(v)]
	for lane, x := range v {
		at[lane] = toI8(x * inverse)
	}
}

// toI8 rounds to the nearest integer of I8, ties to even. NaN becomes 0.
func toI8(x float32) byte {
	if x != x {
		return 0
	}
	return byte(int8(math.RoundToEven(float64(min(max(x, -maxI8), maxI8)))))
}
