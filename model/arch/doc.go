// Package arch describes the decoders that package model runs: one small file per
// architecture with the names of its tensors, what its config.json says beyond
// the common members, and what a GGUF file calls it.
//
// A description is data for the one forward pass of package model, never code of
// its own: what it can ask for are the fields of [Config]. docs/models.md says how
// to add one.
package arch
