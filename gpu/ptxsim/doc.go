// Package ptxsim runs PTX without a GPU, with every access checked: the kernels
// that ship are the ones that tests run, and what would be silent corruption on
// a device is a report here. It implements gpu.Driver.
//
// # What is caught
//
// Accesses outside of a buffer, misaligned, of freed memory, of bytes that nobody
// wrote; races within a block, by barriers, and between the blocks of a launch;
// barriers and warp-wide instructions that not all reach; reads of what an
// asynchronous copy has not brought yet; kernels without an end. A [Fault] names the
// kernel, the line and text of the instruction, block, thread and lane. Host
// mistakes are caught too: unbound callers, copies of memory that is not pinned,
// wrong numbers of parameters, waiting while capturing.
//
// # What is not
//
// What a memory model allows beyond races, the exact bits of approximate functions
// and of sums in tensor cores, bank conflicts, time. Nothing orders blocks for us,
// so an algorithm whose blocks synchronise with each other is reported as a race.
//
// # How
//
// A module is decoded once into functions that work on all 32 lanes of a warp
// (lanes.go), for one kernel after the other and one warp at a time between two
// barriers (warp.go, launch.go). Beside the bytes of memory stand their state
// (memory.go) and who used them last (race.go). With a seed, blocks, warps and
// streams take turns at random, the same way every time.
//
// Operations of streams run when somebody waits for them, in that goroutine, so
// that a host which changes a buffer too early is found out. One that turns out wrong
// when it runs, a copy of bytes that nobody wrote among them, takes the context along
// as a kernel's fault does.
package ptxsim
