package computetest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/kernels/ref"
)

// testExperts compares with the oracle, and every row with itself alone.
func testExperts(t *testing.T, b *suite) {
	r := newRand(t)
	for _, c := range []struct {
		experts, perToken, hidden, intermediate int
		normalize                               bool
	}{
		{1, 1, 16, 16, false}, {4, 2, 33, 20, true}, {8, 3, 20, 7, false}, {16, 16, 16, 9, true}, {40, 8, 48, 32, true},
	} {
		if !b.turn() {
			continue
		}
		m := ref.Mixture{Hidden: c.hidden, Intermediate: c.intermediate, PerToken: c.perToken, Normalize: c.normalize}
		e := &compute.Experts{PerToken: c.perToken, Normalize: c.normalize}
		e.Router, m.Router = randomMatrix(t, b, r, c.experts, c.hidden)
		for range c.experts {
			gateUp, wantGateUp := randomMatrix(t, b, r, 2*c.intermediate, c.hidden)
			down, wantDown := randomMatrix(t, b, r, c.hidden, c.intermediate)
			e.GateUp, e.Down = append(e.GateUp, gateUp), append(e.Down, down)
			m.GateUp, m.Down = append(m.GateUp, wantGateUp), append(m.Down, wantDown)
		}
		const n = 29
		x, old := uniform(r, n*c.hidden, 1), uniform(r, n*c.hidden, 1)
		mix := func(x, old []float32) []float32 {
			n := len(x) / c.hidden
			src, dst := filled(t, b, 0, c.hidden, x), filled(t, b, 0, c.hidden, old)
			defer src.Free()
			defer dst.Free()
			b.ExpertsAdd(dst, src, e, n)
			return result(t, b, dst, n)
		}
		together := mix(x, old)
		requireClose(t, ref.ExpertsAdd(widen(old), widen(x), m), together, tolerance)
		for i := range n {
			from, to := i*c.hidden, (i+1)*c.hidden
			requireSameBits(t, mix(x[from:to], old[from:to]), together[from:to], "row ", i)
		}
	}
}

func randomMatrix(t *testing.T, b compute.Backend, r *rand.Rand, rows, cols int) (compute.Matrix, []float64) {
	raw, w := tensor(compute.F32, rows, cols, uniform(r, rows*cols, 0.5))
	m, err := b.NewMatrix(raw)
	require.NoError(t, err)
	return m, w
}
