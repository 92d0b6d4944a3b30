package ref_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/ref"
)

// The expected values are worked by hand.

func TestRowsAreCopied(t *testing.T) {
	table := []float64{1, 2, 3, 4, 5, 6}
	require.Equal(t, []float64{5, 6, 1, 2}, ref.Embed(table, 2, []int32{2, 0}))
	require.Equal(t, []float64{3, 4}, ref.Gather(table, 2, []int32{1}))
}

func TestRMSNorm(t *testing.T) {
	// rms(3, 4) = sqrt(12.5); eps 12.5 makes it 5.
	require.Equal(t, []float64{0.6, 1.6}, ref.RMSNorm([]float64{3, 4}, []float64{1, 2}, 12.5))
}

func TestLinear(t *testing.T) {
	x, w := []float64{1, 2, 3, 4}, []float64{1, 0, 0, 1, 1, 1}
	require.Equal(t, []float64{1, 2, 3, 3, 4, 7}, ref.Linear(x, w, 2))
	require.Equal(t, []float64{11, 12, 13, 13, 14, 17}, ref.LinearAdd([]float64{10, 10, 10, 10, 10, 10}, x, w, 2))
}

func TestSiluMul(t *testing.T) {
	got := ref.SiluMul([]float64{0, math.Log(3), 5, 8}, 2)
	require.InDeltaSlice(t, []float64{0, math.Log(3) * 0.75 * 8}, got, 1e-12)
}

func TestGeluMul(t *testing.T) {
	// gelu(1) and gelu(-2) in the approximation, to ten digits.
	got := ref.GeluMul([]float64{1, -2, 3, 5}, 2)
	require.InDeltaSlice(t, []float64{0.8411919906 * 3, -0.0454023059 * 5}, got, 1e-9)
}

func TestExpertsAdd(t *testing.T) {
	// Logits ln 3, 0 and ln 6 of x = 1: probabilities 0.3, 0.1 and 0.6. An expert
	// with gate and up 1 and down d gives silu(1) * d.
	one, silu := []float64{1, 1}, 1/(1+math.Exp(-1))
	m := ref.Mixture{
		Hidden: 1, Intermediate: 1, PerToken: 2,
		Router: []float64{math.Log(3), 0, math.Log(6)},
		GateUp: [][]float64{one, one, one}, Down: [][]float64{{1}, {10}, {100}},
	}
	require.InDeltaSlice(t, []float64{5 + silu*60.3}, ref.ExpertsAdd([]float64{5}, []float64{1}, m), 1e-12)
	m.Normalize = true
	require.InDeltaSlice(t, []float64{5 + silu*60.3/0.9}, ref.ExpertsAdd([]float64{5}, []float64{1}, m), 1e-12)
}

func TestElementwise(t *testing.T) {
	require.Equal(t, []float64{11, 22, 13, 24}, ref.AddBias([]float64{1, 2, 3, 4}, []float64{10, 20}))
	require.Equal(t, []float64{2, -4}, ref.Scale([]float64{1, -2}, 2))
	require.InDeltaSlice(t, []float64{0, 3}, ref.SoftCap([]float64{0, 5 * math.Atanh(0.6)}, 5), 1e-12)
	require.Equal(t, []float64{10.6, 21.6}, ref.RMSNormAdd([]float64{10, 20}, []float64{3, 4}, []float64{1, 2}, 12.5))
}

func TestHeadNormLeavesValues(t *testing.T) {
	s := ref.Shape{NumHeads: 2, NumKVHeads: 1, HeadDim: 2}
	got := ref.HeadNorm([]float64{3, 4, 4, 3, 3, 4, 3, 4}, s, []float64{1, 2}, []float64{10, 10}, 12.5)
	require.Equal(t, []float64{0.6, 1.6, 0.8, 1.2, 6, 8, 3, 4}, got)
}

func TestRopeRotatesHalfSplitPairs(t *testing.T) {
	s := ref.Shape{NumHeads: 1, NumKVHeads: 1, HeadDim: 4}
	row := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}
	ref.Rope(row, s, []float64{0, 1}, []float64{1, 0})
	require.Equal(t, []float64{-3, 2, 1, 4, -7, 6, 5, 8, 9, 9, 9, 9}, row)
}

func TestAttentionSharesKeyValueHeadsInGroups(t *testing.T) {
	s := ref.Shape{NumHeads: 4, NumKVHeads: 2, HeadDim: 1, Scale: 2}
	c := ref.NewCache(s, 3)
	row := func(q, k0, k1, v0, v1 float64) []float64 { return []float64{q, q, q, q, k0, k1, v0, v1} }
	c.Store(row(0, 0, math.Log(3)/2, 1, 10), s, 2)
	c.Store(row(0, 0, 0, 3, 20), s, 0)
	// Head 0 of the keys is even; on head 1 slot 2 weighs three times slot 0.
	got := c.Attention(row(1, 0, 0, 0, 0), s, []int{2, 0})
	require.InDeltaSlice(t, []float64{2, 2, 12.5, 12.5}, got, 1e-12)
	require.True(t, math.IsNaN(c.Attention(row(1, 0, 0, 0, 0), s, []int{2, 1})[0]), "slot 1 was never stored")
}
