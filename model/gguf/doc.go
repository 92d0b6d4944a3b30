// Package gguf reads the GGUF format, versions 2 and 3: a header of metadata
// (keys with typed values) and a directory of tensors, then the tensors' bytes.
//
// [Parse] works on bytes that lie somewhere already, usually a memory-mapped
// file, and returns views into them. It trusts nothing: every length and count
// is checked against the bytes that are there before it is used, so that time
// and memory are linear in the header; sizes are computed without overflow, and
// tensors must be aligned, within the file and apart from each other.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
package gguf
