package cuda

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// arena keeps account of device memory, so that it can be freed together.
type arena struct {
	dev  Device
	gone *atomic.Bool // the memory is not ours any more
	mu   sync.Mutex
	live map[Ptr]struct{}
}

// alloc takes memory for what.
func (a *arena) alloc(bytes int64, what string) (Ptr, error) {
	p, err := a.dev.Alloc(bytes)
	if err != nil {
		return 0, fmt.Errorf("compute/cuda: %d bytes for a %s: %w", bytes, what, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live == nil {
		a.live = map[Ptr]struct{}{}
	}
	a.live[p] = struct{}{}
	return p, nil
}

// free gives memory back; what is not there any more is left alone.
func (a *arena) free(p Ptr) error {
	a.mu.Lock()
	_, ok := a.live[p]
	delete(a.live, p)
	a.mu.Unlock()
	if !ok || a.gone.Load() {
		return nil
	}
	return a.dev.Free(p)
}

// freeAll gives everything back and returns the first error.
func (a *arena) freeAll() (first error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.live {
		if err := a.dev.Free(p); err != nil && first == nil {
			first = err
		}
	}
	a.live = nil
	return first
}

// scratch is device memory that grows to the largest size asked for. What it held is lost
// when it grows.
type scratch struct {
	b    *Backend
	p    Ptr
	size int64
}

// grow returns at least so many bytes, or 0 after an error, which Sync returns.
func (s *scratch) grow(bytes int64) Ptr {
	if bytes <= s.size {
		return s.p
	}
	if s.b.err != nil {
		return 0
	}
	if s.p != 0 {
		s.b.note(s.b.stream.Sync()) // what is enqueued may use it
		s.b.note(s.b.mem.free(s.p))
	}
	s.p, s.size = 0, 0
	p, err := s.b.mem.alloc(bytes, "scratch")
	if err != nil {
		s.b.note(err)
		return 0
	}
	s.p, s.size = p, bytes
	return p
}

// bytesOf views elements as they lie in memory, which is little-endian where there are GPUs.
func bytesOf[T int32 | float32 | byte](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// floatsOf views memory as elements.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// ceil returns n/by rounded up.
func ceil(n, by int) int { return (n + by - 1) / by }
