package computetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/kernels/ref"
)

// testElementwise checks what changes rows in place.
func testElementwise(t *testing.T, b *suite) {
	r := newRand(t)
	for _, cols := range widths {
		raw, w := tensor(compute.BF16, 1, cols, uniform(r, cols, 2))
		v, err := b.NewVector(raw)
		require.NoError(t, err)
		for _, n := range []int{1, 3, 9, 40} {
			if !b.turn() {
				continue
			}
			x, old := uniform(r, n*cols, 3), uniform(r, n*cols, 40)
			src := filled(t, b, 0, cols, x)
			for _, c := range []struct {
				name  string
				apply func(dst compute.Buffer)
				want  []float64
			}{
				{"RMSNormAdd", func(dst compute.Buffer) { b.RMSNormAdd(dst, src, v, 1e-5, n) }, ref.RMSNormAdd(widen(old), widen(x), w, 1e-5)},
				{"AddBias", func(dst compute.Buffer) { b.AddBias(dst, v, n) }, ref.AddBias(widen(old), w)},
				{"Scale", func(dst compute.Buffer) { b.Scale(dst, 7.25, n) }, ref.Scale(widen(old), 7.25)},
				{"SoftCap", func(dst compute.Buffer) { b.SoftCap(dst, 10, n) }, ref.SoftCap(widen(old), 10)},
			} {
				dst := filled(t, b, 0, cols, old)
				c.apply(dst)
				requireClose(t, c.want, result(t, b, dst, n), tolerance)
				dst.Free()

				spare := filled(t, b, 2, cols, old)
				c.apply(spare)
				result(t, b, spare, n) // the rows after them stay as they are
				spare.Free()
			}
			src.Free()
		}
	}
}

// testHeadNorm also requires that a row's bits are its own.
func testHeadNorm(t *testing.T, b *suite) {
	r := newRand(t)
	for _, s := range []ref.Shape{
		{NumHeads: 4, NumKVHeads: 2, HeadDim: 6}, {NumHeads: 3, NumKVHeads: 1, HeadDim: 32}, {NumHeads: 2, NumKVHeads: 2, HeadDim: 128},
	} {
		spec := compute.AttentionSpec{NumHeads: s.NumHeads, NumKVHeads: s.NumKVHeads, HeadDim: s.HeadDim}
		rawQ, wantQ := tensor(compute.F32, 1, s.HeadDim, uniform(r, s.HeadDim, 2))
		rawK, wantK := tensor(compute.F32, 1, s.HeadDim, uniform(r, s.HeadDim, 2))
		q, err := b.NewVector(rawQ)
		require.NoError(t, err)
		k, err := b.NewVector(rawK)
		require.NoError(t, err)
		const n = 11
		x := uniform(r, n*s.Row(), 3)
		norm := func(rows []float32) []float32 {
			dst := filled(t, b, 1, s.Row(), rows)
			defer dst.Free()
			b.HeadNorm(dst, spec, q, k, 1e-6, len(rows)/s.Row())
			return result(t, b, dst, len(rows)/s.Row())
		}
		together := norm(x)
		requireClose(t, ref.HeadNorm(widen(x), s, wantQ, wantK, 1e-6), together, tolerance)
		for i := range n {
			requireSameBits(t, norm(x[i*s.Row():][:s.Row()]), together[i*s.Row():][:s.Row()], "row ", i)
		}
	}
}
