package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// hugeBytes is the size from which memory is worth huge pages; below it the
// rounding would waste more than it saves.
const hugeBytes = 4 << 20

// arena owns memory outside the Go heap. Memory is zero, and real only once
// touched.
type arena struct {
	mu     sync.Mutex
	blocks map[*byte][]byte
}

// alloc maps n bytes. what names the thing in the error.
func (a *arena) alloc(n int64, what string) ([]byte, error) {
	if n < 0 || n > maxBytes() {
		return nil, fmt.Errorf("compute/cpu: %s of %d bytes does not fit the machine's memory of %d bytes", what, n, maxBytes())
	}
	if n == 0 {
		return nil, nil
	}
	b, err := mapMemory(int(n))
	if err != nil {
		return nil, fmt.Errorf("compute/cpu: %s of %d bytes: %w", what, n, err)
	}
	a.keep(b)
	return b, nil
}

// keep makes mapped memory the arena's.
func (a *arena) keep(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blocks == nil {
		a.blocks = map[*byte][]byte{}
	}
	a.blocks[unsafe.SliceData(b)] = b
}

// mapFile maps a file to be read. The bytes are freed as others are.
func (a *arena) mapFile(path string) ([]byte, error) {
	b, err := mapFile(path)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	a.keep(b)
	return b, nil
}

// free unmaps what alloc returned; memory that is already free is left alone.
func (a *arena) free(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := unsafe.SliceData(b)
	whole, ok := a.blocks[key]
	if !ok {
		return nil
	}
	delete(a.blocks, key)
	return unmapMemory(whole)
}

func (a *arena) freeAll() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var first error
	for key, b := range a.blocks {
		if err := unmapMemory(b); err != nil && first == nil {
			first = err
		}
		delete(a.blocks, key)
	}
	return first
}

// sharedArena is memory of weights that several backends use; the last one to
// leave frees it. Small weights share mappings, and so huge pages: every step
// walks through all of them.
type sharedArena struct {
	arena
	users atomic.Int64

	slabMu sync.Mutex
	slab   []byte // what is left of the last slab
}

// Weights of up to maxInSlab bytes share mappings of slabBytes.
const (
	hugePage  = 2 << 20
	slabBytes = 16 << 20
	maxInSlab = slabBytes - hugePage
)

// take returns n zero bytes of a slab, or a mapping of their own if there are many.
func (a *sharedArena) take(n int64, what string) ([]byte, error) {
	if n > maxInSlab {
		b, err := a.alloc(n, what)
		adviseHuge(b, true)
		return b, err
	}
	a.slabMu.Lock()
	defer a.slabMu.Unlock()
	if int64(len(a.slab)) < n {
		slab, err := a.alloc(slabBytes, what)
		if err != nil {
			return nil, err
		}
		adviseHuge(slab, true)
		// Whole huge pages only: what is before the first never becomes real.
		a.slab = slab[-uintptr(unsafe.Pointer(unsafe.SliceData(slab)))%hugePage:]
	}
	b := a.slab[:n:n]
	// The next one begins on a cache line.
	a.slab = a.slab[min(roundUp(int(n), 64), len(a.slab)):]
	return b, nil
}

// giveBack frees what take returned if it has a mapping of its own.
func (a *sharedArena) giveBack(b []byte) {
	if len(b) > maxInSlab {
		// A failed unmap loses address space, nothing else.
		_ = a.free(b)
	}
}

func (a *sharedArena) leave() error {
	if a.users.Add(-1) > 0 {
		return nil
	}
	return a.freeAll()
}

// floats views memory as F32 elements.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// scratch is memory that grows to the largest size asked for and is reused.
// What it held is lost when it grows.
type scratch struct {
	mem *arena
	raw []byte
}

// floats returns n elements with undefined values.
func (s *scratch) floats(n int) []float32 { return floats(s.bytes(4 * n)) }

// bytes returns n bytes with undefined values.
func (s *scratch) bytes(n int) []byte {
	if len(s.raw) < n {
		// A failed unmap loses address space, nothing else.
		_ = s.mem.free(s.raw)
		s.raw = nil
		b, err := s.mem.alloc(int64(n+n/4), "scratch memory") // a quarter in reserve: growing is rare
		if err != nil {
			panic(err)
		}
		s.raw = b
	}
	return s.raw[:n]
}
