package cpu

import (
	"fmt"
	"math"
)

// lanes is a row's sixteen partial results.
type lanes [TileRows]float32

// sum adds the lanes pairwise: 8 apart, then 4, 2 and 1.
func (l *lanes) sum() float32 {
	for half := TileRows / 2; half > 0; half /= 2 {
		for i := range half {
			l[i] += l[i+half]
		}
	}
	return l[0]
}

// SumSquares returns Σ x².
func SumSquares(t Tier, x []float32) float32 {
	var acc lanes
	done := sumSquaresAsm(t, x, &acc)
	for i := done; i < len(x); i++ {
		l := i % TileRows
		acc[l] = fma32(x[i], x[i], acc[l])
	}
	return acc.sum()
}

// ScaleMul sets dst[i] = (x[i] * scale) * w[i] for the elements of x.
func ScaleMul(t Tier, dst, x, w []float32, scale float32) {
	dst, w = dst[:len(x)], w[:len(x)]
	for i := scaleMulAsm(t, dst, x, w, scale); i < len(x); i++ {
		dst[i] = x[i] * scale * w[i]
	}
}

// Scale sets dst[i] = x[i] * scale for the elements of x.
func Scale(t Tier, dst, x []float32, scale float32) {
	dst = dst[:len(x)]
	for i := scaleAsm(t, dst, x, scale); i < len(x); i++ {
		dst[i] = x[i] * scale
	}
}

// Blend sets dst[i] = dst[i]*a + x[i]*b for the elements of x: the first product
// is rounded, the second is not.
func Blend(t Tier, dst, x []float32, a, b float32) {
	dst = dst[:len(x)]
	for i := blendAsm(t, dst, x, a, b); i < len(x); i++ {
		dst[i] = fma32(x[i], b, float32(dst[i]*a))
	}
}

// SiluMul sets dst[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)).
func SiluMul(t Tier, dst, gate, up []float32) {
	dst, up = dst[:len(gate)], up[:len(gate)]
	for i := siluMulAsm(t, dst, gate, up); i < len(gate); i++ {
		dst[i] = gate[i] / (1 + exp32(-gate[i])) * up[i]
	}
}

// SoftCap replaces x[i] by limit*tanh(x[i]*scale/limit), limit > 0. With
// tanh(y) = 2/(1+exp(-2y)) - 1 its error is some 2e-7 of limit.
func SoftCap(t Tier, x []float32, scale, limit float32) {
	inner, outer := -2*scale/limit, 2*limit
	for i := softCapAsm(t, x, inner, outer, limit); i < len(x); i++ {
		x[i] = outer/(1+exp32(float32(x[i]*inner))) - limit
	}
}

// GeluMul sets dst[i] = gelu(gate[i]) * up[i] with the approximation by tanh,
// gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x³))) = x / (1 + exp(-2 …)).
func GeluMul(t Tier, dst, gate, up []float32) {
	dst, up = dst[:len(gate)], up[:len(gate)]
	for i := geluMulAsm(t, dst, gate, up); i < len(gate); i++ {
		g := gate[i]
		inner := float32(fma32(float32(g*g), geluCubic, geluLinear) * g)
		dst[i] = g / (1 + exp32(inner)) * up[i]
	}
}

// Constants of GeluMul: -2*sqrt(2/pi), and that times 0.044715.
const (
	geluLinear = -1.5957691216057308
	geluCubic  = -0.07135481627260025
)

// ScaleMax multiplies x by scale in place and returns the largest product. The
// length of x is a multiple of TileRows, > 0: pad with negative infinity. With
// a NaN in x the result is not defined.
func ScaleMax(t Tier, x []float32, scale float32) float32 {
	checkPadded(x)
	if m, ok := scaleMaxAsm(t, x, scale); ok {
		return m
	}
	m := float32(math.Inf(-1))
	for i := range x {
		x[i] *= scale
		m = max(m, x[i])
	}
	return m
}

// ExpSum sets x[i] = exp(x[i] - shift) and returns the sum. No x[i] may be above
// shift. The length of x is a multiple of TileRows, > 0; padding of negative
// infinity becomes 0.
func ExpSum(t Tier, x []float32, shift float32) float32 {
	checkPadded(x)
	if sum, ok := expSumAsm(t, x, shift); ok {
		return sum
	}
	var acc lanes
	for i := range x {
		x[i] = exp32(x[i] - shift)
		acc[i%TileRows] += x[i]
	}
	return acc.sum()
}

func checkPadded(x []float32) {
	if len(x) == 0 || len(x)%TileRows != 0 {
		notPadded(len(x))
	}
}

func notPadded(n int) {
	panic(fmt.Sprintf("kernels/cpu: row of %d is not padded to a multiple of %d", n, TileRows))
}

// Constants of exp32: exp(x) = 2^n * exp(r), r = x - n*ln 2, with ln 2 in two
// parts so that r is exact enough, and a polynomial for exp(r) (Cephes expf).
const (
	expMin   = -88.1 // below this 2^n is written as zero, and so is the result
	expMax   = 88
	log2e    = 1.44269504088896341
	ln2Hi    = 0.693359375
	ln2Lo    = -2.12194440e-4
	expPoly0 = 1.9875691500e-4
	expPoly1 = 1.3981999507e-3
	expPoly2 = 8.3334519073e-3
	expPoly3 = 4.1665795894e-2
	expPoly4 = 1.6666665459e-1
	expPoly5 = 5.0000001201e-1
)

// exp32 is exp for float32 to about two units in the last place; x is limited
// to [expMin, expMax] first, and the result is 0 below about -87.7.
func exp32(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, expMin), expMax)
	n := float32(math.RoundToEven(float64(x * log2e)))
	r := fma32(n, -ln2Hi, x)
	r = fma32(n, -ln2Lo, r)
	p := fma32(expPoly0, r, expPoly1)
	p = fma32(p, r, expPoly2)
	p = fma32(p, r, expPoly3)
	p = fma32(p, r, expPoly4)
	p = fma32(p, r, expPoly5)
	p = fma32(p, float32(r*r), r)
	p++
	return float32(p * math.Float32frombits(uint32(int32(n)+127)<<23))
}
