package cpu

import (
	"fmt"

	"github.com/troupe-llm/troupe/compute"
)

// buffer is an activation matrix, row-major without gaps.
type buffer struct {
	data       []float32
	raw        []byte
	rows, cols int
	mem        *arena
}

// Cap implements compute.Buffer.
func (b *buffer) Cap() int { return b.rows }

// Cols implements compute.Buffer.
func (b *buffer) Cols() int { return b.cols }

// Free implements compute.Buffer.
func (b *buffer) Free() {
	// A failed unmap loses address space, nothing else.
	_ = b.mem.free(b.raw)
	b.data, b.raw, b.rows = nil, nil, 0
}

// row returns row i.
func (b *buffer) row(i int) []float32 { return b.data[i*b.cols:][:b.cols] }

// NewBuffer implements compute.Backend.
func (b *Backend) NewBuffer(rows, cols int) (compute.Buffer, error) {
	if rows <= 0 || cols <= 0 {
		return nil, fmt.Errorf("compute/cpu: a buffer has shape [%d, %d]; both must be at least 1", rows, cols)
	}
	size, ok := compute.Product(rows, cols, 4)
	if !ok {
		return nil, fmt.Errorf("compute/cpu: a buffer of shape [%d, %d] is too large", rows, cols)
	}
	raw, err := b.mem.alloc(size, "buffer")
	if err != nil {
		return nil, err
	}
	return &buffer{data: floats(raw), raw: raw, rows: rows, cols: cols, mem: &b.mem}, nil
}

// Host implements compute.Backend.
func (b *Backend) Host(buf compute.Buffer, from, n int) []float32 {
	h := buf.(*buffer)
	if !(from >= 0 && n >= 0 && from+n <= h.rows) {
		fail("Host: rows %d+%d of %d", from, n, h.rows)
	}
	return h.data[from*h.cols : (from+n)*h.cols : (from+n)*h.cols]
}

// Upload implements compute.Backend.
func (b *Backend) Upload(dst compute.Buffer, from int, values []float32) {
	d := dst.(*buffer)
	if !(from >= 0 && len(values)%d.cols == 0 && from+len(values)/d.cols <= d.rows) {
		fail("Upload: %d values from row %d of [%d, %d]", len(values), from, d.rows, d.cols)
	}
	copy(d.data[from*d.cols:], values)
}

// fail reports a broken invariant of the caller. It is called behind an if, so
// that the arguments are not gathered where all is well.
func fail(format string, args ...any) {
	panic(fmt.Sprintf("compute/cpu: "+format, args...))
}
