//go:build linux && !nocuda && (amd64 || arm64)

package cuda

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/troupe-llm/troupe/gpu"
)

// Library is what Open looks for if it is not told otherwise.
const Library = "libcuda.so.1"

// function is an entry point of the library.
type function int

// The entry points that are used; all must be there.
const (
	cuInit function = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetUUID
	cuDeviceGetPCIBusID
	cuDeviceTotalMem
	cuDeviceGetAttribute
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuDevicePrimaryCtxReset
	cuCtxSetCurrent
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemcpyHtoD
	cuMemcpyDtoH
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8Async
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuLaunchKernel
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuGraphGetNodes
	cuGraphInstantiate
	cuGraphDestroy
	cuGraphLaunch
	cuGraphExecDestroy
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventSynchronize
	cuEventElapsedTime
	numFunctions
)

// symbols are their names in the library.
var symbols = [numFunctions]string{
	"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDeviceGetCount", "cuDeviceGet",
	"cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetPCIBusId", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute",
	"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2", "cuCtxSetCurrent",
	"cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuMemcpyHtoD_v2",
	"cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
	"cuModuleLoadDataEx", "cuModuleUnload", "cuModuleGetFunction", "cuFuncGetAttribute", "cuFuncSetAttribute",
	"cuLaunchKernel", "cuStreamCreate", "cuStreamDestroy_v2", "cuStreamSynchronize", "cuStreamWaitEvent",
	"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphGetNodes", "cuGraphInstantiateWithFlags", "cuGraphDestroy",
	"cuGraphLaunch", "cuGraphExecDestroy", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventQuery",
	"cuEventSynchronize", "cuEventElapsedTime",
}

// driver is the loaded library. It is never unloaded.
type driver struct {
	name    string
	at      [numFunctions]uintptr
	version int
	mu      sync.Mutex
	devices []*device
}

// Open loads the library, "" for the usual one, and initialises it. Errors are a
// *gpu.MissingDriverError, a *gpu.OldDriverError or what the driver says, as
// gpu.NoDevice.
func Open(library string) (gpu.Driver, error) {
	if library == "" {
		library = Library
	}
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &gpu.MissingDriverError{Library: library, Err: err}
	}
	d := &driver{name: library}
	if err := d.resolve(handle); err != nil {
		return nil, err
	}
	if err := d.call(cuInit, 0); err != nil {
		return nil, err
	}
	var n int32
	if err := d.call(cuDeviceGetCount, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, gpu.NewError("cuDeviceGetCount", gpu.NoDevice, "")
	}
	d.devices = make([]*device, n)
	for i := range d.devices {
		if d.devices[i], err = d.describe(i); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// resolve finds all functions and asks for the version.
func (d *driver) resolve(handle uintptr) (err error) {
	for f, name := range symbols {
		if d.at[f], err = purego.Dlsym(handle, name); err != nil && function(f) <= cuDriverGetVersion {
			return &gpu.MissingDriverError{Library: d.name, Err: fmt.Errorf("it has no function %s: %w", name, err)}
		}
	}
	var v int32
	if err := d.call(cuDriverGetVersion, uintptr(unsafe.Pointer(&v))); err != nil {
		return err
	}
	d.version = int(v)
	for f, at := range d.at {
		if at == 0 {
			return &gpu.OldDriverError{Library: d.name, Have: d.version, Need: gpu.MinVersion, Symbol: symbols[f]}
		}
	}
	if d.version < gpu.MinVersion {
		return &gpu.OldDriverError{Library: d.name, Have: d.version, Need: gpu.MinVersion}
	}
	return nil
}

// call calls a function of the library. Arguments that are addresses must be
// converted in the call itself: uintptr(unsafe.Pointer(&x)).
//
//go:uintptrescapes
func (d *driver) call(f function, args ...uintptr) error {
	r, _, _ := purego.SyscallN(d.at[f], args...)
	return d.check(f, r)
}

// raw is call for functions that explain errors.
//
//go:uintptrescapes
func (d *driver) raw(f function, args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(d.at[f], args...)
	return int32(r)
}

// check turns a CUresult into an error.
func (d *driver) check(f function, result uintptr) error {
	code := gpu.Code(int32(result))
	if code == 0 {
		return nil
	}
	e := gpu.NewError(symbols[f], code, "")
	if e.Text == "" { // not one of ours
		e.Name, e.Text = d.text(cuGetErrorName, code, e.Name), d.text(cuGetErrorString, code, "")
	}
	return e
}

// text asks the driver for a name or an explanation of an error.
func (d *driver) text(f function, code gpu.Code, otherwise string) string {
	var s *byte
	if d.raw(f, uintptr(code), uintptr(unsafe.Pointer(&s))) != 0 || s == nil {
		return otherwise
	}
	n := 0
	for n < 1024 && *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}

func (d *driver) Name() string    { return "cuda" }
func (d *driver) Version() int    { return d.version }
func (d *driver) NumDevices() int { return len(d.devices) }

// Open retains the primary context, which all users of a device in this process
// share.
func (d *driver) Open(i int) (gpu.Device, error) {
	if i < 0 || i >= len(d.devices) {
		return nil, gpu.NewError("cuDeviceGet", gpu.InvalidDevice, fmt.Sprintf("device %d of %d", i, len(d.devices)))
	}
	dev := d.devices[i]
	d.mu.Lock()
	defer d.mu.Unlock()
	if dev.users == 0 {
		if err := dev.retain(); err != nil {
			return nil, err
		}
	}
	dev.users++
	return dev, nil
}
