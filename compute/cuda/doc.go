// Package cuda implements [compute.Backend] on a GPU, or on whatever else runs PTX.
//
// It owns no driver: a [Device] starts the kernels of kernels/cuda and moves bytes. What
// it adds is the layout of weights and caches, the choice of kernels, and when memory is
// taken: at start. Operations are enqueued on a stream; Sync and Host wait.
//
// Activations are F32, as everywhere. A product takes them apart into bf16 parts, by
// default three, whose sum is the very F32 ([Options].Parts), and has weights exactly as they
// are stored, so its results are as near to the truth as the CPU's. Which of several
// kernels computes a row depends on the batch, but all of them compute the same sum, so
// its bits do not.
package cuda
