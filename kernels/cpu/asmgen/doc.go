// Command asmgen writes the assembly of package kernels/cpu into the current
// folder: one file per instruction set for the matrix products and one for the
// row operations, and the Go declarations. Run it with go generate.
//
// Both instruction sets are written by the same code: an [isa] says how many
// registers make up the sixteen lanes of a tile, and every kernel is a loop over
// those parts. So the order of operations is the same by construction.
package main
