package arch

import "github.com/troupe-llm/troupe/model/jsonfields"

// Phi-3, 3.5 and 4: Llama with q, k and v in one tensor and gate and up in another.
// Long contexts have a rotary embedding of their own, "longrope".
var phi3 = Architecture{
	Name: "Phi3ForCausalLM",
	Tensors: llamaNames.with(func(n *Names) {
		n.Q, n.K, n.V, n.QKV = "", "", "", "self_attn.qkv_proj"
		n.Gate, n.Up, n.GateUp = "", "", "mlp.gate_up_proj"
	}),
	Configure: func(c *Config, f *jsonfields.Fields) {
		c.window(f, "sliding_window", func(int) bool { return true })
	},
	GGUF: GGUF{
		Name:    "phi3",
		Members: map[string]string{"attention.sliding_window": "sliding_window"},
	},
}
