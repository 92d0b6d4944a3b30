package ptxsim

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-llm/troupe/gpu"
)

// Addresses. Shared memory has a window in the generic space; every device has a
// range of its own, so that a pointer of one is wild on another.
const (
	sharedWindow = 1 << 40
	deviceRange  = 1 << 44 // device i starts at (i+1)*deviceRange
	pageBits     = 16      // allocations start at multiples of 64 KiB
	maxAddress   = 1 << 42 // bytes of addresses of a device: they are never used again
)

// What is known of a byte.
const (
	untouched byte = iota // of nobody in a carved span, else not written
	fresh                 // carved, not written
	written
	gone    // carved once, of nobody now
	pending // an asynchronous copy is writing it
)

// span is memory that is watched: an allocation, or the shared memory of a block.
type span struct {
	base   uint64
	data   []byte
	state  []byte
	carved bool // bytes belong to buffers that gpu.Carver named
	freed  bool
	shared bool
	first  uint32 // segments before this one are ordered before now
	size   int    // bytes; data may be given up
	chunks []*chunk
}

func newSpan(base uint64, size int) *span {
	return &span{base: base, size: size, data: make([]byte, size), state: make([]byte, size),
		chunks: make([]*chunk, (size+chunkBytes-1)/chunkBytes)}
}

func (s *span) String() string {
	if s.shared {
		return fmt.Sprintf("the %d bytes of shared memory", s.size)
	}
	return fmt.Sprintf("the allocation of %d bytes at %#x", s.size, s.base)
}

// memory is the memory of a device.
type memory struct {
	base        uint64
	pages       []*span // by address, in pages
	used, total int64
}

// alloc returns a new span, or nil if there is no room.
func (m *memory) alloc(n int64) *span {
	if n > m.total-m.used || int64(len(m.pages))<<pageBits+n > maxAddress {
		return nil
	}
	m.pages = append(m.pages, nil) // so that what runs over an end meets nobody
	s := newSpan(m.base+uint64(len(m.pages))<<pageBits, int(n))
	for range (n-1)>>pageBits + 1 {
		m.pages = append(m.pages, s)
	}
	m.used += n
	return s
}

func (m *memory) free(p gpu.Ptr) bool {
	s := m.find(uint64(p))
	if s == nil || s.freed || s.base != uint64(p) {
		return false
	}
	s.freed, s.data, s.state, s.chunks = true, nil, nil, nil
	m.used -= int64(s.size)
	return true
}

// find returns the span that an address belongs to, or nil.
func (m *memory) find(a uint64) *span {
	if i := (a - m.base) >> pageBits; i < uint64(len(m.pages)) {
		return m.pages[i]
	}
	return nil
}

// part is n bytes of an allocation.
type part struct{ data, state []byte }

// part returns n bytes for a copy by the host, unless one is of no buffer. Its errors
// have no place in a kernel.
func (m *memory) part(op string, p gpu.Ptr, n int64) (part, error) {
	s := m.find(uint64(p))
	if s == nil {
		return part{}, gpu.NewError(op, gpu.InvalidValue, fmt.Sprintf("%d bytes at %#x are in no allocation", n, uint64(p)))
	}
	o := int64(uint64(p) - s.base)
	if s.freed || n < 0 || n > int64(s.size)-o {
		why := "are too many for"
		if s.freed {
			why = "have been freed with"
		}
		return part{}, gpu.NewError(op, gpu.InvalidValue, fmt.Sprintf("%d bytes at offset %d %s %v", n, o, why, s))
	}
	b := part{s.data[o : o+n], s.state[o : o+n]}
	for i, st := range b.state {
		if st == gone || (st == untouched && s.carved) {
			return part{}, gpu.NewError(op, gpu.InvalidValue, fmt.Sprintf("byte %d of %d bytes at offset %d of %v is of no buffer", i, n, o, s))
		}
	}
	return b, nil
}

// bytes is part for a copy that writes all of it, or reads only what is written.
func (m *memory) bytes(op string, p gpu.Ptr, n int, write bool) ([]byte, error) {
	b, err := m.part(op, p, int64(n))
	if err != nil {
		return nil, err
	}
	if write {
		fill(b.state, written)
		return b.data, nil
	}
	for i, st := range b.state {
		if st != written {
			return nil, gpu.NewError(op, gpu.InvalidValue, fmt.Sprintf("byte %d of %d bytes at %#x was never written", i, n, uint64(p)))
		}
	}
	return b.data, nil
}

// forget drops who used which byte; all launches lie before now.
func (m *memory) forget() {
	for _, s := range m.pages {
		if s != nil {
			clear(s.chunks)
		}
	}
}

// carve sets the state of a part of an allocation.
func (m *memory) carve(op string, p gpu.Ptr, n int64, state byte) error {
	s := m.find(uint64(p))
	if s == nil || s.freed || n < 0 || n > int64(s.size)-int64(uint64(p)-s.base) {
		return gpu.NewError(op, gpu.InvalidValue, fmt.Sprintf("%d bytes at %#x", n, uint64(p)))
	}
	o := int(uint64(p) - s.base)
	if state == gone && !s.carved && n == int64(s.size) {
		s.carved = true // nothing is written to state, so nothing is resident
		clear(s.state)
		return nil
	}
	s.carved = true
	fill(s.state[o:o+int(n)], state)
	return nil
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// all tells whether n bytes of state are written: 1, 2, 4, 8 or 16 of them.
func allWritten(state []byte, n int) bool {
	const eight = 0x0202020202020202
	switch n {
	case 1:
		return state[0] == written
	case 2:
		return binary.LittleEndian.Uint16(state) == eight&0xffff
	case 4:
		return binary.LittleEndian.Uint32(state) == eight&0xffffffff
	case 8:
		return binary.LittleEndian.Uint64(state) == eight
	}
	return binary.LittleEndian.Uint64(state) == eight && binary.LittleEndian.Uint64(state[8:]) == eight
}

// get and put are little-endian numbers of 1 to 8 bytes.
func get(b []byte, n int) uint64 {
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func put(b []byte, n int, v uint64) {
	switch n {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}
