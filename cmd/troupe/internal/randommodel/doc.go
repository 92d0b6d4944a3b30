// Package randommodel writes GGUF files of Llamas in well-known shapes whose weights
// are random numbers. They say nothing sensible, but take the time and the memory
// that a trained model of the shape takes, here and in every other program that
// reads GGUF: speed can be compared without fetching anything.
package randommodel
