package hf

import (
	"encoding/json"

	"github.com/troupe-llm/troupe/model/gguf"
)

// The tensors of what each frequency of the rotary embedding is divided by: those
// of Llama 3, and those of longrope for short and long contexts.
const (
	ropeFactors  = "rope_freqs.weight"
	shortFactors = "rope_factors_short.weight"
	longFactors  = "rope_factors_long.weight"
)

var usedUp = []string{ropeFactors, shortFactors, longFactors}

// Config returns config.json.
func Config(f *gguf.File) ([]byte, error) {
	a, prefix, err := find(f)
	if err != nil {
		return nil, err
	}
	m := &meta{file: f}
	c := map[string]any{
		"architectures":           []string{a.Name},
		"hidden_size":             m.requiredInt(prefix + "embedding_length"),
		"intermediate_size":       m.requiredInt(prefix + "feed_forward_length"),
		"num_hidden_layers":       m.requiredInt(prefix + "block_count"),
		"max_position_embeddings": m.requiredInt(prefix + "context_length"),
		"tie_word_embeddings":     true,
		"vocab_size":              vocabSize(f),
	}
	if _, ok := f.Tensor("output.weight"); ok {
		c["tie_word_embeddings"] = false
	}
	if ids := endTokens(m); len(ids) > 0 {
		c["eos_token_id"] = ids
	}
	m.required(prefix + "attention.layer_norm_rms_epsilon")
	c["rms_norm_eps"] = m.float(prefix+"attention.layer_norm_rms_epsilon", 0)
	heads(m, prefix, c)
	rope(m, prefix, c)
	for key, member := range a.GGUF.Members {
		if v, ok := m.number(prefix + key); ok {
			c[member] = v
		}
	}
	if a.GGUF.Complete != nil && m.err == nil {
		a.GGUF.Complete(c)
	}
	if m.err != nil {
		return nil, m.err
	}
	return json.Marshal(c)
}

// vocabSize returns the rows of the embedding table, which every model has; 0
// if this one has none.
func vocabSize(f *gguf.File) int {
	t, ok := f.Tensor("token_embd.weight")
	if !ok {
		return 0
	}
	return t.Shape[0]
}

// heads sets the members about attention's heads.
func heads(m *meta, prefix string, c map[string]any) {
	n := m.requiredInt(prefix + "attention.head_count")
	c["num_attention_heads"] = n
	c["num_key_value_heads"] = m.int(prefix+"attention.head_count_kv", n)
	key := m.int(prefix+"attention.key_length", 0)
	if value := m.int(prefix+"attention.value_length", key); value != key {
		m.fail(prefix+"attention.value_length", "is %d, which differs from the keys' %d: this is not supported", value, key)
	}
	if hidden := c["hidden_size"].(int); key == 0 && n > 0 && hidden%n == 0 {
		key = hidden / n // whatever config.json would have left out
	}
	if key > 0 {
		c["head_dim"] = key
	}
}

// rope sets the members about the rotary embedding.
func rope(m *meta, prefix string, c map[string]any) {
	c["rope_theta"] = m.float(prefix+"rope.freq_base", 10000)
	headDim, _ := c["head_dim"].(int)
	if n := m.int(prefix+"rope.dimension_count", headDim); n != headDim && headDim > 0 {
		c["partial_rotary_factor"] = float64(n) / float64(headDim)
	}
	switch kind := m.text(prefix+"rope.scaling.type", "none"); kind {
	case "none", "", "longrope": // the tensors say so
	case "linear", "yarn":
		c["rope_scaling"] = map[string]any{
			"rope_type": kind, "factor": m.float(prefix+"rope.scaling.factor", 1),
			"original_max_position_embeddings": m.int(prefix+"rope.scaling.original_context_length", c["max_position_embeddings"].(int)),
		}
	default:
		m.fail(prefix+"rope.scaling.type", "is %q, which is not supported; supported: none, linear, yarn, longrope", clip(kind))
	}
	if t, ok := m.file.Tensor(ropeFactors); ok {
		c["rope_scaling"] = llama3(m, t)
	}
	if t, ok := m.file.Tensor(longFactors); ok {
		c["rope_scaling"] = longrope(m, prefix, t)
	}
}

// endTokens returns the ids that end a text or a turn, without repetitions.
func endTokens(m *meta) []int {
	var ids []int
	for _, key := range []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"} {
		if !m.has(key) {
			continue
		}
		id := m.int(key, 0)
		if len(ids) == 0 || ids[0] != id {
			ids = append(ids, id)
		}
	}
	return ids
}
