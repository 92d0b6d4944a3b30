package arch_test

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/model/arch"
)

// frequencies returns those of the first rotary embedding and requires that
// cosines and sines stay as they are.
func frequencies(t *testing.T, c *arch.Config, positions int) []float64 {
	t.Helper()
	inverse, scale := arch.Frequencies(&c.Ropes[0], positions)
	require.EqualValues(t, 1, scale)
	return inverse
}

// requireSound requires usable numbers.
func requireSound(t *testing.T, r *arch.Rope, positions int) {
	t.Helper()
	inverse, scale := arch.Frequencies(r, positions)
	require.Len(t, inverse, r.Dim/2)
	for _, v := range append(inverse, scale) {
		require.False(t, math.IsNaN(v) || math.IsInf(v, 0) || v < 0)
	}
}

// The scaled frequencies against those of transformers' own function for this
// config: its first, blended and last pairs, computed with the formula of the
// Llama 3.1 release (models/llama3/reference_impl/model.py, apply_scaling).
func TestLlama3RopeScaling(t *testing.T) {
	c, err := parse(t, llamaConfig())
	require.NoError(t, err)
	applyScaling := func(freq float64) float64 {
		const scaleFactor, low, high, oldContext = 32, 1, 4, 8192
		wavelength := 2 * math.Pi / freq
		switch {
		case wavelength < oldContext/high:
			return freq
		case wavelength > oldContext/low:
			return freq / scaleFactor
		}
		smooth := (oldContext/wavelength - low) / (high - low)
		return (1-smooth)*freq/scaleFactor + smooth*freq
	}
	got := frequencies(t, &c, 131072)
	require.Len(t, got, 32)
	kinds := map[string]int{}
	for i, f := range got {
		plain := math.Pow(500000, -float64(i)/32)
		require.InEpsilon(t, applyScaling(plain), f, 1e-12, "pair %d", i)
		switch {
		case f == plain:
			kinds["kept"]++
		case f == plain/32:
			kinds["divided"]++
		default:
			kinds["blended"]++
		}
	}
	require.Len(t, kinds, 3, "the config exercises all three cases")
}

// scaled parses a Llama config with another rotary embedding.
func scaled(t *testing.T, theta float64, dim, context int, scaling map[string]any) arch.Config {
	t.Helper()
	c, err := parse(t, with(llamaConfig(), map[string]any{
		"rope_theta": theta, "head_dim": dim, "max_position_embeddings": context, "rope_scaling": scaling,
	}))
	require.NoError(t, err)
	return c
}

func with(members, changes map[string]any) map[string]any {
	maps.Copy(members, changes)
	return members
}

// The expected numbers are those of the functions of transformers'
// modeling_rope_utils.py, computed in float64.
func TestRopeScalingKinds(t *testing.T) {
	requireFrequencies := func(want, got []float64) {
		t.Helper()
		require.Len(t, got, len(want))
		for i := range want {
			require.InEpsilon(t, want[i], got[i], 1e-9, "pair %d", i)
		}
	}
	c := scaled(t, 10000, 8, 2048, map[string]any{"type": "linear", "factor": 4})
	requireFrequencies([]float64{0.25, 0.025, 0.0025, 0.00025}, frequencies(t, &c, 2048))
	require.Equal(t, 2048, c.MaxContext())

	c = scaled(t, 10000, 8, 2048, map[string]any{"type": "dynamic", "factor": 2})
	requireFrequencies([]float64{1, 0.1, 0.01, 0.001}, frequencies(t, &c, 2048))
	requireFrequencies([]float64{1, 0.06933612744, 0.004807498568, 0.0003333333333}, frequencies(t, &c, 4096))
	require.Equal(t, 4096, c.MaxContext())

	c = scaled(t, 1e6, 16, 32768, map[string]any{"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768})
	inverse, scale := arch.Frequencies(&c.Ropes[0], 1)
	requireFrequencies([]float64{1, 0.177827941, 0.0316227766, 0.004217559939, 0.0005, 4.445698525e-05, 7.90569415e-06, 1.405853313e-06}, inverse)
	require.InDelta(t, 1.138629436111989, scale, 1e-12)
	require.Equal(t, 131072, c.MaxContext())

	c = scaled(t, 10000, 16, 4096, map[string]any{"type": "yarn", "factor": 8, "beta_fast": 16, "beta_slow": 2, "truncate": false, "attention_factor": 1})
	requireFrequencies([]float64{1, 0.316227766, 0.1, 0.0316227766, 0.006221889069, 0.000435575476, 0.000125, 3.952847075e-05}, frequencies(t, &c, 1))
}

func TestLongropeChoosesByTheContextServed(t *testing.T) {
	c, err := parse(t, with(llamaConfig(), map[string]any{
		"architectures": []any{"Phi3ForCausalLM"}, "rope_theta": 10000, "head_dim": 8, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
		"partial_rotary_factor": 0.5, "rope_scaling": map[string]any{"type": "su", "short_factor": []any{1, 2}, "long_factor": []any{4, 5}},
	}))
	require.NoError(t, err)
	for positions, want := range map[int][]float64{4096: {1, 0.01 / 2}, 4097: {0.25, 0.01 / 5}} {
		inverse, scale := arch.Frequencies(&c.Ropes[0], positions)
		require.InDeltaSlice(t, want, inverse, 1e-12)
		require.InDelta(t, 1.1902380714238083, scale, 1e-12)
	}
	table := c.Ropes[0].Table(2)
	require.Equal(t, 2, table.HalfDim)
	require.InDelta(t, 1.1902380714238083*math.Cos(0.005), table.Cos[3], 1e-6)
	require.InDelta(t, 1.1902380714238083*math.Sin(0.005), table.Sin[3], 1e-6)

	_, err = parse(t, with(llamaConfig(), map[string]any{
		"rope_scaling": map[string]any{"type": "longrope", "short_factor": make([]int, 32), "long_factor": make([]int, 32)}}))
	require.ErrorContains(t, err, "rope_scaling.short_factor holds 0;")
}

// The table is put together from turns; each is the cosine and sine of its angle.
func TestTableIsExact(t *testing.T) {
	r := arch.Rope{Theta: 1e6, Dim: 10}
	const positions = 1<<17 + 100
	table := r.Table(positions)
	require.Len(t, table.Cos, positions*5)
	inverse, _ := arch.Frequencies(&r, positions)
	for pos := 0; pos < positions; pos += 97 {
		for i, f := range inverse {
			sin, cos := math.Sincos(float64(pos) * f)
			require.InDelta(t, cos, table.Cos[pos*5+i], 6e-8)
			require.InDelta(t, sin, table.Sin[pos*5+i], 6e-8)
		}
	}
}
