package arch_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/arch"
)

// released has the members of config.json of released models that matter.
var released = map[string]map[string]any{
	"mistral 7B v0.1": {"architectures": []any{"MistralForCausalLM"}, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
		"max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
		"rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000},
	"mixtral 8x7B": {"architectures": []any{"MixtralForCausalLM"}, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
		"max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
		"num_local_experts": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": nil, "tie_word_embeddings": false, "vocab_size": 32000},
	"qwen2.5 7B": {"architectures": []any{"Qwen2ForCausalLM"}, "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
		"max_position_embeddings": 32768, "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
		"rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064},
	"qwen3 0.6B": {"architectures": []any{"Qwen3ForCausalLM"}, "attention_bias": false, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
		"intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16, "num_hidden_layers": 28,
		"num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": nil, "rope_theta": 1000000, "sliding_window": nil,
		"tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936},
	"qwen3 30B A3B": {"architectures": []any{"Qwen3MoeForCausalLM"}, "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
		"intermediate_size": 6144, "max_position_embeddings": 40960, "mlp_only_layers": []any{}, "moe_intermediate_size": 768, "norm_topk_prob": true,
		"num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
		"rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936},
	"gemma 2 2B": {"architectures": []any{"Gemma2ForCausalLM"}, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 256,
		"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216,
		"max_position_embeddings": 8192, "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "query_pre_attn_scalar": 256,
		"rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000},
	"gemma 3 1B": {"architectures": []any{"Gemma3ForCausalLM"}, "attn_logit_softcapping": nil, "final_logit_softcapping": nil, "head_dim": 256,
		"hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912, "max_position_embeddings": 32768,
		"num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
		"rope_local_base_freq": 10000, "rope_scaling": nil, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144},
	"gemma 3 4B": {"architectures": []any{"Gemma3ForConditionalGeneration"}, "boi_token_index": 255999, "eos_token_id": []any{1, 106}, "mm_tokens_per_image": 256,
		"text_config": map[string]any{"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
			"rope_scaling": map[string]any{"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
		"vision_config": map[string]any{"hidden_size": 1152, "num_hidden_layers": 27}},
	"phi 4 mini": {"architectures": []any{"Phi3ForCausalLM"}, "attention_bias": false, "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
		"max_position_embeddings": 131072, "num_attention_heads": 24, "num_hidden_layers": 32, "num_key_value_heads": 8,
		"original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 262144,
		"rope_scaling":        map[string]any{"type": "longrope", "short_factor": slices.Repeat([]any{1}, 48), "long_factor": slices.Repeat([]any{32.5}, 48)},
		"tie_word_embeddings": true, "vocab_size": 200064},
	"smollm3 3B": {"architectures": []any{"SmolLM3ForCausalLM"}, "attention_bias": false, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 11008,
		"max_position_embeddings": 65536, "mlp_bias": false, "no_rope_layer_interval": 4, "num_attention_heads": 16, "num_hidden_layers": 36,
		"num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": nil, "rope_theta": 5000000.0, "sliding_window": nil,
		"use_sliding_window": false, "vocab_size": 128256},
}

func TestReleasedModels(t *testing.T) {
	checks := map[string]func(t *testing.T, c arch.Config){
		"mistral 7B v0.1": func(t *testing.T, c arch.Config) {
			require.Equal(t, slices.Repeat([]arch.Layer{{Sliding: true, Window: 4096}}, 32), c.Layers)
		},
		"mixtral 8x7B": func(t *testing.T, c arch.Config) {
			require.Equal(t, arch.Experts{Num: 8, PerToken: 2, IntermediateSize: 14336, Normalize: true}, c.Experts)
			require.Equal(t, slices.Repeat([]arch.Layer{{Sliding: true, Sparse: true}}, 32), c.Layers)
			require.Equal(t, "model.layers.7.block_sparse_moe.experts.3.w3", c.Tensors.OfExpert(7, 3, c.Tensors.ExpertUp))
		},
		"qwen2.5 7B": func(t *testing.T, c arch.Config) {
			require.True(t, c.QKVBias)
			require.Equal(t, make([]arch.Layer, 28), c.Layers)
		},
		"qwen3 0.6B": func(t *testing.T, c arch.Config) {
			require.Equal(t, "self_attn.q_norm", c.Tensors.QNorm)
			require.InDelta(t, 1/math.Sqrt(128), c.AttentionScale, 1e-12)
		},
		"qwen3 30B A3B": func(t *testing.T, c arch.Config) {
			require.Equal(t, arch.Experts{Num: 128, PerToken: 8, IntermediateSize: 768, Normalize: true}, c.Experts)
			require.Equal(t, slices.Repeat([]arch.Layer{{Sparse: true}}, 48), c.Layers)
			require.Equal(t, "model.layers.7.mlp.experts.3.up_proj", c.Tensors.OfExpert(7, 3, c.Tensors.ExpertUp))
		},
		"gemma 2 2B": func(t *testing.T, c arch.Config) {
			require.Equal(t, []float64{48, 1.0 / 16, 50, 30, 1}, []float64{c.EmbeddingScale, c.AttentionScale, c.AttentionSoftCap, c.LogitSoftCap, c.NormOffset})
			require.Equal(t, slices.Repeat([]arch.Layer{{Sliding: true, Window: 4096}, {}}, 13), c.Layers)
			require.True(t, c.TieWordEmbeddings)
			require.Equal(t, arch.GELU, c.Activation)
		},
		"gemma 3 1B": func(t *testing.T, c arch.Config) {
			require.Equal(t, []arch.Rope{{Theta: 1e6, Dim: 256}, {Theta: 10000, Dim: 256}}, c.Ropes)
			local := arch.Layer{Sliding: true, Window: 512, Rope: 1}
			require.Equal(t, []arch.Layer{local, local, local, local, local, {}, local}, c.Layers[:7])
			require.Zero(t, c.AttentionSoftCap)
		},
		"gemma 3 4B": func(t *testing.T, c arch.Config) {
			require.Equal(t, []int{2560, 34, 8, 4, 256, 262208}, []int{c.HiddenSize, c.NumLayers, c.NumHeads, c.NumKVHeads, c.HeadDim, c.VocabSize})
			require.Equal(t, []int32{1, 106}, c.EOSTokenIDs)
			require.Equal(t, arch.Rope{Theta: 1e6, Dim: 256, Scaling: &arch.RopeScaling{Kind: "linear", Factor: 8}}, c.Ropes[0])
			require.Equal(t, arch.Layer{Sliding: true, Window: 1024, Rope: 1}, c.Layers[0])
			require.Equal(t, []any{1.0 / 16, true, 1.0}, []any{c.AttentionScale, c.TieWordEmbeddings, c.NormOffset})
		},
		"phi 4 mini": func(t *testing.T, c arch.Config) {
			require.Equal(t, 96, c.Ropes[0].Dim)
			require.Zero(t, c.Layers[0].Window, "it never closes")
			require.Empty(t, c.Tensors.Q+c.Tensors.Gate)
		},
		"smollm3 3B": func(t *testing.T, c arch.Config) {
			require.Equal(t, slices.Repeat([]arch.Layer{{}, {}, {}, {Rope: arch.NoRope}}, 9), c.Layers)
			require.True(t, c.TieWordEmbeddings)
		},
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			c, err := parse(t, released[name])
			require.NoError(t, err)
			check(t, c)
		})
	}
	require.Len(t, checks, len(released))
}

func TestNewerFilesOfGemma3(t *testing.T) {
	types := slices.Repeat([]any{"full_attention", "sliding_attention"}, 13)
	c, err := parse(t, with(copyOf(released["gemma 3 1B"]), map[string]any{
		"layer_types": types, "rope_theta": nil, "rope_local_base_freq": nil,
		"rope_parameters": map[string]any{
			"full_attention":    map[string]any{"rope_type": "linear", "factor": 8.0, "rope_theta": 7e5},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 9000},
		},
	}))
	require.NoError(t, err)
	require.Equal(t, []arch.Rope{{Theta: 7e5, Dim: 256, Scaling: &arch.RopeScaling{Kind: "linear", Factor: 8}}, {Theta: 9000, Dim: 256}}, c.Ropes)
	require.Equal(t, []arch.Layer{{}, {Sliding: true, Window: 512, Rope: 1}}, c.Layers[:2])
}

func copyOf(members map[string]any) map[string]any { return with(map[string]any{}, members) }

func TestFamiliesRefuse(t *testing.T) {
	for _, c := range []struct {
		of      string
		changes map[string]any
		want    string
	}{
		{"gemma 2 2B", map[string]any{"hidden_activation": "relu"}, `hidden_activation "relu" is not supported; supported: silu, gelu_pytorch_tanh`},
		{"gemma 2 2B", map[string]any{"attn_logit_softcapping": -1}, "attn_logit_softcapping is -1; it must be a number in (0,"},
		{"gemma 2 2B", map[string]any{"query_pre_attn_scalar": 0}, "query_pre_attn_scalar is 0;"},
		{"gemma 3 1B", map[string]any{"sliding_window_pattern": 0}, "sliding_window_pattern is 0; it must be an integer from 1"},
		{"gemma 3 1B", map[string]any{"layer_types": slices.Repeat([]any{"chunked_attention"}, 26)}, `layer_types holds "chunked_attention"; supported: full_attention`},
		{"gemma 3 1B", map[string]any{"rope_local_base_freq": "fast"}, `rope_local_base_freq is "fast"; it must be a number`},
		{"gemma 3 4B", map[string]any{"text_config": nil}, "text_config is missing"},
		{"gemma 3 4B", map[string]any{"text_config": []any{}}, "text_config is []; it must be an object"},
		{"gemma 3 4B", map[string]any{"text_config": map[string]any{"hidden_size": -1}}, "text_config.hidden_size is -1; it must be an integer"},
		{"gemma 3 4B", map[string]any{"quantization_config": map[string]any{}}, "quantization_config is not supported"},
		{"qwen2.5 7B", map[string]any{"use_sliding_window": true, "max_window_layers": -3}, "max_window_layers is -3;"},
		{"qwen2.5 7B", map[string]any{"use_sliding_window": 1}, "use_sliding_window is 1; it must be true or false"},
		{"mixtral 8x7B", map[string]any{"num_local_experts": 0}, "num_local_experts is 0; it must be an integer from 1 to 1024"},
		{"mixtral 8x7B", map[string]any{"hidden_act": "gelu_pytorch_tanh"}, "hidden_act is not supported with experts; supported: silu"},
		{"qwen3 30B A3B", map[string]any{"num_experts": nil}, "num_experts is missing"},
		{"qwen3 30B A3B", map[string]any{"num_experts": 1 << 30}, "num_experts is 1073741824;"},
		{"qwen3 30B A3B", map[string]any{"num_experts": 1024, "num_hidden_layers": 100}, "num_experts is 1024, in 100 layers; there may be at most 65536 experts"},
		{"qwen3 30B A3B", map[string]any{"num_experts_per_tok": 129}, "num_experts_per_tok is 129; there are 128 experts"},
		{"qwen3 30B A3B", map[string]any{"mlp_only_layers": []any{-1}}, "mlp_only_layers holds -1;"},
		{"qwen3 30B A3B", map[string]any{"mlp_only_layers": slices.Repeat([]any{1}, 2000)}, "mlp_only_layers has 2000 elements; there may be at most 1024"},
		{"phi 4 mini", map[string]any{"original_max_position_embeddings": nil}, "rope_scaling.original_max_position_embeddings is missing"},
		{"phi 4 mini", map[string]any{"partial_rotary_factor": 1}, "short_factor has 48 elements; it must be a list of 64 numbers"},
		{"smollm3 3B", map[string]any{"no_rope_layers": []any{1, 0}}, "no_rope_layers has 2 elements; there are 36 layers"},
		{"smollm3 3B", map[string]any{"no_rope_layers": []any{2}}, "no_rope_layers holds 2; it must be a list of integers from 0 to 1"},
		{"smollm3 3B", map[string]any{"no_rope_layers": 7}, "no_rope_layers is 7; it must be a list"},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := parse(t, with(copyOf(released[c.of]), c.changes))
			require.ErrorContains(t, err, "config.json: ")
			require.ErrorContains(t, err, c.want)
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, infer.CodeInvalid, coded.Code)
		})
	}
}
