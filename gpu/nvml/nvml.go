package nvml

import "fmt"

// Library is what Open looks for if it is not told otherwise.
const Library = "libnvidia-ml.so.1"

// Value is a reading that a GPU may not support.
type Value struct {
	Known bool
	V     float64
}

// Reading is the state of a GPU at one time.
type Reading struct {
	MemoryUsed, MemoryTotal   Value // bytes; used by all processes
	GPUUtilization            Value // 0 to 1: part of the last sample period in which a kernel ran
	MemoryUtilization         Value // 0 to 1: in which memory was read or written
	Power, PowerLimit         Value // W
	Energy                    Value // J since the driver was loaded; only differences mean anything
	Temperature               Value // degrees Celsius
	ECCCorrected, ECCNotFixed Value // errors since the driver was loaded
	ClockSM, ClockMemory      Value // Hz
}

// Reader reads GPUs. Its methods may be called from any goroutine.
type Reader interface {
	// NumDevices counts all GPUs of the machine, in the order of nvidia-smi, which is
	// not always CUDA's: compare UUIDs.
	NumDevices() int
	// UUID is GPU-xxxxxxxx-….
	UUID(i int) string
	// Read returns the state of GPU i. Its error is one of the GPU as a whole, as that
	// it has fallen off the bus.
	Read(i int) (Reading, error)
	Close() error
}

// Error is a refusal of the library.
type Error struct {
	Op   string
	Code int // nvmlReturn_t
}

// The codes that we decide upon.
const (
	notSupported    = 3
	noPermission    = 4
	driverNotLoaded = 9
	functionMissing = 13
	gpuIsLost       = 15
)

// names are the library's, without NVML_ERROR_.
var names = map[int]string{
	1: "UNINITIALIZED", 2: "INVALID_ARGUMENT", notSupported: "NOT_SUPPORTED", noPermission: "NO_PERMISSION", 6: "NOT_FOUND",
	driverNotLoaded: "DRIVER_NOT_LOADED", 10: "TIMEOUT", functionMissing: "FUNCTION_NOT_FOUND", gpuIsLost: "GPU_IS_LOST",
	16: "RESET_REQUIRED", 18: "LIB_RM_VERSION_MISMATCH", 999: "UNKNOWN",
}

func (e *Error) Error() string {
	if name, ok := names[e.Code]; ok {
		return fmt.Sprintf("nvml: %s: NVML_ERROR_%s", e.Op, name)
	}
	return fmt.Sprintf("nvml: %s: error %d", e.Op, e.Code)
}

// NoDriver tells whether there is no driver in the kernel to be asked.
func (e *Error) NoDriver() bool { return e.Code == driverNotLoaded }

// Lost tells whether the GPU does not answer any more.
func (e *Error) Lost() bool { return e.Code == gpuIsLost }
