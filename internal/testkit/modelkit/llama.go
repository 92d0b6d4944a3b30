package modelkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Llama is a small model with random weights.
type Llama struct {
	Hidden, Intermediate, Layers, Heads, KVHeads, HeadDim, Vocab, Context int

	Tied      bool
	RMSEps    float64
	RopeTheta float64
	// Config overrides and adds members of config.json; a nil value stays in the file as null.
	Config map[string]any

	Tensors []Tensor // made by Randomize, in the order of use
}

// Small returns a model of odd sizes, with its weights.
func Small(seed uint64) *Llama {
	m := &Llama{Hidden: 40, Intermediate: 52, Layers: 3, Heads: 6, KVHeads: 2, HeadDim: 10, Vocab: 67, Context: 96,
		RMSEps: 1e-5, RopeTheta: 500}
	m.Randomize(seed)
	return m
}

// Randomize makes the weights. All values are small multiples of 1/64 and so
// the same in F32, F16 and BF16.
func (m *Llama) Randomize(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	m.Tensors = nil
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(rng.IntN(41)-20) / 64
			if len(shape) == 1 {
				values[i] += 1
			}
		}
		m.Tensors = append(m.Tensors, Tensor{Name: name, Shape: shape, Values: values})
	}
	add("model.embed_tokens.weight", m.Vocab, m.Hidden)
	for l := range m.Layers {
		p := fmt.Sprintf("model.layers.%d.", l)
		add(p+"input_layernorm.weight", m.Hidden)
		add(p+"self_attn.q_proj.weight", m.Heads*m.HeadDim, m.Hidden)
		add(p+"self_attn.k_proj.weight", m.KVHeads*m.HeadDim, m.Hidden)
		add(p+"self_attn.v_proj.weight", m.KVHeads*m.HeadDim, m.Hidden)
		add(p+"self_attn.o_proj.weight", m.Hidden, m.Heads*m.HeadDim)
		add(p+"post_attention_layernorm.weight", m.Hidden)
		add(p+"mlp.gate_proj.weight", m.Intermediate, m.Hidden)
		add(p+"mlp.up_proj.weight", m.Intermediate, m.Hidden)
		add(p+"mlp.down_proj.weight", m.Hidden, m.Intermediate)
	}
	add("model.norm.weight", m.Hidden)
	if !m.Tied {
		add("lm_head.weight", m.Vocab, m.Hidden)
	}
}

// Tensor returns the tensor of that name.
func (m *Llama) Tensor(name string) *Tensor {
	for i := range m.Tensors {
		if m.Tensors[i].Name == name {
			return &m.Tensors[i]
		}
	}
	return nil
}

// ConfigJSON returns config.json.
func (m *Llama) ConfigJSON(tb testing.TB) []byte {
	tb.Helper()
	c := map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_act": "silu",
		"hidden_size": m.Hidden, "intermediate_size": m.Intermediate, "num_hidden_layers": m.Layers,
		"num_attention_heads": m.Heads, "num_key_value_heads": m.KVHeads, "head_dim": m.HeadDim,
		"vocab_size": m.Vocab, "max_position_embeddings": m.Context, "rms_norm_eps": m.RMSEps,
		"rope_theta": m.RopeTheta, "rope_scaling": nil, "tie_word_embeddings": m.Tied, "eos_token_id": 1,
	}
	maps.Copy(c, m.Config)
	b, err := json.Marshal(c)
	require.NoError(tb, err)
	return b
}

// Write makes a folder with the weights in numShards files of one element
// type; one shard is written without an index. It returns the folder's path.
func (m *Llama) Write(tb testing.TB, dtype string, numShards int) string {
	tb.Helper()
	dir := tb.TempDir()
	WriteFile(tb, dir, "config.json", m.ConfigJSON(tb))
	if numShards == 1 {
		WriteFile(tb, dir, "model.safetensors", Safetensors(tb, dtype, m.Tensors...))
		return dir
	}
	weightMap := map[string]string{}
	for s := range numShards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", s+1, numShards)
		part := m.Tensors[s*len(m.Tensors)/numShards : (s+1)*len(m.Tensors)/numShards]
		for _, t := range part {
			weightMap[t.Name] = name
		}
		WriteFile(tb, dir, name, Safetensors(tb, dtype, part...))
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": weightMap})
	require.NoError(tb, err)
	WriteFile(tb, dir, "model.safetensors.index.json", index)
	return dir
}
