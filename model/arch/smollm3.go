package arch

import "github.com/troupe-llm/troupe/model/jsonfields"

// SmolLM3: Llama with every fourth layer not rotated. (SmolLM and SmolLM2 are
// Llama.)
var smolLM3 = Architecture{
	Name:    "SmolLM3ForCausalLM",
	Tensors: llamaNames,
	Tied:    true,
	Configure: func(c *Config, f *jsonfields.Fields) {
		interval := f.Int("no_rope_layer_interval", jsonfields.IntRange{Min: 1, Max: maxLayers}, 4)
		rotated := f.Ints("no_rope_layers", jsonfields.IntRange{Min: 0, Max: 1}, maxLayers) // 1 = rotated
		if rotated != nil && len(rotated) < c.NumLayers {
			f.Fail("no_rope_layers", "has %d elements; there are %d layers", len(rotated), c.NumLayers)
			return
		}
		for i := range c.Layers {
			if rotated == nil && (i+1)%interval == 0 || rotated != nil && rotated[i] == 0 {
				c.Layers[i].Rope = NoRope
			}
		}
		if f.Bool("use_sliding_window", false) {
			c.window(f, "sliding_window", func(i int) bool { return c.Layers[i].Rope == NoRope })
		}
	},
	GGUF: GGUF{Name: "smollm3", Paired: true},
}
