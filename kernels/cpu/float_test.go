package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
)

// exactFMA rounds a*b + c once, through arbitrary precision.
func exactFMA(a, b, c float32) float32 {
	p := new(big.Float).SetPrec(2000).SetFloat64(float64(a))
	p.Mul(p, new(big.Float).SetPrec(2000).SetFloat64(float64(b)))
	p.Add(p, new(big.Float).SetPrec(2000).SetFloat64(float64(c)))
	f, _ := p.Float32()
	return f
}

// randomFloat draws from all exponents, with few or many digits, so that ties
// and subnormal results are common.
func randomFloat(r *rand.Rand) float32 {
	u := r.Uint32()
	if r.IntN(2) == 0 {
		u &^= 1<<uint(r.IntN(24)) - 1
	}
	exp := uint32(r.IntN(256))
	if r.IntN(3) > 0 {
		exp = 64 + exp/2
	}
	if exp == 255 {
		exp = 0
	}
	return math.Float32frombits(u&0x807fffff | exp<<23)
}

func TestFMARoundsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tiny := math.Float32frombits(1)
	cases := [][3]float32{
		{1, 1, 0x1p-149},
		{1 << 12, 1<<12 + 1, 1}, {4097, 4097, -1 << 24}, {0x1p-75, 0x1p-75, 0x1p-127},
		{1 + 0x1p-23, 1 + 0x1p-23, 0x1p-47}, {0x1.000002p0, 0x1.fffffep-1, 0x1p-60},
		{0x1p-75, 0x1p-75 * (1 + 0x1p-23), 0x1p-127}, {tiny, tiny, 1}, {tiny, -0.5, tiny},
		// Just below the middle of two subnormals, by less than float64 can show.
		{0x1p-75 * (1 + 0x1p-23), 0x1p-75 * (1 - 0x1p-23), 0x1p-127 + 0x1p-149},
	}
	for range 60000 {
		cases = append(cases, [3]float32{randomFloat(r), randomFloat(r), randomFloat(r)})
	}
	for range 30000 { // c near the product: cancellation and ties
		a, b := randomFloat(r), randomFloat(r)
		c := -a * b * float32(math.Exp2(float64(r.IntN(60)-30)))
		cases = append(cases, [3]float32{a, b, c})
	}
	for _, c := range cases {
		want, got := exactFMA0(c[0], c[1], c[2]), fma32(c[0], c[1], c[2])
		if math.Float32bits(want) != math.Float32bits(got) && !(want == 0 && got == 0) {
			require.Failf(t, "other bits", "fma(%b, %b, %b) is %b, want %b", c[0], c[1], c[2], got, want)
		}
	}
}

// exactFMA0 is exactFMA for arguments that may be infinite.
func exactFMA0(a, b, c float32) float32 {
	if s := float64(a)*float64(b) + float64(c); math.IsInf(s, 0) || math.IsInf(float64(c), 0) {
		return float32(s)
	}
	return exactFMA(a, b, c)
}

func TestFMAPropagates(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, v := range []float32{fma32(nan, 1, 1), fma32(1, nan, 1), fma32(1, 1, nan), fma32(inf, 0, 1), fma32(inf, 1, -inf)} {
		require.True(t, v != v)
	}
	require.Equal(t, inf, fma32(math.MaxFloat32, 2, 0))
	require.Equal(t, -inf, fma32(inf, -1, 5))
}

func TestHalvesRoundTrip(t *testing.T) {
	for h := range 1 << 16 {
		h := uint16(h)
		if f := half.ToFloat32(h); f != f {
			require.True(t, isNaN(half.ToFloat32(half.FromFloat32(f))))
		} else {
			require.Equal(t, h, half.FromFloat32(f))
		}
		if f := BF16ToF32(h); f != f {
			require.True(t, isNaN(BF16ToF32(F32ToBF16(f))))
		} else {
			require.Equal(t, h, F32ToBF16(f))
		}
	}
}

func isNaN(f float32) bool { return f != f }

// TestHalvesRoundToNearestEven checks values between two neighbours.
func TestHalvesRoundToNearestEven(t *testing.T) {
	for _, c := range []struct {
		widen  func(uint16) float32
		narrow func(float32) uint16
		last   uint16 // largest finite pattern
	}{{half.ToFloat32, half.FromFloat32, 0x7bff}, {BF16ToF32, F32ToBF16, 0x7f7f}} {
		for h := uint16(0); h < c.last; h++ {
			lo, hi := c.widen(h), c.widen(h+1)
			middle := lo + (hi-lo)/2
			require.Equal(t, h+h&1, c.narrow(middle), "halfway above %v", lo)
			require.Equal(t, h, c.narrow(math.Nextafter32(middle, 0)))
			require.Equal(t, h+1, c.narrow(math.Nextafter32(middle, hi)))
			require.Equal(t, (h+1)|0x8000, c.narrow(-math.Nextafter32(middle, hi)))
		}
	}
	require.Equal(t, uint16(0x7c00), half.FromFloat32(65520), "too large is infinite")
	require.Equal(t, uint16(0x7bff), half.FromFloat32(65519))
	require.Equal(t, uint16(0x7c00), half.FromFloat32(math.MaxFloat32))
	require.Equal(t, uint16(0x7f80), F32ToBF16(math.MaxFloat32))
}

func TestExpIsAccurate(t *testing.T) {
	worst := 0.0
	for x := -87.3; x < 88; x += 0.00137 {
		want := math.Exp(float64(float32(x)))
		worst = max(worst, math.Abs(float64(exp32(float32(x)))-want)/want)
	}
	require.Less(t, worst, 2.0/(1<<23))
	require.Equal(t, float32(1), exp32(0))
	for _, x := range []float32{-88.1, -100, -math.MaxFloat32, float32(math.Inf(-1))} {
		require.Zero(t, exp32(x))
	}
	require.False(t, math.IsInf(float64(exp32(math.MaxFloat32)), 0))
	require.True(t, isNaN(exp32(float32(math.NaN()))))
}
