package arch

import "github.com/troupe-llm/troupe/model/jsonfields"

// Mixtral: Mistral with a mixture of experts in every layer.
var mixtral = Architecture{
	Name: "MixtralForCausalLM",
	Tensors: llamaNames.with(func(n *Names) {
		n.Gate, n.Up, n.Down = "", "", ""
		n.Router = "block_sparse_moe.gate"
		n.ExpertGate, n.ExpertUp, n.ExpertDown = "block_sparse_moe.experts.%d.w1", "block_sparse_moe.experts.%d.w3", "block_sparse_moe.experts.%d.w2"
	}),
	Configure: func(c *Config, f *jsonfields.Fields) {
		c.window(f, "sliding_window", func(int) bool { return true })
		c.experts(f, "num_local_experts", "intermediate_size")
		c.Experts.Normalize = true
		for i := range c.Layers {
			c.Layers[i].Sparse = true
		}
	},
	GGUF: GGUF{
		Name: "llama", Paired: true,
		Members: map[string]string{"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"},
	},
}
