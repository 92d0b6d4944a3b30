// Package chat renders conversations to prompt text with a model's Jinja chat
// template, set up as Hugging Face transformers does.
package chat
