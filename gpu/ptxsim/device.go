package ptxsim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/troupe-llm/troupe/gpu"
)

// device is a simulated GPU and its context.
type device struct {
	index int
	opts  *Options
	bound atomic.Int64 // calls of Bind without their Unbind

	// exec is held by whoever executes operations, and before mu.
	exec    sync.Mutex
	rng     *rand.Rand
	kernels map[string]KernelStats
	segment uint32 // the last one, for the races of the next launch
	clock   int64  // instructions executed

	mu      sync.Mutex
	mem     *memory
	streams []*stream
	pinned  map[uintptr]int // lengths by address
	life    int             // counts resets; handles of an earlier life are void
	lost    *gpu.Error      // the sticky error of this life
	points  [numPoints]int
}

// clean begins a life. The caller holds exec and mu, or is the only one.
func (d *device) clean() {
	base := uint64(deviceRange) * uint64(d.index+1)
	d.mem = &memory{base: base, total: d.opts.Memory}
	d.streams, d.pinned, d.lost = nil, map[uintptr]int{}, nil
	d.life++
}

// check returns why a call cannot be served: nobody is bound, or the context is
// lost, or the handle is of an earlier life. The caller holds mu.
func (d *device) check(op string, life int) error {
	switch {
	case d.lost != nil:
		return d.lost
	case life != d.life:
		return gpu.NewError(op, gpu.ContextDestroyed, "the device was reset")
	case d.bound.Load() == 0:
		return gpu.NewError(op, gpu.InvalidContext, "no goroutine has bound the device")
	}
	return nil
}

// inject counts an event and returns what is to go wrong there.
func (d *device) inject(p Point, op string) error {
	d.mu.Lock()
	d.points[p]++
	n := d.points[p]
	d.mu.Unlock()
	for _, in := range d.opts.Inject {
		if in.Device != d.index || in.Point != p || in.Nth != n {
			continue
		}
		if in.Run != nil {
			in.Run()
		}
		if in.Code != 0 {
			return gpu.NewError(op, in.Code, fmt.Sprintf("injected at number %d", n))
		}
	}
	return nil
}

// lose notes a sticky error.
func (d *device) lose(e *gpu.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost == nil {
		d.lost = e
	}
}

// Properties are those of a small device of compute capability 8.0.
func (d *device) Properties() gpu.Properties {
	return gpu.Properties{
		Index: d.index, Name: "PTX simulator", UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", d.index),
		PCIBusID: fmt.Sprintf("0000:%02x:00.0", d.index), Major: 8, Minor: 0, TotalMemory: d.opts.Memory, NumSMs: 4,
		WarpSize: 32, MaxThreads: 1024, SharedPerBlock: 48 << 10, SharedPerBlockMax: 163 << 10, L2Bytes: 1 << 20,
	}
}

// Bind counts who is bound; no thread matters here.
func (d *device) Bind() error {
	d.bound.Add(1)
	return nil
}

func (d *device) Unbind() { d.bound.Add(-1) }

func (d *device) MemInfo() (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("cuMemGetInfo", d.life); err != nil {
		return 0, 0, err
	}
	return d.mem.total - d.mem.used, d.mem.total, nil
}

func (d *device) Alloc(n int64) (gpu.Ptr, error) {
	if err := d.inject(OnAlloc, "cuMemAlloc"); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("cuMemAlloc", d.life); err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, gpu.NewError("cuMemAlloc", gpu.InvalidValue, fmt.Sprintf("%d bytes", n))
	}
	s := d.mem.alloc(n)
	if s == nil {
		return 0, gpu.NewError("cuMemAlloc", gpu.OutOfMemory, fmt.Sprintf("%d bytes asked for, %d of %d left", n, d.mem.total-d.mem.used, d.mem.total))
	}
	return gpu.Ptr(s.base), nil
}

// Free waits for all that is enqueued, as the driver does.
func (d *device) Free(p gpu.Ptr) error {
	if err := d.drain("cuMemFree"); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mem.free(p) {
		return gpu.NewError("cuMemFree", gpu.InvalidValue, fmt.Sprintf("%#x is no allocation, or was freed before", uint64(p)))
	}
	return nil
}

func (d *device) AllocHost(n int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("cuMemHostAlloc", d.life); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, gpu.NewError("cuMemHostAlloc", gpu.InvalidValue, fmt.Sprintf("%d bytes", n))
	}
	b := make([]byte, n)
	d.pinned[uintptr(unsafe.Pointer(&b[0]))] = n
	return b, nil
}

func (d *device) FreeHost(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("cuMemFreeHost", d.life); err != nil {
		return err
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if _, ok := d.pinned[at]; !ok {
		return gpu.NewError("cuMemFreeHost", gpu.InvalidValue, "the memory is not pinned, or was freed before")
	}
	delete(d.pinned, at)
	return nil
}

// isPinned tells whether b lies within pinned memory. The caller holds mu.
func (d *device) isPinned(b []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for start, n := range d.pinned {
		if at >= start && at-start+uintptr(len(b)) <= uintptr(n) {
			return true
		}
	}
	return false
}

func (d *device) Upload(dst gpu.Ptr, src []byte) error {
	return d.copyNow("cuMemcpyHtoD", dst, len(src), true, func(b []byte) { copy(b, src) })
}

func (d *device) Download(dst []byte, src gpu.Ptr) error {
	return d.copyNow("cuMemcpyDtoH", src, len(dst), false, func(b []byte) { copy(dst, b) })
}

func (d *device) copyNow(op string, p gpu.Ptr, n int, write bool, f func(b []byte)) error {
	d.exec.Lock()
	defer d.exec.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(op, d.life); err != nil || n == 0 {
		return err
	}
	b, err := d.mem.bytes(op, p, n, write)
	if err == nil {
		f(b)
	}
	return err
}

// Carve implements gpu.Carver.
func (d *device) Carve(p gpu.Ptr, n int64) error { return d.carve("carve", p, n, fresh) }

// Uncarve implements gpu.Carver.
func (d *device) Uncarve(p gpu.Ptr, n int64) error { return d.carve("uncarve", p, n, gone) }

func (d *device) carve(op string, p gpu.Ptr, n int64, state byte) error {
	if err := d.drain(op); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mem.carve(op, p, n, state)
}

func (d *device) LoadModule(name, ptx string) (gpu.Module, error) {
	if err := d.inject(OnLoad, "cuModuleLoadData"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check("cuModuleLoadData", d.life); err != nil {
		return nil, err
	}
	m, err := parse(ptx)
	if err != nil {
		e := gpu.NewError("cuModuleLoadData", gpu.InvalidPTX, fmt.Sprintf("module %s: %v", name, err))
		e.Cause = err
		return nil, e
	}
	return &loaded{dev: d, life: d.life, mod: m}, nil
}

// Reset drops everything, and ends what operations are enqueued.
func (d *device) Reset() error {
	d.exec.Lock()
	defer d.exec.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clean()
	return nil
}

// Close leaves the device as it is, for others that have opened it.
func (d *device) Close() error { return nil }

// loaded is a module on a device.
type loaded struct {
	dev  *device
	life int
	mod  *module
}

func (m *loaded) Func(name string) (gpu.Func, error) {
	m.dev.mu.Lock()
	defer m.dev.mu.Unlock()
	if err := m.dev.check("cuModuleGetFunction", m.life); err != nil {
		return nil, err
	}
	k := m.mod.kernels[name]
	if k == nil {
		return nil, gpu.NewError("cuModuleGetFunction", gpu.NotFound, "kernel "+name)
	}
	return &function{dev: m.dev, life: m.life, k: k, maxShared: 48 << 10}, nil
}

func (m *loaded) Log() string  { return "" }
func (m *loaded) Close() error { return nil }

// function is a kernel on a device.
type function struct {
	dev       *device
	life      int
	k         *kernel
	maxShared int // bytes, the static ones among them
}

func (f *function) Info() gpu.FuncInfo {
	return gpu.FuncInfo{Name: f.k.name, Params: f.k.params, MaxThreads: f.k.maxThreads, StaticShared: f.k.shared}
}

func (f *function) SetMaxShared(n int) error {
	limit := f.dev.Properties().SharedPerBlockMax
	if n < 0 || n+f.k.shared > limit {
		return gpu.NewError("cuFuncSetAttribute", gpu.InvalidValue, fmt.Sprintf("%d bytes of dynamic and %d of static shared memory; a block may have %d", n, f.k.shared, limit))
	}
	f.maxShared = max(f.maxShared, n+f.k.shared)
	return nil
}
