package gpu

import "fmt"

// Align is what addresses from an Arena are multiples of, in bytes.
const Align = 256

// Carver is a device that can tell parts of an allocation apart. The simulator can,
// so that a kernel that leaves its buffer is caught although the buffer beside it
// is of the same arena.
type Carver interface {
	// Carve makes [p, p+n) a buffer that nobody has written.
	Carve(p Ptr, n int64) error
	// Uncarve makes [p, p+n), or what of it was carved, belong to nobody.
	Uncarve(p Ptr, n int64) error
}

// Arena hands out parts of one allocation, made at the start: nothing is allocated
// while a model runs, and addresses stay what graphs captured. Its owner uses it
// from one bound goroutine.
type Arena struct {
	dev  Device
	base Ptr
	size int64
	used int64 // bytes from base on; a multiple of Align
	gap  int64 // bytes that are left free behind each buffer
}

// NewArena allocates an arena of size bytes.
func NewArena(dev Device, size int64) (*Arena, error) {
	base, err := dev.Alloc(size)
	if err != nil {
		return nil, err
	}
	a := &Arena{dev: dev, base: base, size: size}
	if c, ok := dev.(Carver); ok {
		if err := c.Uncarve(base, size); err != nil {
			return nil, err
		}
		a.gap = Align
	}
	return a, nil
}

// Alloc returns n bytes; n = 0 gives an address that nothing may use. It fails with
// OutOfMemory if the arena has no more.
func (a *Arena) Alloc(n int64) (Ptr, error) {
	if n < 0 {
		return 0, NewError("arena", InvalidValue, fmt.Sprintf("a buffer of %d bytes", n))
	}
	if n > a.size-a.used {
		return 0, NewError("arena", OutOfMemory, fmt.Sprintf("%d bytes asked for, %d of %d left", n, a.size-a.used, a.size))
	}
	p := a.base + Ptr(a.used)
	if c, ok := a.dev.(Carver); ok && n > 0 {
		if err := c.Carve(p, n); err != nil {
			return 0, err
		}
	}
	a.used = min(a.size, (a.used+n+a.gap+Align-1)/Align*Align)
	return p, nil
}

// Room returns the size of an arena that n buffers of bytes together surely fit in,
// on any device.
func Room(bytes int64, n int) int64 { return bytes + int64(n)*2*Align }

// Used returns the bytes that are handed out, with what alignment costs. As an
// argument of Release it means: as it is now.
func (a *Arena) Used() int64 { return a.used }

// Size returns the arena's bytes.
func (a *Arena) Size() int64 { return a.size }

// Release takes back all that was handed out since Used returned mark.
func (a *Arena) Release(mark int64) error {
	if mark < 0 || mark > a.used {
		return NewError("arena", InvalidValue, fmt.Sprintf("release to %d of %d bytes used", mark, a.used))
	}
	if c, ok := a.dev.(Carver); ok && mark < a.used {
		if err := c.Uncarve(a.base+Ptr(mark), a.used-mark); err != nil {
			return err
		}
	}
	a.used = mark
	return nil
}

// Free gives the allocation back; the arena may not be used afterwards. A second
// call does nothing.
func (a *Arena) Free() error {
	if a.base == 0 {
		return nil
	}
	base := a.base
	a.base, a.size, a.used = 0, 0, 0
	return a.dev.Free(base)
}
