package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
)

// A rotary embedding that can stretch serves longer contexts than the model was
// made for, up to its factor.
func TestStretchedContext(t *testing.T) {
	for _, scaling := range []map[string]any{
		{"type": "dynamic", "factor": 2.0},
		{"type": "yarn", "factor": 2.0},
	} {
		small := modelkit.Small(1)
		small.Config = map[string]any{"rope_scaling": scaling}
		dir := small.Write(t, "F32", 1)
		for maxModelLen, want := range map[int]int{0: 96, 192: 192} {
			o := options(t)
			o.MaxModelLen = maxModelLen
			m := load(t, dir, o)
			require.Equal(t, want, m.MaxModelLen())
			s := &sequence{prompt: prompt(want-5, small.Vocab), params: greedy(-1), max: 5}
			(&driver{runner: newRunner(t, m)}).run(t, s)
			require.Len(t, s.output, 5)
		}
		o := options(t)
		o.MaxModelLen = 193
		require.ErrorContains(t, loadError(t, dir, o),
			"--max-model-len is 193, but the model's max_position_embeddings, stretched by its rope_scaling, is 192")
	}
}
