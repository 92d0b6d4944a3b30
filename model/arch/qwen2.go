package arch

import "github.com/troupe-llm/troupe/model/jsonfields"

// Qwen2 and 2.5: Llama with biases of q, k and v.
var qwen2 = Architecture{
	Name:      "Qwen2ForCausalLM",
	Tensors:   llamaNames,
	QKVBias:   true,
	Configure: qwenWindow,
	GGUF:      GGUF{Name: "qwen2"},
}

// qwenWindow reads the window of the upper layers, which is off unless the file
// says so.
func qwenWindow(c *Config, f *jsonfields.Fields) {
	if f.Bool("use_sliding_window", false) {
		from := f.Int("max_window_layers", jsonfields.IntRange{Min: 0, Max: maxLayers}, 28)
		c.window(f, "sliding_window", func(i int) bool { return i >= from })
	}
}
