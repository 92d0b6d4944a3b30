package modelkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tiny is a model of a few thousand random weights, as a folder in the Hugging
// Face layout would hold it.
type Tiny struct {
	Config  map[string]any // config.json
	Tensors []Tensor
}

// Sizes of every tiny model; all are odd in some way. The vocabulary has room for
// the bytes.
const (
	tinyHidden, tinyIntermediate, tinyLayers       = 40, 52, 4
	tinyHeads, tinyKVHeads, tinyHeadDim, TinyVocab = 6, 2, 10, 259
	tinyExperts, tinyExpertIntermediate            = 5, 14
)

// tinyMembers are what config.json of an architecture has beside the sizes that
// are common to all.
var tinyMembers = map[string]map[string]any{
	"LlamaForCausalLM": {"rope_scaling": map[string]any{
		"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
	"MistralForCausalLM": {"sliding_window": 7},
	"MixtralForCausalLM": {"sliding_window": nil, "num_local_experts": tinyExperts, "num_experts_per_tok": 3, "intermediate_size": tinyExpertIntermediate},
	"Qwen2ForCausalLM": {"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 2,
		"rope_scaling": map[string]any{"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24}},
	"Qwen3ForCausalLM": {"use_sliding_window": false, "sliding_window": 5, "attention_bias": false},
	"Qwen3MoeForCausalLM": {"num_experts": tinyExperts, "num_experts_per_tok": 2, "moe_intermediate_size": tinyExpertIntermediate,
		"norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": []int{1}},
	"Gemma2ForCausalLM": {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 14,
		"attn_logit_softcapping": 5.0, "final_logit_softcapping": 8.0, "sliding_window": 6, "tie_word_embeddings": true},
	"Gemma3ForCausalLM": {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 12, "sliding_window": 8,
		"sliding_window_pattern": 3, "rope_theta": 2000.0, "rope_local_base_freq": 50.0,
		"rope_scaling": map[string]any{"rope_type": "linear", "factor": 8.0}, "tie_word_embeddings": true},
	"Phi3ForCausalLM": {"sliding_window": 11, "partial_rotary_factor": 0.6, "original_max_position_embeddings": 24,
		"rope_scaling": map[string]any{"type": "longrope", "short_factor": []float64{1, 1.1, 1.2}, "long_factor": []float64{1, 2, 3.5}}},
	"SmolLM3ForCausalLM": {"no_rope_layers": []int{1, 1, 0, 1}, "tie_word_embeddings": true, "use_sliding_window": false},
}

// NewTiny returns the tiny model of an architecture. All values are small
// multiples of 1/64 and so the same in F32, F16 and BF16.
func NewTiny(tb testing.TB, architecture string, seed uint64) *Tiny {
	tb.Helper()
	require.Contains(tb, tinyMembers, architecture)
	return newTiny(architecture, seed, nil)
}

// NewTinyMoE returns the tiny Qwen3Moe with experts in every layer.
func NewTinyMoE(seed uint64) *Tiny {
	return newTiny("Qwen3MoeForCausalLM", seed, map[string]any{"mlp_only_layers": []int{}})
}

// NewWide returns a model of an architecture whose sizes blocks of quantised
// weights divide.
func NewWide(tb testing.TB, architecture string, seed uint64) *Tiny {
	tb.Helper()
	require.Contains(tb, tinyMembers, architecture)
	wide := map[string]any{"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "head_dim": 16}
	if tinyMembers[architecture]["moe_intermediate_size"] != nil {
		wide["moe_intermediate_size"] = 32
	}
	if architecture == "Phi3ForCausalLM" {
		wide["partial_rotary_factor"] = 0.375 // as many pairs as there are factors
	}
	return newTiny(architecture, seed, wide)
}

func newTiny(architecture string, seed uint64, changes map[string]any) *Tiny {
	m := &Tiny{Config: map[string]any{
		"architectures": []string{architecture}, "hidden_act": "silu", "hidden_size": tinyHidden, "intermediate_size": tinyIntermediate,
		"num_hidden_layers": tinyLayers, "num_attention_heads": tinyHeads, "num_key_value_heads": tinyKVHeads, "head_dim": tinyHeadDim,
		"vocab_size": TinyVocab, "max_position_embeddings": 96, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
		"tie_word_embeddings": false, "eos_token_id": 1,
	}}
	maps.Copy(m.Config, tinyMembers[architecture])
	maps.Copy(m.Config, changes)
	w := &weightMaker{tiny: m, rng: rand.New(rand.NewPCG(seed, 2)), architecture: architecture}
	w.hidden, w.intermediate = m.Config["hidden_size"].(int), m.Config["intermediate_size"].(int)
	w.heads, w.kvHeads, w.headDim = m.Config["num_attention_heads"].(int), m.Config["num_key_value_heads"].(int), m.Config["head_dim"].(int)
	w.expertIntermediate, _ = m.Config["moe_intermediate_size"].(int)
	if w.is("Mixtral") {
		w.expertIntermediate = w.intermediate
	}
	w.matrix("model.embed_tokens", TinyVocab, w.hidden)
	for l := range tinyLayers {
		w.prefix = fmt.Sprintf("model.layers.%d.", l)
		w.layer(l)
	}
	w.prefix = ""
	w.norm("model.norm", w.hidden)
	if m.Config["tie_word_embeddings"] == false {
		w.matrix("lm_head", TinyVocab, w.hidden)
	}
	return m
}

// weightMaker makes tensors.
type weightMaker struct {
	tiny         *Tiny
	rng          *rand.Rand
	architecture string
	prefix       string

	hidden, intermediate, heads, kvHeads, headDim, expertIntermediate int
}

func (w *weightMaker) is(architectures ...string) bool {
	for _, a := range architectures {
		if w.architecture == a+"ForCausalLM" {
			return true
		}
	}
	return false
}

func (w *weightMaker) add(name string, around float32, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = around + float32(w.rng.IntN(41)-20)/64
	}
	w.tiny.Tensors = append(w.tiny.Tensors, Tensor{Name: w.prefix + name, Shape: shape, Values: values})
}

func (w *weightMaker) matrix(name string, rows, cols int) { w.add(name+".weight", 0, rows, cols) }

// norm makes weights around 1, or around 0 where 1 is added to them.
func (w *weightMaker) norm(name string, n int) {
	around := float32(1)
	if w.is("Gemma2", "Gemma3") {
		around = 0
	}
	w.add(name+".weight", around, n)
}

func (w *weightMaker) layer(l int) {
	q, kv := w.heads*w.headDim, w.kvHeads*w.headDim
	w.norm("input_layernorm", w.hidden)
	if w.is("Phi3") {
		w.matrix("self_attn.qkv_proj", q+2*kv, w.hidden)
	} else {
		w.matrix("self_attn.q_proj", q, w.hidden)
		w.matrix("self_attn.k_proj", kv, w.hidden)
		w.matrix("self_attn.v_proj", kv, w.hidden)
	}
	if w.is("Qwen2") {
		w.add("self_attn.q_proj.bias", 0, q)
		w.add("self_attn.k_proj.bias", 0, kv)
		w.add("self_attn.v_proj.bias", 0, kv)
	}
	if w.is("Qwen3", "Qwen3Moe", "Gemma3") {
		w.norm("self_attn.q_norm", w.headDim)
		w.norm("self_attn.k_norm", w.headDim)
	}
	w.matrix("self_attn.o_proj", w.hidden, q)
	w.norm("post_attention_layernorm", w.hidden)
	if w.is("Gemma2", "Gemma3") {
		w.norm("pre_feedforward_layernorm", w.hidden)
		w.norm("post_feedforward_layernorm", w.hidden)
	}
	w.mlp(l)
}

func (w *weightMaker) mlp(l int) {
	switch {
	case w.is("Phi3"):
		w.matrix("mlp.gate_up_proj", 2*w.intermediate, w.hidden)
		w.matrix("mlp.down_proj", w.hidden, w.intermediate)
	case w.is("Mixtral"):
		w.matrix("block_sparse_moe.gate", tinyExperts, w.hidden)
		for e := range tinyExperts {
			p := fmt.Sprintf("block_sparse_moe.experts.%d.", e)
			w.matrix(p+"w1", w.expertIntermediate, w.hidden)
			w.matrix(p+"w2", w.hidden, w.expertIntermediate)
			w.matrix(p+"w3", w.expertIntermediate, w.hidden)
		}
	case w.is("Qwen3Moe") && !slices.Contains(w.tiny.Config["mlp_only_layers"].([]int), l):
		w.matrix("mlp.gate", tinyExperts, w.hidden)
		for e := range tinyExperts {
			w.gated(fmt.Sprintf("mlp.experts.%d.", e), w.expertIntermediate)
		}
	default:
		w.gated("mlp.", w.intermediate)
	}
}

// gated makes an MLP.
func (w *weightMaker) gated(prefix string, intermediate int) {
	w.matrix(prefix+"gate_proj", intermediate, w.hidden)
	w.matrix(prefix+"up_proj", intermediate, w.hidden)
	w.matrix(prefix+"down_proj", w.hidden, intermediate)
}

// Tensor returns the tensor of that name, nil if there is none.
func (m *Tiny) Tensor(name string) *Tensor {
	for i := range m.Tensors {
		if m.Tensors[i].Name == name {
			return &m.Tensors[i]
		}
	}
	return nil
}

// Write makes a folder with the weights in one file of one element type and
// returns its path.
func (m *Tiny) Write(tb testing.TB, dtype string) string {
	tb.Helper()
	dir := tb.TempDir()
	m.WriteTo(tb, dir, dtype)
	return dir
}

// WriteTo is Write into a folder that is there.
func (m *Tiny) WriteTo(tb testing.TB, dir, dtype string) {
	tb.Helper()
	b, err := json.Marshal(m.Config)
	require.NoError(tb, err)
	WriteFile(tb, dir, "config.json", b)
	WriteFile(tb, dir, "model.safetensors", Safetensors(tb, dtype, m.Tensors...))
}
