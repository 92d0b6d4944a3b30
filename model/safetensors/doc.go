// Package safetensors reads the safetensors format: eight bytes of header
// length (little-endian), a JSON header, then the tensors' bytes.
//
// [Parse] works on bytes that lie somewhere already, usually a memory-mapped
// file, and returns views into them. It trusts nothing: the header's length is
// checked against the file before it is used, offsets against the data, and
// tensors against each other; nothing is allocated by a claimed length. What
// is often found under the name of a weight file (a git-lfs pointer, an HTML
// page, a truncated download) is recognised and named in the error.
//
// Format: https://huggingface.co/docs/safetensors.
package safetensors
