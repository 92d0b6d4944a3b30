package hf

import (
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/gguf"
)

// architecture says how a model of one general.architecture is named elsewhere.
type architecture struct {
	hf     string            // its name in config.json
	layer  map[string]string // tensors of a layer, blk.N.KEY.weight: model.layers.N.VALUE.weight
	paired bool              // q and k hold the two halves of a rotated pair side by side
	// config adds members of config.json that only this architecture has; may be nil.
	config func(m *meta, prefix string, c map[string]any)
}

// llamaLayer are the tensors of a layer of Llama and those built like it.
var llamaLayer = map[string]string{
	"attn_norm":   "input_layernorm",
	"attn_q":      "self_attn.q_proj",
	"attn_k":      "self_attn.k_proj",
	"attn_v":      "self_attn.v_proj",
	"attn_output": "self_attn.o_proj",
	"ffn_norm":    "post_attention_layernorm",
	"ffn_gate":    "mlp.gate_proj",
	"ffn_up":      "mlp.up_proj",
	"ffn_down":    "mlp.down_proj",
}

// outside are the tensors that belong to no layer.
var outside = map[string]string{
	"token_embd":  "model.embed_tokens",
	"output_norm": "model.norm",
	"output":      "lm_head",
}

// architectures has what is supported, by general.architecture.
var architectures = map[string]*architecture{
	"llama": {hf: "LlamaForCausalLM", layer: llamaLayer, paired: true},
}

// find returns the file's architecture and its prefix of keys.
func find(f *gguf.File) (*architecture, string, error) {
	m := &meta{file: f}
	m.required("general.architecture")
	name := m.text("general.architecture", "")
	if n := m.int("split.count", 1); n > 1 {
		m.fail("split.count", "is %d: files in several parts are not supported; join them with llama-gguf-split --merge", n)
	}
	if m.err != nil {
		return nil, "", m.err
	}
	a := architectures[name]
	if a == nil {
		var known []string
		for k := range architectures {
			known = append(known, k)
		}
		slices.Sort(known)
		return nil, "", infer.Errorf(infer.CodeInvalid, f.Name(),
			"%s: metadata key \"general.architecture\" is %q, which is not supported; supported: %s", f.Name(), clip(name), strings.Join(known, ", "))
	}
	return a, name + ".", nil
}

// clip shortens a value for an error message.
func clip(s string) string {
	const limit = 80
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
