// Package cuda implements gpu.Driver over NVIDIA's driver, libcuda.so.1, which is
// looked for at run time: nothing of CUDA is needed to build, and nothing is linked.
//
// Calls go through purego, without cgo. That makes the binary a dynamic one, which
// needs glibc; with the tag nocuda, and on systems other than Linux, Open reports
// that there is no driver, and the binary stays static.
//
// # What a reader must know of the C side
//
// The driver gets addresses of Go memory as uintptr: call carries
// go:uintptrescapes, so that what they point to lies on the heap and lives as long
// as the call. What the driver keeps for longer is its own (pinned host memory) or
// pinned (the parameter block of a stream). A context is current on a thread, so a
// bound goroutine is locked to its thread. Names are fixed with their version
// suffix, as cuda.h maps them: cuMemAlloc is cuMemAlloc_v2.
package cuda
