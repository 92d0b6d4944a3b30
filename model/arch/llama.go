package arch

// Llama 2 and 3.x, and what is built like them: SmolLM and SmolLM2, TinyLlama,
// Yi, Falcon3, …
var llama = Architecture{
	Name:    "LlamaForCausalLM",
	Tensors: llamaNames,
	GGUF:    GGUF{Name: "llama", Paired: true},
}
