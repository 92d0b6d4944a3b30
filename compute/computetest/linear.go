package computetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/kernels/ref"
)

// shape is a weight's shape.
type shape struct{ rows, cols int }

// Tiles of 16, vectors of 8 and pairs all end unevenly somewhere here.
var (
	shapes  = []shape{{1, 1}, {15, 2}, {16, 16}, {17, 7}, {33, 64}, {48, 31}, {130, 96}, {257, 129}}
	numRows = []int{0, 1, 2, 3, 5, 7, 11, 12, 13, 24, 25, 37}
)

func testLinear(t *testing.T, b *suite) {
	r := newRand(t)
	for _, d := range dtypes {
		for _, s := range shapes {
			raw, w := tensor(d, s.rows, s.cols, uniform(r, s.rows*s.cols, 1))
			m, err := b.NewMatrix(raw)
			require.NoError(t, err)
			clear(raw.Data) // the backend may not need it any more
			for _, n := range numRows {
				if !b.turn() {
					continue
				}
				x := uniform(r, n*s.cols, float32(1/math.Sqrt(float64(s.cols))))
				src := filled(t, b, 1, s.cols, x)
				dst := filled(t, b, n+2, s.rows, nil)
				b.Linear(dst, src, m, n)
				requireClose(t, ref.Linear(widen(x), w, s.cols), result(t, b, dst, n), tolerance)

				old := uniform(r, n*s.rows, 1)
				sum := filled(t, b, 2, s.rows, old)
				b.LinearAdd(sum, src, m, n)
				requireClose(t, ref.LinearAdd(widen(old), widen(x), w, s.cols), result(t, b, sum, n), tolerance)
				requireSameBits(t, x, result(t, b, src, n), "the source is only read")
				for _, buf := range []compute.Buffer{src, dst, sum} {
					buf.Free()
				}
			}
		}
	}
}

func testStackedParts(t *testing.T, b *suite) {
	r := newRand(t)
	const cols, n = 9, 3
	for _, d := range dtypes {
		var parts []compute.RawTensor
		var all []float64
		for _, rows := range []int{5, 1, 20, 16} { // parts end within a tile
			raw, w := tensor(d, rows, cols, uniform(r, rows*cols, 1))
			parts, all = append(parts, raw), append(all, w...)
		}
		m, err := b.NewMatrix(parts...)
		require.NoError(t, err)
		require.Equal(t, []int{42, cols}, []int{m.Rows(), m.Cols()})
		x := uniform(r, n*cols, 0.3)
		src, dst := filled(t, b, 0, cols, x), filled(t, b, n, 42, nil)
		b.Linear(dst, src, m, n)
		requireClose(t, ref.Linear(widen(x), all, cols), result(t, b, dst, n), tolerance)
	}
}

func testBadWeights(t *testing.T, b *suite) {
	good, _ := tensor(compute.F32, 2, 3, make([]float32, 6))
	change := func(f func(*compute.RawTensor)) compute.RawTensor {
		bad := good
		f(&bad)
		return bad
	}
	bad := map[string]compute.RawTensor{
		"no rows":    change(func(t *compute.RawTensor) { t.Rows, t.Data = 0, nil }),
		"negative":   change(func(t *compute.RawTensor) { t.Rows, t.Cols = -2, -3 }),
		"too short":  change(func(t *compute.RawTensor) { t.Data = t.Data[:23] }),
		"too long":   change(func(t *compute.RawTensor) { t.Cols = 2 }),
		"overflow":   change(func(t *compute.RawTensor) { t.Rows, t.Cols, t.Data = 1<<62, 4, nil }),
		"other type": change(func(t *compute.RawTensor) { t.DType = 99 }),
		"half block": change(func(t *compute.RawTensor) { t.DType, t.Cols, t.Data = compute.Q8_0, 16, make([]byte, 34) }),
		"no blocks":  change(func(t *compute.RawTensor) { t.DType, t.Cols, t.Data = compute.Q4_K, 256, make([]byte, 287) }),
		"to what":    change(func(t *compute.RawTensor) { t.Quantize = compute.BF16 }),
		"not made":   change(func(t *compute.RawTensor) { t.Quantize = compute.Q6_K }),
	}
	for name, raw := range bad {
		_, err := b.NewMatrix(raw)
		require.Error(t, err, name)
		_, err = b.NewMatrix(good, raw)
		require.Error(t, err, name)
		_, err = b.NewVector(raw)
		require.Error(t, err, name)
	}
	wider, _ := tensor(compute.F32, 2, 4, make([]float32, 8))
	_, err := b.NewMatrix(good, wider)
	require.ErrorContains(t, err, wider.Name)
	_, err = b.NewMatrix()
	require.Error(t, err)
	_, err = b.NewVector(good)
	require.Error(t, err, "a vector has one row")
}

func testBadSizes(t *testing.T, b *suite) {
	for _, s := range []shape{{0, 1}, {1, 0}, {-1, 4}, {1 << 40, 1 << 40}, {1 << 31, 1 << 31}, {1 << 30, 1 << 22}} {
		_, err := b.NewBuffer(s.rows, s.cols)
		require.Error(t, err, fmt.Sprint(s))
	}
	good := compute.KVSpec{NumLayers: 1, NumBlocks: 2, BlockSize: 4, NumKVHeads: 1, HeadDim: 8}
	change := func(f func(*compute.KVSpec)) compute.KVSpec {
		bad := good
		f(&bad)
		return bad
	}
	for _, spec := range []compute.KVSpec{
		change(func(s *compute.KVSpec) { s.NumLayers = 0 }),
		change(func(s *compute.KVSpec) { s.NumBlocks = -1 }),
		change(func(s *compute.KVSpec) { s.BlockSize = 0 }),
		change(func(s *compute.KVSpec) { s.HeadDim = 0 }),
		change(func(s *compute.KVSpec) { s.NumBlocks = 1 << 62 }),
		change(func(s *compute.KVSpec) { s.NumLayers, s.NumKVHeads, s.HeadDim = 1<<20, 1<<20, 1<<20 }),
		change(func(s *compute.KVSpec) { s.NumBlocks, s.HeadDim = 1<<28, 1<<20 }),
		change(func(s *compute.KVSpec) { s.HeadDim = math.MaxInt }),
		change(func(s *compute.KVSpec) { s.BlockSize = math.MaxInt }),
		change(func(s *compute.KVSpec) { s.DType = compute.Q6_K }),
		change(func(s *compute.KVSpec) { s.DType = 99 }),
	} {
		_, err := b.NewKVCache(spec)
		require.Error(t, err, fmt.Sprint(spec.NumBlocks, spec.HeadDim))
	}
	for _, table := range []compute.RopeTable{{}, {HalfDim: 2, Cos: make([]float32, 4), Sin: make([]float32, 2)}, {HalfDim: 3, Cos: make([]float32, 4), Sin: make([]float32, 4)}} {
		_, err := b.NewRope(table)
		require.Error(t, err)
	}
}
