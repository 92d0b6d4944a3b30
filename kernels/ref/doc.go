// Package ref holds the oracles of the decoder's operations: float64, one loop
// per index, written to be checked by reading. Kernels are tested against them.
//
// Matrices are row-major slices; a function's doc comment gives every shape.
package ref
