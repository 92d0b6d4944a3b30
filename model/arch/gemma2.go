package arch

import (
	"math"

	"github.com/troupe-llm/troupe/model/jsonfields"
)

// gemmaNames have a norm after attention and after the MLP, too.
var gemmaNames = llamaNames.with(func(n *Names) {
	n.PostAttention, n.MLPNorm, n.PostMLP = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
})

// Gemma 2: scaled embeddings, norms by 1+w before and after, soft caps, a query
// scale of its own, and a window in every other layer, the first included.
var gemma2 = Architecture{
	Name:       "Gemma2ForCausalLM",
	Tensors:    gemmaNames,
	NormOffset: 1,
	HeadDim:    256,
	Activation: GELU,
	Tied:       true,
	Configure: func(c *Config, f *jsonfields.Fields) {
		c.gemma(f)
		c.window(f, "sliding_window", func(i int) bool { return i%2 == 0 })
	},
	GGUF: GGUF{
		Name: "gemma2",
		Members: map[string]string{
			"attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
		},
		Complete: func(m map[string]any) { gemmaComplete(m, 46) },
	},
}

// gemma reads what Gemma 2 and 3 share.
func (c *Config) gemma(f *jsonfields.Fields) {
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	positive := jsonfields.FloatRange{Min: 0, Max: 1e6, MinOpen: true}
	c.AttentionScale = 1 / math.Sqrt(f.Float("query_pre_attn_scalar", positive, 256))
	c.AttentionSoftCap = f.Float("attn_logit_softcapping", positive, 0)
	c.LogitSoftCap = f.Float("final_logit_softcapping", positive, 0)
	if !f.Bool("rms_norm_add_unit_offset", true) {
		c.NormOffset = 0
	}
}

// gemmaComplete adds what GGUF files of Gemma leave out: their norms have the
// offset in them, and the query scale is 256 but for the largest model, the one of
// that many layers.
func gemmaComplete(m map[string]any, largest int) {
	m["rms_norm_add_unit_offset"] = false
	hidden, _ := m["hidden_size"].(int)
	heads, _ := m["num_attention_heads"].(int)
	if layers, _ := m["num_hidden_layers"].(int); layers == largest && heads > 0 && hidden > 0 {
		m["query_pre_attn_scalar"] = float64(hidden) / float64(heads)
	}
}
