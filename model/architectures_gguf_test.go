package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
)

// The same model gives the same bits from either kind of file.
func TestArchitecturesAreTheSameFromGGUF(t *testing.T) {
	// What a GGUF file cannot say must be as it is taken to be.
	changes := map[string]map[string]any{
		"LlamaForCausalLM":    {"rope_scaling": nil},
		"Qwen2ForCausalLM":    {"use_sliding_window": false, "sliding_window": nil},
		"Qwen3ForCausalLM":    {"sliding_window": nil},
		"Qwen3MoeForCausalLM": {"mlp_only_layers": nil},
		"Gemma2ForCausalLM":   {"query_pre_attn_scalar": 256},
		"Gemma3ForCausalLM":   {"query_pre_attn_scalar": 256, "sliding_window_pattern": 6},
		"SmolLM3ForCausalLM":  {"no_rope_layers": nil},
		"Phi3ForCausalLM":     {"rope_scaling": map[string]any{"type": "longrope", "short_factor": []float64{1, 1.25, 1.5}, "long_factor": []float64{1, 2, 3.5}}},
	}
	forEachArchitecture(t, func(t *testing.T, tiny *modelkit.Tiny) {
		name := tiny.Config["architectures"].([]string)[0]
		if name == "MistralForCausalLM" {
			return // its GGUF files are Llama's
		}
		if name == "Qwen3MoeForCausalLM" {
			tiny = modelkit.NewTinyMoE(5)
		}
		for member, value := range changes[name] {
			tiny.Config[member] = value
		}
		var got [2]*sequence
		for i, path := range []string{tiny.Write(t, "F32"), writeGGUF(t, tiny.GGUF(t))} {
			got[i] = scoredTiny(40)
			m := load(t, path, options(t))
			require.Equal(t, name, m.Config().Architecture)
			(&driver{runner: newRunner(t, m)}).run(t, got[i])
		}
		require.Equal(t, got[0].output, got[1].output)
		require.Equal(t, bitsOf(append(got[0].promptLogprobs, got[0].logprobs...)), bitsOf(append(got[1].promptLogprobs, got[1].logprobs...)))
	})
}
