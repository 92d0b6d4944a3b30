// Package understudy holds the tiny chat model that is built into the binary,
// and its still smaller draft model with the same tokenizer.
//
// The files are ordinary Hugging Face folders embedded as strings: their bytes
// stay in the executable's read-only pages and are never copied into the Go
// heap. What the model can do, where it comes from and how to rebuild it is
// told in tools/understudy/README.md. testdata holds its golden files.
package understudy
