//go:build linux && !nocuda && (amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/troupe-llm/troupe/gpu"
)

// The numbers of CUjit_option that are used.
const (
	jitInfoLog      = 3
	jitInfoLogSize  = 4
	jitErrorLog     = 5
	jitErrorLogSize = 6
	jitLogSize      = 16 << 10 // bytes of each log
)

// jit are the options of a compilation, in the driver's form: numbers, and values
// the size of pointers. Sizes come back as what was written.
type jit struct {
	options     [4]uint32
	values      [4]uintptr
	info, error [jitLogSize]byte
}

// newJIT returns options that point to their own logs: the caller pins them.
func newJIT() *jit {
	j := &jit{options: [4]uint32{jitInfoLog, jitInfoLogSize, jitErrorLog, jitErrorLogSize}}
	j.values = [4]uintptr{uintptr(unsafe.Pointer(&j.info)), jitLogSize, uintptr(unsafe.Pointer(&j.error)), jitLogSize}
	return j
}

// module is compiled PTX on a device.
type module struct {
	dev     *device
	life    int
	handle  uintptr
	log     string
	entries map[string]gpu.Entry
}

func (d *device) LoadModule(name, ptx string) (gpu.Module, error) {
	entries, err := gpu.Entries(ptx)
	if err != nil {
		e := gpu.NewError(symbols[cuModuleLoadDataEx], gpu.InvalidPTX, fmt.Sprintf("module %s: %v", name, err))
		e.Cause = err
		return nil, e
	}
	m := &module{dev: d, life: int(d.life.Load()), entries: map[string]gpu.Entry{}}
	for _, e := range entries {
		m.entries[e.Name] = e
	}
	j := newJIT()
	var pin runtime.Pinner
	pin.Pin(j)
	defer pin.Unpin()
	image := append([]byte(ptx), 0)
	err = d.lib.call(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&image[0])),
		uintptr(len(j.options)), uintptr(unsafe.Pointer(&j.options)), uintptr(unsafe.Pointer(&j.values)))
	m.log = cString(j.info[:])
	if e, ok := err.(*gpu.Error); ok {
		e.Detail = "module " + name + ": " + cString(j.error[:])
		return nil, e
	}
	return m, err
}

func (m *module) Log() string { return m.log }

func (m *module) Func(name string) (gpu.Func, error) {
	if err := m.dev.valid(cuModuleGetFunction, m.life); err != nil {
		return nil, err
	}
	entry, ok := m.entries[name]
	if !ok {
		return nil, gpu.NewError(symbols[cuModuleGetFunction], gpu.NotFound, "kernel "+name)
	}
	k := &kernel{dev: m.dev, life: m.life, info: gpu.FuncInfo{Name: name, Params: entry.Params}}
	text := append([]byte(name), 0)
	lib := m.dev.lib
	if err := lib.call(cuModuleGetFunction, uintptr(unsafe.Pointer(&k.handle)), m.handle, uintptr(unsafe.Pointer(&text[0]))); err != nil {
		return nil, err
	}
	for attr, to := range map[int]*int{
		funcMaxThreads: &k.info.MaxThreads, funcShared: &k.info.StaticShared, funcLocal: &k.info.Local, funcRegisters: &k.info.Registers,
	} {
		var v int32
		if err := lib.call(cuFuncGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(attr), k.handle); err != nil {
			return nil, err
		}
		*to = int(v)
	}
	return k, nil
}

func (m *module) Close() error {
	if m.handle == 0 || m.dev.valid(cuModuleUnload, m.life) != nil {
		return nil // the reset has unloaded it
	}
	handle := m.handle
	m.handle = 0
	return m.dev.lib.call(cuModuleUnload, handle)
}
