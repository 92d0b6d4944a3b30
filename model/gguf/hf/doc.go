// Package hf presents a GGUF file as a model folder in the Hugging Face layout:
// its metadata as config.json, tokenizer.json and their like, its tensors under
// the names and in the row order that Hugging Face gives them. So everything
// behind a folder (configuration, forward pass, tokenizer, chat template) has
// one source of each fact, and an architecture comes from both kinds of files
// with the one description of package arch.
//
// Names of keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
package hf
