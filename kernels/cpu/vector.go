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

// Softmax turns rows of scores, stride apart, into weights that still have to be
// divided by their total: x[i] = exp2(x[i]*scale - largest), where largest is the
// row's largest product. The first n elements of each row count, a multiple of
// TileRows, > 0: pad with negative infinity, which becomes 0. Not all of a row may
// be padding. With a NaN in a row its weights are not defined, but their total is
// NaN.
func Softmax(t Tier, x []float32, rows, stride, n int, scale float32, largest, total []float32) {
	if !(rows >= 0 && n > 0 && n%TileRows == 0 && (rows == 0 || n <= stride && len(x) >= (rows-1)*stride+n)) {
		panic(fmt.Sprintf("kernels/cpu: Softmax of %d rows of %d, %d apart, in %d", rows, n, stride, len(x)))
	}
	largest, total = largest[:rows], total[:rows]
	if rows == 0 || softmaxAsm(t, x, stride, n, scale, largest, total) {
		return
	}
	for j := range rows {
		total[j], largest[j] = softmaxRow(x[j*stride:][:n], scale)
	}
}

func softmaxRow(row []float32, scale float32) (total, largest float32) {
	largest = float32(math.Inf(-1))
	for i := range row {
		row[i] *= scale
		largest = max(largest, row[i])
	}
	var acc lanes
	for i := range row {
		row[i] = exp2f(row[i] - largest)
		acc[i%TileRows] += row[i]
	}
	return acc.sum(), largest
}

// Exp2 sets x[i] to two to the power of x[i], which must be below 128. The length
// of x is a multiple of TileRows, > 0.
func Exp2(t Tier, x []float32) {
	checkPadded(x)
	if !exp2Asm(t, x) {
		for i := range x {
			x[i] = exp2f(x[i])
		}
	}
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

// Constants of exp2f: exp2(x) = 2^n * exp2(x-n), n = x rounded, and a polynomial
// for the rest (Cephes exp2f). Adding exp2Shift leaves n+127 in the low bits, which
// is 2^n's exponent.
const (
	exp2Min   = -127 // here 2^n is written as zero, and so is the result
	exp2Shift = 3<<22 + 127
	exp2Poly0 = 1.535336188319500e-4
	exp2Poly1 = 1.339887440266574e-3
	exp2Poly2 = 9.618437357674640e-3
	exp2Poly3 = 5.550332471162809e-2
	exp2Poly4 = 2.402264791363012e-1
	exp2Poly5 = 6.931472028550421e-1
)

// exp2f is exp2 for float32 below 128 to about two units in the last place; the
// result is 0 at about -126.5 and below.
func exp2f(x float32) float32 {
	if x != x {
		return x
	}
	x = max(x, exp2Min)
	shifted := x + exp2Shift
	f := x - (shifted - exp2Shift)
	p := fma32(exp2Poly0, f, exp2Poly1)
	p = fma32(p, f, exp2Poly2)
	p = fma32(p, f, exp2Poly3)
	p = fma32(p, f, exp2Poly4)
	p = fma32(p, f, exp2Poly5)
	p = fma32(p, f, 1)
	return float32(p * math.Float32frombits(math.Float32bits(shifted)<<23))
}
