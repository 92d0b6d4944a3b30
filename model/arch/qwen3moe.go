package arch

import (
	"slices"

	"github.com/troupe-llm/troupe/model/jsonfields"
)

// Qwen3 with mixtures of experts in most layers.
var qwen3MoE = Architecture{
	Name: "Qwen3MoeForCausalLM",
	Tensors: llamaNames.withHeadNorms().with(func(n *Names) {
		n.Router = "mlp.gate"
		n.ExpertGate, n.ExpertUp, n.ExpertDown = "mlp.experts.%d.gate_proj", "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj"
	}),
	HeadDim: 128,
	Configure: func(c *Config, f *jsonfields.Fields) {
		qwenWindow(c, f)
		c.experts(f, "num_experts", "moe_intermediate_size")
		c.Experts.Normalize = f.Bool("norm_topk_prob", false)
		step := f.Int("decoder_sparse_step", jsonfields.IntRange{Min: 1, Max: maxLayers}, 1)
		dense := f.Ints("mlp_only_layers", jsonfields.IntRange{Min: 0, Max: maxLayers}, maxLayers)
		for i := range c.Layers {
			c.Layers[i].Sparse = (i+1)%step == 0 && !slices.Contains(dense, i)
		}
	},
	GGUF: GGUF{
		Name: "qwen3moe",
		Members: map[string]string{
			"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size",
		},
		Complete: func(m map[string]any) { m["norm_topk_prob"] = true },
	},
}
