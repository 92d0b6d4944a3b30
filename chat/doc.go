// Package chat renders conversations to prompt text with a model's chat template,
// set up as Hugging Face transformers and vLLM set it up.
//
// Templates run in package jinja, which bounds their time, memory and output.
// Messages stay what the client sent, key order included; only what vLLM changes
// is changed (see normalize.go).
//
// A control token such as <|im_end|> that a client writes is text, not a command.
// [Template.Render] reports where the rendered prompt spells a control token with
// at least one byte of client text, so that the tokenizer takes it as plain text
// there. Client text is everything in messages, tools and chat_template_kwargs
// except roles, which are checked against a fixed list and which some templates
// build their markers from: '<|' + role + '|>'.
package chat
