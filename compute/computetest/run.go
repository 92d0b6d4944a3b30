package computetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
)

// Tolerances on values of magnitude about 1: |got - want| <= tol * (1 + |want|).
// Weights are rounded before the oracle sees them, so their type adds no error;
// a cache's type does.
const (
	tolerance     = 1e-5
	toleranceF16  = 2e-3
	toleranceBF16 = 1.5e-2
	toleranceInt8 = 2e-2
)

func cacheTolerance(d compute.DType) float64 {
	return map[compute.DType]float64{
		compute.F32: tolerance, compute.F16: toleranceF16, compute.BF16: toleranceBF16, compute.Int8: toleranceInt8,
	}[d]
}

var (
	dtypes      = []compute.DType{compute.F32, compute.F16, compute.BF16}
	cacheDTypes = append(dtypes[:len(dtypes):len(dtypes)], compute.Int8)
)

// suite is the backend under test, and how much of the suite runs.
type suite struct {
	compute.Backend
	every, cases int
}

// turn counts cases and says whether the next one is to run. A first one always is.
func (s *suite) turn() bool {
	s.cases++
	return (s.cases-1)%s.every == 0
}

// Run runs the suite. newBackend is called once per test; Run closes what it
// returns.
func Run(t *testing.T, newBackend func(t *testing.T) compute.Backend) { RunEvery(t, 1, newBackend) }

// RunEvery runs every n-th case of each test, for backends that are simulated.
func RunEvery(t *testing.T, n int, newBackend func(t *testing.T) compute.Backend) {
	tests := []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Linear", testLinear},
		{"StackedParts", testStackedParts},
		{"QuantisedLinear", testQuantisedLinear},
		{"QuantisedRows", testQuantisedRows},
		{"StackedTypes", testStackedTypes},
		{"QuantiseAtLoad", testQuantiseAtLoad},
		{"BadWeights", testBadWeights},
		{"BadSizes", testBadSizes},
		{"Embed", testEmbed},
		{"Gather", testGather},
		{"RMSNorm", testRMSNorm},
		{"Gates", testGates},
		{"Elementwise", testElementwise},
		{"HeadNorm", testHeadNorm},
		{"Experts", testExperts},
		{"NonFinite", testNonFinite},
		{"RowsAreIndependent", testRowsAreIndependent},
		{"Rope", testRope},
		{"Attention", testAttention},
		{"AttentionSchedules", testAttentionSchedules},
		{"BlockSizes", testBlockSizes},
		{"NaNs", testNaNs},
		{"FreeAndReuse", testFreeAndReuse},
		{"Fork", testFork},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			b := newBackend(t)
			require.NotEmpty(t, b.Describe())
			tc.run(t, &suite{Backend: b, every: n})
			require.NoError(t, b.Sync())
			require.NoError(t, b.Close())
			require.NoError(t, b.Close(), "a second Close does nothing")
		})
	}
}
