// Package cpu is the compute backend that runs on the processor.
//
// Weights are repacked once into anonymous memory outside the Go heap, in the
// tile layout of package kernels/cpu; the key-value cache is anonymous memory
// too, so that only the blocks in use take real memory. Activations are F32.
//
// Work of some size is cut into chunks that the calling goroutine and a few
// persistent workers claim one by one ([pool]); small operations run on the
// caller alone. Every output element is computed whole by one chunk, so bits
// depend neither on the number of workers nor on who claimed what.
//
// In steady state no operation allocates.
package cpu
