package cuda

import kernels "github.com/troupe-llm/troupe/kernels/cuda"

// Ptr is a device address; 0 is none.
type Ptr = kernels.Ptr

// Device is a GPU whose kernels are loaded. It may be used by many goroutines.
type Device interface {
	// Describe returns a line for people.
	Describe() string
	// NumProcessors returns how many blocks run at once at least: the number of
	// multiprocessors.
	NumProcessors() int
	// MemInfo returns how many bytes are free, and how many there are.
	MemInfo() (free, total int64, err error)
	// Alloc returns device memory, aligned to 256 bytes. What it holds is undefined.
	Alloc(bytes int64) (Ptr, error)
	// Free gives memory back. Nothing that is enqueued may use it any more.
	Free(p Ptr) error
	// NewStream returns a queue of work of its own, in which things happen in order.
	NewStream() (Stream, error)
	// Reset voids everything on a device that is lost, and gives up this use of it.
	Reset() error
	Close() error
}

// Stream is used by one goroutine at a time.
type Stream interface {
	kernels.Launcher
	// Write enqueues a copy to the device. src is free again when it returns.
	Write(dst Ptr, src []byte) error
	// Fetch waits for what was enqueued, and returns a copy of n bytes of the device,
	// which is valid until the next Fetch.
	Fetch(src Ptr, n int) ([]byte, error)
	// Bind ties the stream to the calling goroutine until it calls Unbind, which makes
	// the calls between cheaper.
	Bind() error
	Unbind()
	// Sync waits for what was enqueued and returns the first error.
	Sync() error
	Close() error
}
