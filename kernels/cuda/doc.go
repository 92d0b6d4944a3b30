// Package cuda holds the GPU kernels: CUDA sources in src, the PTX that clang makes of them, and
// typed launchers. Nothing here needs a GPU or a toolkit; MANIFEST ties the three together.
package cuda
