package modelkit

import (
	"fmt"
	"strings"
	"testing"
)

// ggufArchitectures are the values of general.architecture. Mistral's files are
// Llama's and lose the window.
var ggufArchitectures = map[string]string{
	"LlamaForCausalLM": "llama", "MixtralForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3",
	"Qwen3MoeForCausalLM": "qwen3moe", "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3", "Phi3ForCausalLM": "phi3", "SmolLM3ForCausalLM": "smollm3",
}

// ggufKeys are the metadata keys of members of config.json, less the prefix.
var ggufKeys = [][2]string{
	{"hidden_size", "embedding_length"}, {"intermediate_size", "feed_forward_length"}, {"num_hidden_layers", "block_count"},
	{"max_position_embeddings", "context_length"}, {"num_attention_heads", "attention.head_count"},
	{"num_key_value_heads", "attention.head_count_kv"}, {"head_dim", "attention.key_length"}, {"head_dim", "attention.value_length"},
	{"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, {"rope_theta", "rope.freq_base"}, {"rope_local_base_freq", "rope.freq_base_swa"},
	{"sliding_window", "attention.sliding_window"}, {"attn_logit_softcapping", "attn_logit_softcapping"},
	{"final_logit_softcapping", "final_logit_softcapping"}, {"num_experts", "expert_count"}, {"num_local_experts", "expert_count"},
	{"num_experts_per_tok", "expert_used_count"}, {"moe_intermediate_size", "expert_feed_forward_length"},
	{"original_max_position_embeddings", "rope.scaling.original_context_length"},
}

// ggufGemmaNames and ggufOtherNames are what tensors are called; the norms of
// Gemma's layers are named otherwise than all others'.
var (
	ggufGemmaNames = strings.NewReplacer("post_attention_layernorm", "post_attention_norm", "pre_feedforward_layernorm", "ffn_norm", "post_feedforward_layernorm", "post_ffw_norm")
	ggufOtherNames = strings.NewReplacer(
		"model.embed_tokens", "token_embd", "model.norm", "output_norm", "lm_head", "output", "model.layers.", "blk.",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
		"self_attn.qkv_proj", "attn_qkv", "self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm",
		"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down", "mlp.gate_up_proj", "ffn_up",
		"mlp.gate.", "ffn_gate_inp.", "block_sparse_moe.gate.", "ffn_gate_inp.",
	)
	ggufExpertNames = strings.NewReplacer("gate_proj", "ffn_gate_exps", "up_proj", "ffn_up_exps", "down_proj", "ffn_down_exps", "w1", "ffn_gate_exps", "w3", "ffn_up_exps", "w2", "ffn_down_exps")
)

// GGUF converts the model as llama.cpp's converter does, in F32: norms of Gemma
// with their 1 added, Llama's q and k in pairs, all experts of a layer in one
// tensor. What the format cannot say must hold in Config: a query scale of 256, no
// window of Qwen, mixtures in all layers.
func (m *Tiny) GGUF(tb testing.TB) *GGUF {
	tb.Helper()
	name := ggufArchitectures[m.Config["architectures"].([]string)[0]]
	g := &GGUF{}
	g.Set("general.architecture", name)
	for _, k := range ggufKeys {
		switch v := m.Config[k[0]].(type) {
		case int:
			g.Set(name+"."+k[1], uint32(v))
		case float64:
			g.Set(name+"."+k[1], float32(v))
		}
	}
	m.ggufRope(tb, g, name)
	for i := 0; i < len(m.Tensors); i++ {
		t := &m.Tensors[i]
		if strings.Contains(t.Name, "experts.") {
			i += m.ggufExperts(tb, g, i) - 1
			continue
		}
		m.ggufTensor(tb, g, name, t)
	}
	return g
}

func (m *Tiny) ggufRope(tb testing.TB, g *GGUF, name string) {
	s, ok := m.Config["rope_scaling"].(map[string]any)
	if !ok {
		return
	}
	if factors, ok := s["long_factor"].([]float64); ok {
		g.Set(name+".rope.dimension_count", uint32(2*len(factors)))
		for suffix, key := range map[string]string{"long": "long_factor", "short": "short_factor"} {
			var values []float32
			for _, f := range s[key].([]float64) {
				values = append(values, float32(f))
			}
			g.Tensors = append(g.Tensors, GGUFTensor{Name: "rope_factors_" + suffix + ".weight", Dims: []uint64{uint64(len(values))}, Data: encode(tb, values, "F32")})
		}
		return
	}
	kind, _ := s["rope_type"].(string)
	if kind == "" {
		kind = s["type"].(string)
	}
	g.Set(name+".rope.scaling.type", kind)
	g.Set(name+".rope.scaling.factor", float32(s["factor"].(float64)))
	if n, ok := s["original_max_position_embeddings"].(int); ok {
		g.Set(name+".rope.scaling.original_context_length", uint32(n))
	}
}

func (m *Tiny) ggufTensor(tb testing.TB, g *GGUF, name string, t *Tensor) {
	values, renamed := append([]float32(nil), t.Values...), t.Name
	if strings.HasPrefix(name, "gemma") {
		renamed = ggufGemmaNames.Replace(renamed)
		if len(t.Shape) == 1 {
			for i := range values {
				values[i]++
			}
		}
	}
	if name == "llama" || name == "smollm3" {
		switch {
		case strings.HasSuffix(t.Name, "q_proj.weight"):
			values = pairRows(values, t.Shape, tinyHeads)
		case strings.HasSuffix(t.Name, "k_proj.weight"):
			values = pairRows(values, t.Shape, tinyKVHeads)
		}
	}
	own := GGUFTensor{Name: ggufOtherNames.Replace(renamed), Data: encode(tb, values, "F32")}
	for i := len(t.Shape) - 1; i >= 0; i-- {
		own.Dims = append(own.Dims, uint64(t.Shape[i]))
	}
	g.Tensors = append(g.Tensors, own)
}

// ggufExperts stacks a layer's experts, whose tensors begin at from, by kind, and
// returns how many tensors they are.
func (m *Tiny) ggufExperts(tb testing.TB, g *GGUF, from int) int {
	var layer int
	_, _ = fmt.Sscanf(m.Tensors[from].Name, "model.layers.%d.", &layer)
	for kind := range 3 {
		first := &m.Tensors[from+kind]
		parts := strings.Split(first.Name, ".")
		own := GGUFTensor{
			Name: fmt.Sprintf("blk.%d.%s.weight", layer, ggufExpertNames.Replace(parts[len(parts)-2])),
			Dims: []uint64{uint64(first.Shape[1]), uint64(first.Shape[0]), tinyExperts},
		}
		for e := range tinyExperts {
			own.Data = append(own.Data, encode(tb, m.Tensors[from+3*e+kind].Values, "F32")...)
		}
		g.Tensors = append(g.Tensors, own)
	}
	return 3 * tinyExperts
}
