package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// matrix is a weight in tiles.
type matrix struct {
	data       []byte // [tiles][tileBytes], outside the Go heap
	format     kernels.Format
	rows, cols int
	tiles      int
	tileBytes  int
}

// Rows implements compute.Matrix.
func (m *matrix) Rows() int { return m.rows }

// Cols implements compute.Matrix.
func (m *matrix) Cols() int { return m.cols }

// tile returns tile i and those after it.
func (m *matrix) tile(i int) []byte { return m.data[i*m.tileBytes:] }

// vector is a one-dimensional weight.
type vector struct{ data []float32 }

// Len implements compute.Vector.
func (v *vector) Len() int { return len(v.data) }

func formatOf(d compute.DType) (kernels.Format, error) {
	switch d {
	case compute.F32:
		return kernels.F32, nil
	case compute.F16:
		return kernels.F16, nil
	case compute.BF16:
		return kernels.BF16, nil
	}
	return 0, fmt.Errorf("compute/cpu: unknown element type %d", d)
}

// checkTensor verifies that t's data is as long as its shape says.
func checkTensor(t compute.RawTensor) error {
	if _, err := formatOf(t.DType); err != nil {
		return fmt.Errorf("%w of tensor %q", err, t.Name)
	}
	if t.Rows <= 0 || t.Cols <= 0 {
		return fmt.Errorf("compute/cpu: tensor %q has shape [%d, %d]; both must be at least 1", t.Name, t.Rows, t.Cols)
	}
	want, ok := product(t.Rows, t.Cols, t.DType.Size())
	if !ok || want != int64(len(t.Data)) {
		return fmt.Errorf("compute/cpu: tensor %q of shape [%d, %d] and type %v has %d bytes of data", t.Name, t.Rows, t.Cols, t.DType, len(t.Data))
	}
	return nil
}

// checkParts verifies that the parts can be stacked and returns the sum of
// their rows.
func checkParts(parts []compute.RawTensor) (rows int, err error) {
	if len(parts) == 0 {
		return 0, fmt.Errorf("compute/cpu: a matrix needs at least one part")
	}
	for _, p := range parts {
		if err := checkTensor(p); err != nil {
			return 0, err
		}
		if p.Cols != parts[0].Cols || p.DType != parts[0].DType {
			return 0, fmt.Errorf("compute/cpu: tensor %q has %d columns of %v and cannot be stacked on %q with %d of %v",
				p.Name, p.Cols, p.DType, parts[0].Name, parts[0].Cols, parts[0].DType)
		}
		if rows > math.MaxInt-kernels.TileRows-p.Rows {
			return 0, fmt.Errorf("compute/cpu: too many rows at tensor %q", p.Name)
		}
		rows += p.Rows
	}
	return rows, nil
}

// NewMatrix implements compute.Backend.
func (b *Backend) NewMatrix(parts ...compute.RawTensor) (compute.Matrix, error) {
	rows, err := checkParts(parts)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(parts[0].DType)
	if err != nil {
		return nil, err
	}
	m := &matrix{format: format, rows: rows, cols: parts[0].Cols, tiles: kernels.NumTiles(rows)}
	if _, ok := product(m.cols, kernels.TileRows, 4); !ok {
		return nil, fmt.Errorf("compute/cpu: tensor %q has too many columns: %d", parts[0].Name, m.cols)
	}
	m.tileBytes = kernels.TileBytes(format, m.cols)
	size, ok := product(m.tiles, m.tileBytes)
	if !ok {
		return nil, fmt.Errorf("compute/cpu: tensor %q is too large: [%d, %d]", parts[0].Name, rows, m.cols)
	}
	if m.data, err = b.weights.take(size, "weight "+parts[0].Name); err != nil {
		return nil, err
	}
	t := &repackTask{m: m, parts: parts}
	err = guardRead(parts[0].Name, func() { b.pool.run(t, (m.tiles+repackTiles-1)/repackTiles) })
	if err != nil {
		b.weights.giveBack(m.data)
		return nil, err
	}
	return m, nil
}

// guardRead calls read, which reads weights. They are usually pages of a file;
// if those cannot be read, because the disk fails or the file was cut short,
// that is an error and no reason to die.
func guardRead(name string, read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if p, ok := v.(*taskPanic); ok {
			v = p.value
		}
		if v != nil {
			err = fmt.Errorf("compute/cpu: cannot read tensor %q: %v", name, v)
		}
	}()
	read()
	return nil
}

// repackTask fills a matrix's tiles from row-major parts.
type repackTask struct {
	m     *matrix
	parts []compute.RawTensor
}

// repackTiles is the number of tiles in a chunk.
const repackTiles = 8

func (t *repackTask) run(chunk, _ int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	first := chunk * repackTiles
	for i := first; i < min(first+repackTiles, t.m.tiles); i++ {
		t.tile(i)
	}
}

// tile packs the rows of tile i, which may come from several parts.
func (t *repackTask) tile(i int) {
	tile := t.m.tile(i)[:t.m.tileBytes]
	rowBytes := t.m.cols * t.m.format.Size()
	from, to := i*kernels.TileRows, (i+1)*kernels.TileRows
	start := 0 // the part's first row in the matrix
	for _, p := range t.parts {
		lo, hi := max(from, start), min(to, start+p.Rows)
		if lo < hi {
			src := p.Data[(lo-start)*rowBytes : (hi-start)*rowBytes]
			kernels.PackRows(tile, src, t.m.format, t.m.cols, lo-from)
		}
		start += p.Rows
	}
}

// NewVector implements compute.Backend.
func (b *Backend) NewVector(t compute.RawTensor) (compute.Vector, error) {
	if err := checkTensor(t); err != nil {
		return nil, err
	}
	if t.Rows != 1 {
		return nil, fmt.Errorf("compute/cpu: tensor %q has %d rows; a vector has 1", t.Name, t.Rows)
	}
	v := &vector{data: make([]float32, t.Cols)}
	if err := guardRead(t.Name, func() { v.fill(t) }); err != nil {
		return nil, err
	}
	return v, nil
}

// fill widens t's elements.
func (v *vector) fill(t compute.RawTensor) {
	for i := range v.data {
		switch t.DType {
		case compute.F32:
			v.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		case compute.F16:
			v.data[i] = kernels.F16ToF32(binary.LittleEndian.Uint16(t.Data[2*i:]))
		case compute.BF16:
			v.data[i] = kernels.BF16ToF32(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	}
}
