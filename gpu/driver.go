package gpu

// MinVersion is the least version of CUDA that a driver must speak: 11.8, whose drivers
// (520 and later) read PTX 7.8.
const MinVersion = 11080

// Driver gives access to the devices of a machine.
type Driver interface {
	// Name says which implementation this is: "cuda" or "ptxsim".
	Name() string
	// Version is that of the API that the driver speaks: 1000*major + 10*minor.
	Version() int
	NumDevices() int
	// Open returns device i, 0 <= i < NumDevices, with a context of its own use.
	// Devices that are opened twice share their memory and their fate.
	Open(i int) (Device, error)
}

// Device is a GPU and the context on it.
type Device interface {
	Properties() Properties

	// Bind locks the calling goroutine to its thread and makes the device current
	// there; Unbind undoes one Bind. They nest. Everything below needs a bound caller.
	Bind() error
	Unbind()

	// MemInfo returns how many bytes are free, and how many there are.
	MemInfo() (free, total int64, err error)
	// Alloc returns n > 0 bytes at an address that is a multiple of 256. What they
	// hold is undefined.
	Alloc(n int64) (Ptr, error)
	// Free gives back what Alloc returned; no operation may still use it.
	Free(p Ptr) error
	// AllocHost returns n > 0 bytes of pinned host memory, which belongs to the
	// driver: the garbage collector knows nothing of it.
	AllocHost(n int) ([]byte, error)
	// FreeHost gives back what AllocHost returned.
	FreeHost(b []byte) error
	// Upload copies host memory of any kind to the device, and waits. It is not
	// ordered with what streams do.
	Upload(dst Ptr, src []byte) error
	// Download copies device memory to host memory of any kind, and waits. It is not
	// ordered with what streams do.
	Download(dst []byte, src Ptr) error

	NewStream() (Stream, error)
	NewEvent() (Event, error)
	// LoadModule compiles PTX. The name is for messages. A refusal has the
	// compiler's log in [Error.Detail].
	LoadModule(name, ptx string) (Module, error)

	// Reset gives up the context: everything that the device made is void, also what
	// other users of it hold. It is the only way back from a sticky error.
	Reset() error
	// Close gives up this use of the device.
	Close() error
}

// Stream is a queue of operations. None of its methods waits, but for Sync.
type Stream interface {
	// CopyToDevice enqueues a copy of pinned memory to the device.
	CopyToDevice(dst Ptr, src []byte) error
	// CopyToHost enqueues a copy of device memory to pinned memory.
	CopyToHost(dst []byte, src Ptr) error
	// CopyOnDevice enqueues a copy of n bytes within the device; source and target
	// may not overlap.
	CopyOnDevice(dst, src Ptr, n int64) error
	// Memset enqueues filling n bytes with v.
	Memset(dst Ptr, v byte, n int64) error
	// Launch enqueues a kernel. params are its parameters in order, each in the low
	// bytes of its word (floats as their bits); they are read before Launch returns.
	// Another number of parameters than the kernel has is InvalidValue.
	Launch(f Func, c LaunchConfig, params []uint64) error

	// Record enqueues the event: it has happened when all before it has run.
	Record(e Event) error
	// WaitEvent makes what is enqueued later wait for the event's latest Record.
	WaitEvent(e Event) error

	// BeginCapture has the stream note operations instead of running them.
	// Until EndCapture nothing may wait for the stream.
	BeginCapture() error
	// EndCapture makes a graph of what was noted, and instantiates it.
	EndCapture() (Graph, error)
	// LaunchGraph enqueues the operations of a graph.
	LaunchGraph(g Graph) error

	// Sync waits until all that was enqueued has run, and returns the error of
	// whatever failed.
	Sync() error
	Close() error
}

// Event is a point in a stream.
type Event interface {
	// Done tells whether the latest Record has happened. One that was never recorded
	// has. It does not wait.
	Done() (bool, error)
	// Wait waits for the latest Record before the call, without spinning. It needs no
	// bound goroutine.
	Wait() error
	// Since returns the device's time in milliseconds from the other event, recorded
	// and done like this one, to this one.
	Since(start Event) (float32, error)
	Close() error
}

// Module is compiled PTX.
type Module interface {
	// Func returns a kernel, or NotFound.
	Func(name string) (Func, error)
	// Log is what the compiler had to say; often empty.
	Log() string
	Close() error
}

// Func is a kernel of a module.
type Func interface {
	Info() FuncInfo
	// SetMaxShared allows launches with up to n bytes of dynamic shared memory, where
	// that with the static one is more than 48 KiB.
	SetMaxShared(n int) error
}

// Graph is a captured sequence of operations, whose addresses are fixed and whose
// launch is one call.
type Graph interface {
	NumNodes() int
	Close() error
}

// Ptr is an address in the memory of a device; 0 is none.
type Ptr uint64

// LaunchConfig is the shape of a launch.
type LaunchConfig struct {
	Grid   [3]int // blocks, each at least 1
	Block  [3]int // threads of a block, each at least 1
	Shared int    // bytes of dynamic shared memory
}

// Threads returns how many threads a block has.
func (c LaunchConfig) Threads() int { return c.Block[0] * c.Block[1] * c.Block[2] }

// Properties describe a device.
type Properties struct {
	Index             int
	Name              string
	UUID              string // GPU-xxxxxxxx-xxxx-…, as nvidia-smi shows it
	PCIBusID          string // 0000:65:00.0
	Major, Minor      int    // compute capability
	TotalMemory       int64  // bytes
	NumSMs            int
	WarpSize          int
	MaxThreads        int // of a block
	SharedPerBlock    int // bytes, without SetMaxShared
	SharedPerBlockMax int // bytes, with it
	L2Bytes           int
	MemoryClockKHz    int // 0: the driver does not say
	MemoryBusBits     int
}

// Bandwidth returns the memory's theoretical bytes per second, twice clock times
// width; 0 if the driver does not say.
func (p Properties) Bandwidth() float64 {
	return 2 * float64(p.MemoryClockKHz) * 1e3 * float64(p.MemoryBusBits) / 8
}

// FuncInfo describes a kernel as it was compiled.
type FuncInfo struct {
	Name         string
	Params       []Param
	MaxThreads   int // of a block
	StaticShared int // bytes
	Local        int // bytes per thread, spilled registers among them
	Registers    int // per thread; 0: not known
}
