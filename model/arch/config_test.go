package arch_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/arch"
	"github.com/troupe-llm/troupe/model/jsonfields"
)

// llamaConfig is the config of a released 1B model, by member.
func llamaConfig() map[string]any {
	return map[string]any{
		"architectures": []any{"LlamaForCausalLM"}, "attention_bias": false, "mlp_bias": false,
		"bos_token_id": 128000, "eos_token_id": []any{128001, 128008, 128009}, "head_dim": 64, "hidden_act": "silu",
		"hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 131072, "model_type": "llama",
		"num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
		"rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 128256,
		"rope_scaling": map[string]any{"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
			"original_max_position_embeddings": 8192, "rope_type": "llama3"},
	}
}

func parseBytes(b []byte) (arch.Config, error) { return arch.Parse(jsonfields.Parse("config.json", b)) }

func parse(tb testing.TB, members map[string]any) (arch.Config, error) {
	tb.Helper()
	b, err := json.Marshal(members)
	require.NoError(tb, err)
	return parseBytes(b)
}

func TestParseConfig(t *testing.T) {
	c, err := parse(t, llamaConfig())
	require.NoError(t, err)
	require.Equal(t, arch.Config{
		Architecture: "LlamaForCausalLM", Tensors: c.Tensors, HiddenSize: 2048, IntermediateSize: 8192, NumLayers: 16, NumHeads: 32,
		NumKVHeads: 8, HeadDim: 64, VocabSize: 128256, MaxPositionEmbeddings: 131072, RMSNormEps: 1e-5,
		Ropes: []arch.Rope{{Theta: 500000, Dim: 64, Scaling: &arch.RopeScaling{
			Kind: "llama3", Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositionEmbeddings: 8192}}},
		TieWordEmbeddings: true, EOSTokenIDs: []int32{128001, 128008, 128009},
		EmbeddingScale: 1, AttentionScale: 0.125, Layers: make([]arch.Layer, 16),
	}, c)
	require.Equal(t, "model.layers.3.self_attn.q_proj", c.Tensors.OfLayer(3, c.Tensors.Q))
}

func TestParseConfigDefaults(t *testing.T) {
	members := llamaConfig()
	for _, name := range []string{"head_dim", "num_key_value_heads", "rope_theta", "rope_scaling", "tie_word_embeddings", "torch_dtype", "eos_token_id", "hidden_act"} {
		delete(members, name)
	}
	c, err := parse(t, members)
	require.NoError(t, err)
	require.Equal(t, 64, c.HeadDim)
	require.Equal(t, 32, c.NumKVHeads)
	require.Equal(t, []arch.Rope{{Theta: 10000, Dim: 64}}, c.Ropes)
	require.False(t, c.TieWordEmbeddings)
	require.Empty(t, c.EOSTokenIDs)
}

func TestParseConfigOtherForms(t *testing.T) {
	forms := map[string]struct {
		members map[string]any
		check   func(*testing.T, arch.Config)
	}{
		"one end token": {map[string]any{"eos_token_id": 7}, func(t *testing.T, c arch.Config) { require.Equal(t, []int32{7}, c.EOSTokenIDs) }},
		"default rope":  {map[string]any{"rope_scaling": map[string]any{"rope_type": "default"}}, func(t *testing.T, c arch.Config) { require.Nil(t, c.Ropes[0].Scaling) }},
		"rope_parameters": {map[string]any{"rope_scaling": nil, "rope_parameters": map[string]any{"rope_theta": 9.0, "rope_type": "default"}},
			func(t *testing.T, c arch.Config) { require.EqualValues(t, 9, c.Ropes[0].Theta) }},
		"Mistral with a window that never closes": {map[string]any{"architectures": []any{"MistralForCausalLM"}, "sliding_window": 131072},
			func(t *testing.T, c arch.Config) { require.Zero(t, c.Layers[0].Window) }},
		"half a head rotated": {map[string]any{"partial_rotary_factor": 0.5},
			func(t *testing.T, c arch.Config) { require.Equal(t, 32, c.Ropes[0].Dim) }},
	}
	for name, f := range forms {
		t.Run(name, func(t *testing.T) {
			members := llamaConfig()
			maps.Copy(members, f.members)
			c, err := parse(t, members)
			require.NoError(t, err)
			f.check(t, c)
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	scaling := func(members map[string]any) map[string]any {
		s := llamaConfig()["rope_scaling"].(map[string]any)
		maps.Copy(s, members)
		return map[string]any{"rope_scaling": s}
	}
	cases := []struct {
		members map[string]any
		want    string
	}{
		{map[string]any{"architectures": nil}, "architectures is missing; supported: LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM"},
		{map[string]any{"architectures": []any{"GPT2LMHeadModel"}}, `architectures ["GPT2LMHeadModel"] is not supported; supported: LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM`},
		{map[string]any{"architectures": "LlamaForCausalLM"}, `it must be a list of strings`},
		{map[string]any{"hidden_size": nil}, "hidden_size is missing; it must be an integer from 1 to 131072"},
		{map[string]any{"hidden_size": "2048"}, `hidden_size is "2048"; it must be an integer`},
		{map[string]any{"hidden_size": 2048.5}, "hidden_size is 2048.5; it must be an integer"},
		{map[string]any{"hidden_size": 0}, "hidden_size is 0;"},
		{map[string]any{"num_hidden_layers": -1}, "num_hidden_layers is -1;"},
		{map[string]any{"num_hidden_layers": 1e9}, "num_hidden_layers is 1000000000;"},
		{map[string]any{"vocab_size": []any{}}, "vocab_size is [];"},
		{map[string]any{"intermediate_size": 1 << 40}, "intermediate_size is 1099511627776;"},
		{map[string]any{"max_position_embeddings": 0}, "max_position_embeddings is 0;"},
		{map[string]any{"num_key_value_heads": 5}, "num_attention_heads is 32, not a multiple of num_key_value_heads 5"},
		{map[string]any{"num_key_value_heads": 0}, "num_key_value_heads is 0;"},
		{map[string]any{"head_dim": 63}, "head_dim is 63; rotary embeddings need an even number"},
		{map[string]any{"head_dim": nil, "hidden_size": 2049}, "head_dim is missing and hidden_size 2049 is not a multiple"},
		{map[string]any{"rms_norm_eps": nil}, "rms_norm_eps is missing"},
		{map[string]any{"rms_norm_eps": 0}, "rms_norm_eps is 0; it must be a number in (0, 1)"},
		{map[string]any{"rope_theta": -1}, "rope_theta is -1;"},
		{map[string]any{"hidden_act": "gelu"}, `hidden_act "gelu" is not supported; supported: silu, gelu_pytorch_tanh`},
		{map[string]any{"attention_bias": true}, "attention_bias true is not supported"},
		{map[string]any{"mlp_bias": true}, "mlp_bias true is not supported"},
		{map[string]any{"mlp_bias": "yes"}, `mlp_bias is "yes"; it must be true or false`},
		{map[string]any{"tie_word_embeddings": 1}, "tie_word_embeddings is 1;"},
		{map[string]any{"quantization_config": map[string]any{}}, "quantization_config is not supported"},
		{map[string]any{"architectures": []any{"MistralForCausalLM"}, "sliding_window": 0}, "sliding_window is 0; it must be an integer from 1"},
		{map[string]any{"architectures": []any{"MistralForCausalLM"}, "layer_types": []any{"full_attention"}}, "layer_types has 1 elements; there are 16 layers"},
		{map[string]any{"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5; it must be a number in (0, 1]"},
		{map[string]any{"partial_rotary_factor": 0.02}, "partial_rotary_factor is 0.02: it rotates 1 of a head's 64 elements"},
		{map[string]any{"eos_token_id": 128256}, "eos_token_id holds 128256; token ids are integers from 0 to 128255"},
		{map[string]any{"eos_token_id": []any{1, nil}}, "eos_token_id holds null"},
		{map[string]any{"eos_token_id": "end"}, `eos_token_id holds "end"`},
		{map[string]any{"rope_scaling": "linear"}, "rope_scaling is \"linear\"; it must be an object"},
		{scaling(map[string]any{"rope_type": "mrope"}), `rope_scaling.rope_type "mrope" is not supported; supported: default, linear, dynamic, llama3, yarn, longrope`},
		{map[string]any{"rope_scaling": map[string]any{"type": "linear"}}, `rope_scaling.factor is missing`},
		{map[string]any{"rope_scaling": map[string]any{"type": "yarn", "factor": 4, "beta_fast": -1}}, `rope_scaling.beta_fast is -1`},
		{map[string]any{"rope_theta": 1, "rope_scaling": map[string]any{"type": "yarn", "factor": 4}}, `rope_scaling.rope_theta is 1; yarn needs one above 1`},
		{map[string]any{"rope_scaling": map[string]any{"type": "longrope"}}, `rope_scaling.short_factor has 0 elements; it must be a list of 32 numbers`},
		{scaling(map[string]any{"factor": 0.5}), "rope_scaling.factor is 0.5; it must be a number in [1, 1e+06]"},
		{scaling(map[string]any{"factor": nil}), "rope_scaling.factor is missing"},
		{scaling(map[string]any{"low_freq_factor": 4.0}), "rope_scaling.low_freq_factor 4 must be below high_freq_factor 4"},
		{scaling(map[string]any{"original_max_position_embeddings": 0}), "original_max_position_embeddings is 0;"},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			members := llamaConfig()
			maps.Copy(members, c.members)
			_, err := parse(t, members)
			require.ErrorContains(t, err, "config.json: ")
			require.ErrorContains(t, err, c.want)
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, infer.CodeInvalid, coded.Code)
		})
	}
	for _, text := range []string{"", "null", "[]", "{", `{"a":1}x`, "\x00"} {
		_, err := parseBytes([]byte(text))
		require.ErrorContains(t, err, "JSON object", "%q", text)
	}
}

func FuzzParseConfig(f *testing.F) {
	b, err := json.Marshal(llamaConfig())
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"architectures":["MistralForCausalLM"],"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":3,"max_position_embeddings":4,"rms_norm_eps":1e-6,"rope_parameters":{"rope_theta":1}}`))
	f.Add([]byte(`{"architectures":["LlamaForCausalLM"],"eos_token_id":[[1]]}`))
	for _, members := range released {
		b, err := json.Marshal(members)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseBytes(b)
		if err != nil {
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			return
		}
		require.Positive(t, c.NumKVHeads)
		require.Zero(t, c.NumHeads%c.NumKVHeads)
		require.Zero(t, c.HeadDim%2)
		for _, v := range []int{c.HiddenSize, c.IntermediateSize, c.NumLayers, c.VocabSize, c.MaxPositionEmbeddings, c.HeadDim} {
			require.True(t, v > 0 && v <= 1<<25)
		}
		require.Len(t, c.Layers, c.NumLayers)
		for _, l := range c.Layers {
			require.True(t, l.Window >= 0 && l.Rope < len(c.Ropes))
		}
		for i := range c.Ropes {
			requireSound(t, &c.Ropes[i], min(c.MaxContext(), 1<<10))
		}
	})
}
