// Package jinja runs the chat templates of language models: Jinja2 as Hugging
// Face transformers sets it up (trim_blocks, lstrip_blocks, loop controls, the
// "generation" tag, a sandbox without mutation, its own tojson).
//
// It exists because three things are needed that a general engine does not give:
//   - A template is outside input. Steps, time, memory and recursion are bounded,
//     everything runs on the caller's goroutine, and nothing panics.
//   - A [Text] knows which of its bytes a client wrote, through concatenation,
//     slicing, replacing and JSON encoding, so that a control token's spelling in
//     client text can be told from one the template wrote.
//   - Output equals Python's byte for byte: key order, number and string forms,
//     scope per loop iteration, errors where Python raises them.
//
// Not supported, as no chat template uses it: template inheritance, import and
// include, autoescape, i18n, async, integers beyond 64 bits in arithmetic.
//
// Source: the Jinja2 3.1 template designer documentation and its lexer and parser.
package jinja
