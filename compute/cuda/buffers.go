package cuda

import (
	"fmt"

	"github.com/troupe-llm/troupe/compute"
)

// buffer is an activation matrix, row-major without gaps.
type buffer struct {
	b          *Backend
	p          Ptr
	rows, cols int
}

// Cap implements compute.Buffer.
func (f *buffer) Cap() int { return f.rows }

// Cols implements compute.Buffer.
func (f *buffer) Cols() int { return f.cols }

// Free implements compute.Buffer.
func (f *buffer) Free() {
	if f.p == 0 {
		return
	}
	f.b.note(f.b.stream.Sync()) // what is enqueued may use it
	f.b.note(f.b.mem.free(f.p))
	f.p, f.rows = 0, 0
}

// row returns where row i is.
func (f *buffer) row(i int) Ptr { return f.p + Ptr(4*i*f.cols) }

// NewBuffer implements compute.Backend.
func (b *Backend) NewBuffer(rows, cols int) (compute.Buffer, error) {
	if rows <= 0 || cols <= 0 {
		return nil, fmt.Errorf("compute/cuda: a buffer has shape [%d, %d]; both must be at least 1", rows, cols)
	}
	size, ok := compute.Product(rows, cols, 4)
	if !ok {
		return nil, fmt.Errorf("compute/cuda: a buffer of shape [%d, %d] is too large", rows, cols)
	}
	p, err := b.mem.alloc(size, "buffer")
	if err != nil {
		return nil, err
	}
	b.maxRows = max(b.maxRows, rows)
	return &buffer{b: b, p: p, rows: rows, cols: cols}, nil
}

// Host implements compute.Backend.
func (b *Backend) Host(buf compute.Buffer, from, n int) []float32 {
	f := buf.(*buffer)
	if !(from >= 0 && n >= 0 && from+n <= f.rows) {
		fail("Host: rows %d+%d of %d", from, n, f.rows)
	}
	if n == 0 {
		return nil
	}
	b.note(b.queue.Err())
	if b.err == nil {
		bytes, err := b.stream.Fetch(f.row(from), 4*n*f.cols)
		if err == nil {
			return floatsOf(bytes)
		}
		b.note(err)
	}
	return make([]float32, n*f.cols) // Sync says why
}

// Upload implements compute.Backend.
func (b *Backend) Upload(dst compute.Buffer, from int, values []float32) {
	f := dst.(*buffer)
	if !(from >= 0 && len(values)%f.cols == 0 && from+len(values)/f.cols <= f.rows) {
		fail("Upload: %d values from row %d of [%d, %d]", len(values), from, f.rows, f.cols)
	}
	write(b, f.row(from), values)
}

// ropeTable holds rotations by position: [positions][cos, sin][half].
type ropeTable struct {
	p               Ptr
	positions, half int
}

// MaxPositions implements compute.Rope.
func (r *ropeTable) MaxPositions() int { return r.positions }

// NewRope implements compute.Backend.
func (b *Backend) NewRope(t compute.RopeTable) (compute.Rope, error) {
	if t.HalfDim <= 0 || len(t.Cos) == 0 || len(t.Cos) != len(t.Sin) || len(t.Cos)%t.HalfDim != 0 {
		return nil, fmt.Errorf("compute/cuda: rope table of %d cosines and %d sines for half a head of %d", len(t.Cos), len(t.Sin), t.HalfDim)
	}
	r := &ropeTable{positions: len(t.Cos) / t.HalfDim, half: t.HalfDim}
	both := make([]float32, 0, 2*len(t.Cos))
	for at := 0; at < len(t.Cos); at += t.HalfDim {
		both = append(append(both, t.Cos[at:at+t.HalfDim]...), t.Sin[at:at+t.HalfDim]...)
	}
	var err error
	if r.p, err = b.shared.weights.alloc(int64(4*len(both)), "rope table"); err != nil {
		return nil, err
	}
	write(b, r.p, both)
	return r, b.Sync()
}
