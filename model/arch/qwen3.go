package arch

// Qwen3: Llama with queries and keys normalized.
var qwen3 = Architecture{
	Name:      "Qwen3ForCausalLM",
	Tensors:   llamaNames.withHeadNorms(),
	HeadDim:   128,
	Configure: qwenWindow,
	GGUF:      GGUF{Name: "qwen3"},
}
