package arch

import "github.com/troupe-llm/troupe/model/jsonfields"

// Mistral is Llama whose layers may all have a window. Its GGUF files are Llama's.
var mistral = Architecture{
	Name:    "MistralForCausalLM",
	Tensors: llamaNames,
	Configure: func(c *Config, f *jsonfields.Fields) {
		c.window(f, "sliding_window", func(int) bool { return true })
	},
}
