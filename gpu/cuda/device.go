//go:build linux && !nocuda && (amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/troupe-llm/troupe/gpu"
)

// device is a GPU with its primary context.
type device struct {
	lib    *driver
	handle int32
	props  gpu.Properties
	users  int // of Open without Close; belongs to the driver's mu

	ctx  atomic.Uintptr
	life atomic.Int64 // counts resets; handles of an earlier life are void

	mu     sync.Mutex
	pinned map[uintptr]int // bytes by address
}

// retain makes the primary context active.
func (d *device) retain() error {
	var ctx uintptr
	if err := d.lib.call(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&ctx)), uintptr(d.handle)); err != nil {
		return err
	}
	d.ctx.Store(ctx)
	return nil
}

func (d *device) Properties() gpu.Properties { return d.props }

func (d *device) Bind() error {
	runtime.LockOSThread()
	err := d.lib.call(cuCtxSetCurrent, d.ctx.Load())
	if err != nil {
		runtime.UnlockOSThread()
	}
	return err
}

func (d *device) Unbind() { runtime.UnlockOSThread() }

// valid refuses handles that a reset has voided.
func (d *device) valid(f function, life int) error {
	if int64(life) != d.life.Load() {
		return gpu.NewError(symbols[f], gpu.ContextDestroyed, "the device was reset")
	}
	return nil
}

func (d *device) MemInfo() (free, total int64, err error) {
	var f, t uintptr
	err = d.lib.call(cuMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

func (d *device) Alloc(n int64) (gpu.Ptr, error) {
	if n <= 0 {
		return 0, gpu.NewError(symbols[cuMemAlloc], gpu.InvalidValue, fmt.Sprintf("%d bytes", n))
	}
	var p gpu.Ptr
	err := d.lib.call(cuMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, detailed(err, n)
}

// detailed adds how much was asked for.
func detailed(err error, n int64) error {
	if e, ok := err.(*gpu.Error); ok {
		e.Detail = fmt.Sprintf("%d bytes asked for", n)
	}
	return err
}

func (d *device) Free(p gpu.Ptr) error { return d.lib.call(cuMemFree, uintptr(p)) }

// portable has pinned memory count as such for all contexts.
const portable = 1

func (d *device) AllocHost(n int) ([]byte, error) {
	if n <= 0 {
		return nil, gpu.NewError(symbols[cuMemHostAlloc], gpu.InvalidValue, fmt.Sprintf("%d bytes", n))
	}
	var p *byte
	if err := d.lib.call(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), portable); err != nil {
		return nil, detailed(err, int64(n))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pinned == nil {
		d.pinned = map[uintptr]int{}
	}
	d.pinned[uintptr(unsafe.Pointer(p))] = n
	return unsafe.Slice(p, n), nil
}

func (d *device) FreeHost(b []byte) error {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	d.mu.Lock()
	_, ok := d.pinned[at]
	delete(d.pinned, at)
	d.mu.Unlock()
	if !ok {
		return gpu.NewError(symbols[cuMemFreeHost], gpu.InvalidValue, "the memory is not pinned, or was freed before")
	}
	return d.lib.call(cuMemFreeHost, at)
}

// isPinned tells whether b is of the driver: of other memory, the collector might
// take away what an operation still uses.
func (d *device) isPinned(b []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	d.mu.Lock()
	defer d.mu.Unlock()
	for start, n := range d.pinned {
		if at >= start && at-start+uintptr(len(b)) <= uintptr(n) {
			return true
		}
	}
	return false
}

func (d *device) Upload(dst gpu.Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return d.lib.call(cuMemcpyHtoD, uintptr(dst), uintptr(unsafe.Pointer(&src[0])), uintptr(len(src)))
}

func (d *device) Download(dst []byte, src gpu.Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return d.lib.call(cuMemcpyDtoH, uintptr(unsafe.Pointer(&dst[0])), uintptr(src), uintptr(len(dst)))
}

// Reset destroys the primary context's state and makes it active again.
func (d *device) Reset() error {
	d.lib.mu.Lock()
	defer d.lib.mu.Unlock()
	d.life.Add(1)
	d.mu.Lock()
	clear(d.pinned)
	d.mu.Unlock()
	if err := d.lib.call(cuDevicePrimaryCtxReset, uintptr(d.handle)); err != nil {
		return err
	}
	return d.retain()
}

func (d *device) Close() error {
	d.lib.mu.Lock()
	defer d.lib.mu.Unlock()
	if d.users == 0 {
		return nil
	}
	if d.users--; d.users > 0 {
		return nil
	}
	return d.lib.call(cuDevicePrimaryCtxRelease, uintptr(d.handle))
}
