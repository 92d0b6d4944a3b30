package computetest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/kernels/ref"
)

var widths = []int{1, 2, 15, 16, 17, 33, 64, 100, 192}

func testEmbed(t *testing.T, b *suite) {
	r := newRand(t)
	ids := []int32{0, 36, 15, 16, 36, 1}
	for _, d := range dtypes {
		for _, cols := range widths {
			if !b.turn() {
				continue
			}
			raw, w := tensor(d, 37, cols, uniform(r, 37*cols, 1))
			m, err := b.NewMatrix(raw)
			require.NoError(t, err)
			dst := filled(t, b, len(ids)+2, cols, nil)
			b.Embed(dst, m, ids)
			requireClose(t, ref.Embed(w, cols, ids), result(t, b, dst, len(ids)), 0)
		}
	}
}

func testGather(t *testing.T, b *suite) {
	r := newRand(t)
	rows := []int32{4, 0, 4}
	for _, cols := range widths {
		x := uniform(r, 5*cols, 1)
		dst := filled(t, b, len(rows)+1, cols, nil)
		b.Gather(dst, filled(t, b, 1, cols, x), rows)
		requireClose(t, ref.Gather(widen(x), cols, rows), result(t, b, dst, len(rows)), 0)
	}
}

func testRMSNorm(t *testing.T, b *suite) {
	r := newRand(t)
	for _, d := range dtypes {
		for _, cols := range widths {
			raw, w := tensor(d, 1, cols, uniform(r, cols, 2))
			v, err := b.NewVector(raw)
			require.NoError(t, err)
			require.Equal(t, cols, v.Len())
			for _, n := range []int{1, 3, 9, 40} {
				if !b.turn() {
					continue
				}
				x := uniform(r, n*cols, 3)
				x[0] = 50 // outliers are what a residual stream has
				dst := filled(t, b, n+1, cols, nil)
				b.RMSNorm(dst, filled(t, b, 0, cols, x), v, 1e-5, n)
				requireClose(t, ref.RMSNorm(widen(x), w, 1e-5), result(t, b, dst, n), tolerance)
			}
		}
	}
}

func testGates(t *testing.T, b *suite) {
	r := newRand(t)
	for _, cols := range widths {
		for _, n := range []int{1, 2, 9, 40} {
			if !b.turn() {
				continue
			}
			x := uniform(r, n*2*cols, 20)
			for i := range x {
				if i%7 == 0 {
					x[i] *= 10 // far into both tails
				}
			}
			dst, src := filled(t, b, n+1, cols, nil), filled(t, b, 0, 2*cols, x)
			b.SiluMul(dst, src, n)
			requireClose(t, ref.SiluMul(widen(x), cols), result(t, b, dst, n), tolerance)
			b.GeluMul(dst, src, n)
			requireClose(t, ref.GeluMul(widen(x), cols), result(t, b, dst, n), tolerance)
		}
	}
}

// testNonFinite requires that a NaN is not lost on the way: logits that are not
// finite must be seen as such.
func testNonFinite(t *testing.T, b *suite) {
	const cols = 35
	ones := make([]float32, cols)
	for i := range ones {
		ones[i] = 1
	}
	raw, _ := tensor(compute.F32, 1, cols, ones)
	v, err := b.NewVector(raw)
	require.NoError(t, err)
	m, err := b.NewMatrix(raw)
	require.NoError(t, err)
	for at := range cols {
		if !b.turn() {
			continue
		}
		x := append([]float32(nil), ones...)
		x[at] = float32(math.NaN())
		src := filled(t, b, 0, cols, x)
		norm, sum := filled(t, b, 1, cols, nil), filled(t, b, 0, 1, []float32{0})
		b.RMSNorm(norm, src, v, 1e-5, 1)
		b.Linear(sum, src, m, 1)
		gate := filled(t, b, 0, 2*cols, append(x, ones...))
		silu, gelu := filled(t, b, 0, cols, ones), filled(t, b, 0, cols, ones)
		b.SiluMul(silu, gate, 1)
		b.GeluMul(gelu, gate, 1)
		capped := filled(t, b, 0, cols, x)
		b.SoftCap(capped, 30, 1)
		require.NoError(t, b.Sync())
		require.True(t, isNaN(b.Host(norm, 0, 1)[at]) && isNaN(b.Host(norm, 0, 1)[0]), "RMSNorm at %d", at)
		require.True(t, isNaN(b.Host(sum, 0, 1)[0]), "Linear at %d", at)
		require.True(t, isNaN(b.Host(silu, 0, 1)[at]), "SiluMul at %d", at)
		require.True(t, isNaN(b.Host(gelu, 0, 1)[at]), "GeluMul at %d", at)
		require.True(t, isNaN(b.Host(capped, 0, 1)[at]), "SoftCap at %d", at)
	}
}

func isNaN(f float32) bool { return f != f }

// testRowsAreIndependent computes rows together and each alone.
func testRowsAreIndependent(t *testing.T, b *suite) {
	r := newRand(t)
	for _, s := range []shape{{1, 33}, {17, 7}, {70, 100}} {
		for _, d := range dtypes {
			raw, _ := tensor(d, s.rows, s.cols, uniform(r, s.rows*s.cols, 1))
			m, err := b.NewMatrix(raw)
			require.NoError(t, err)
			weight, _ := tensor(d, 1, s.cols, uniform(r, s.cols, 1))
			v, err := b.NewVector(weight)
			require.NoError(t, err)
			for _, n := range []int{2, 3, 7, 13, 38} {
				if !b.turn() {
					continue
				}
				x, old := uniform(r, n*s.cols, 1), uniform(r, n*s.rows, 1)
				together := rowOps(t, b, m, v, x, old)
				for i := range n {
					alone := rowOps(t, b, m, v, x[i*s.cols:][:s.cols], old[i*s.rows:][:s.rows])
					for op := range together {
						cols := len(alone[op])
						requireSameBits(t, alone[op], together[op][i*cols:][:cols], "operation ", op, " row ", i, " of ", n)
					}
				}
			}
		}
	}
}

// rowOps runs every operation that works row by row.
func rowOps(t *testing.T, b compute.Backend, m compute.Matrix, v compute.Vector, x, old []float32) [9][]float32 {
	rows, cols := m.Rows(), m.Cols()
	n := len(x) / cols
	src, norm := filled(t, b, 0, cols, x), filled(t, b, n, cols, nil)
	b.RMSNorm(norm, src, v, 1e-6, n)
	out, sum := filled(t, b, n, rows, nil), filled(t, b, 0, rows, old)
	b.Linear(out, norm, m, n)
	b.LinearAdd(sum, src, m, n)
	res := [9][]float32{result(t, b, norm, n), result(t, b, out, n), result(t, b, sum, n),
		gateRows(t, b, b.SiluMul, x, cols), gateRows(t, b, b.GeluMul, x, cols)}
	for i, change := range []func(){
		func() { b.RMSNormAdd(norm, src, v, 1e-6, n) },
		func() { b.AddBias(norm, v, n) },
		func() { b.Scale(norm, 0.3, n) },
		func() { b.SoftCap(norm, 0.7, n) },
	} {
		change()
		res[5+i] = result(t, b, norm, n)
	}
	for _, buf := range []compute.Buffer{src, norm, out, sum} {
		buf.Free()
	}
	return res
}

// gateRows gates every row of x with itself, all rows together.
func gateRows(t *testing.T, b compute.Backend, gateMul func(dst, gateUp compute.Buffer, rows int), x []float32, cols int) []float32 {
	n := len(x) / cols
	var both []float32
	for i := range n {
		row := x[i*cols:][:cols]
		both = append(append(both, row...), row...)
	}
	gate, dst := filled(t, b, 0, 2*cols, both), filled(t, b, n, cols, nil)
	gateMul(dst, gate, n)
	out := result(t, b, dst, n)
	gate.Free()
	dst.Free()
	return out
}
