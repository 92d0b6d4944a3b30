//go:build linux && !nocuda && (amd64 || arm64)

package nvml

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/troupe-llm/troupe/gpu"
)

// function is an entry point of the library.
type function int

const (
	nvmlInit function = iota
	nvmlShutdown
	nvmlDeviceGetCount
	nvmlDeviceGetHandleByIndex
	nvmlDeviceGetUUID
	lastNeeded = nvmlDeviceGetUUID // a library without one of those behind it serves without it
)

const (
	nvmlDeviceGetMemoryInfo function = lastNeeded + 1 + iota
	nvmlDeviceGetUtilizationRates
	nvmlDeviceGetPowerUsage
	nvmlDeviceGetEnforcedPowerLimit
	nvmlDeviceGetTotalEnergyConsumption
	nvmlDeviceGetTemperature
	nvmlDeviceGetTotalEccErrors
	nvmlDeviceGetClockInfo
	numFunctions
)

// symbols are their names in the library.
var symbols = [numFunctions]string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",
	"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit",
	"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetTemperature", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetClockInfo",
}

// The numbers of nvml.h that are asked for.
const (
	sensorGPU      = 0 // NVML_TEMPERATURE_GPU
	clockSM        = 1 // NVML_CLOCK_SM
	clockMemory    = 2 // NVML_CLOCK_MEM
	eccCorrected   = 0 // NVML_MEMORY_ERROR_TYPE_CORRECTED
	eccUncorrected = 1
	eccVolatile    = 0 // NVML_VOLATILE_ECC: since the driver was loaded
	uuidSize       = 96
)

// reader is the loaded library, initialised. It is never unloaded.
type reader struct {
	at      [numFunctions]uintptr
	devices []device
}

type device struct {
	handle uintptr
	uuid   string
}

// Open loads the library, "" for the usual one, and initialises it. Errors are a
// *gpu.MissingDriverError or an *Error.
func Open(library string) (Reader, error) {
	if library == "" {
		library = Library
	}
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &gpu.MissingDriverError{Library: library, Err: err}
	}
	r := &reader{}
	for f, name := range symbols {
		if r.at[f], err = purego.Dlsym(handle, name); err != nil && function(f) <= lastNeeded {
			return nil, &gpu.MissingDriverError{Library: library, Err: fmt.Errorf("it has no function %s: %w", name, err)}
		}
	}
	if err := r.call(nvmlInit); err != nil {
		return nil, err
	}
	if err := r.list(); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// list finds the GPUs.
func (r *reader) list() error {
	var n uint32
	if err := r.call(nvmlDeviceGetCount, uintptr(unsafe.Pointer(&n))); err != nil {
		return err
	}
	r.devices = make([]device, n)
	for i := range r.devices {
		d := &r.devices[i]
		if err := r.call(nvmlDeviceGetHandleByIndex, uintptr(i), uintptr(unsafe.Pointer(&d.handle))); err != nil {
			return err
		}
		var text [uuidSize]byte
		if err := r.call(nvmlDeviceGetUUID, d.handle, uintptr(unsafe.Pointer(&text)), uuidSize); err != nil {
			return err
		}
		uuid, _, _ := bytes.Cut(text[:], []byte{0})
		d.uuid = string(uuid)
	}
	return nil
}

// call calls a function of the library. Arguments that are addresses must be
// converted in the call itself.
//
//go:uintptrescapes
func (r *reader) call(f function, args ...uintptr) error {
	if r.at[f] == 0 {
		return &Error{Op: symbols[f], Code: functionMissing}
	}
	if code, _, _ := purego.SyscallN(r.at[f], args...); int32(code) != 0 {
		return &Error{Op: symbols[f], Code: int(int32(code))}
	}
	return nil
}

func (r *reader) NumDevices() int   { return len(r.devices) }
func (r *reader) UUID(i int) string { return r.devices[i].uuid }
func (r *reader) Close() error      { return r.call(nvmlShutdown) }

// Read asks for everything.
func (r *reader) Read(i int) (Reading, error) {
	q := query{r: r, h: r.devices[i].handle}
	var out Reading
	var memory struct{ total, free, used uint64 }
	if q.ask(nvmlDeviceGetMemoryInfo, uintptr(unsafe.Pointer(&memory))) {
		out.MemoryUsed, out.MemoryTotal = known(memory.used, 1), known(memory.total, 1)
	}
	var use struct{ gpu, memory uint32 }
	if q.ask(nvmlDeviceGetUtilizationRates, uintptr(unsafe.Pointer(&use))) {
		out.GPUUtilization, out.MemoryUtilization = known(uint64(use.gpu), 0.01), known(uint64(use.memory), 0.01)
	}
	var energy uint64
	if q.ask(nvmlDeviceGetTotalEnergyConsumption, uintptr(unsafe.Pointer(&energy))) {
		out.Energy = known(energy, 1e-3)
	}
	out.Power = q.number(nvmlDeviceGetPowerUsage, 1e-3)
	out.PowerLimit = q.number(nvmlDeviceGetEnforcedPowerLimit, 1e-3)
	out.Temperature = q.number(nvmlDeviceGetTemperature, 1, sensorGPU)
	out.ClockSM = q.number(nvmlDeviceGetClockInfo, 1e6, clockSM)
	out.ClockMemory = q.number(nvmlDeviceGetClockInfo, 1e6, clockMemory)
	out.ECCCorrected = q.errors(eccCorrected)
	out.ECCNotFixed = q.errors(eccUncorrected)
	return out, q.err
}

func known(v uint64, unit float64) Value { return Value{Known: true, V: float64(v) * unit} }

// query asks one GPU, until something is wrong with it as a whole.
type query struct {
	r   *reader
	h   uintptr
	err error
}

// ask calls a function with the GPU first, and tells whether it has answered.
//
//go:uintptrescapes
func (q *query) ask(f function, args ...uintptr) bool {
	if q.err != nil {
		return false
	}
	err := q.r.call(f, append([]uintptr{q.h}, args...)...)
	if e, ok := err.(*Error); ok && e.Code != notSupported && e.Code != noPermission && e.Code != functionMissing {
		q.err = err
	}
	return err == nil
}

// number asks for an unsigned int, whose address comes after the arguments.
func (q *query) number(f function, unit float64, args ...uintptr) Value {
	var v uint32
	ok := false
	if len(args) == 0 {
		ok = q.ask(f, uintptr(unsafe.Pointer(&v)))
	} else {
		ok = q.ask(f, args[0], uintptr(unsafe.Pointer(&v)))
	}
	if !ok {
		return Value{}
	}
	return known(uint64(v), unit)
}

// errors asks for a count of errors of memory.
func (q *query) errors(kind uintptr) Value {
	var n uint64
	if !q.ask(nvmlDeviceGetTotalEccErrors, kind, eccVolatile, uintptr(unsafe.Pointer(&n))) {
		return Value{}
	}
	return known(n, 1)
}
