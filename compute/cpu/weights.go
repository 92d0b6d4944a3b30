package cpu

import (
	"fmt"
	"runtime/debug"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// matrix is a weight: bands of rows below each other.
type matrix struct {
	rows, cols int
	bands      []*band
}

// Rows implements compute.Matrix.
func (m *matrix) Rows() int { return m.rows }

// Cols implements compute.Matrix.
func (m *matrix) Cols() int { return m.cols }

// load widens a row to dst.
func (m *matrix) load(dst []float32, row int) {
	for _, w := range m.bands {
		if row < w.first+w.rows {
			w.load(dst, row-w.first)
			return
		}
	}
}

// band is rows of a matrix that are held in one type, in tiles.
type band struct {
	data       []byte // [tiles][tileBytes], outside the Go heap
	format     kernels.Format
	quant      quant.Type // in place of format
	quantised  bool
	first      int // row of the matrix
	rows, cols int
	tiles      int
	tileBytes  int
}

// tile returns tile i and those after it.
func (w *band) tile(i int) []byte { return w.data[i*w.tileBytes:] }

// load widens a row to dst.
func (w *band) load(dst []float32, row int) {
	tile, lane := w.tile(row / kernels.TileRows)[:w.tileBytes], row%kernels.TileRows
	if w.quantised {
		kernels.LoadQRow(dst, tile, w.quant, lane)
	} else {
		kernels.LoadRow(dst, tile, w.format, lane)
	}
}

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

// cacheFormatOf is formatOf for keys and values.
func cacheFormatOf(d compute.DType) (kernels.Format, error) {
	if d == compute.Int8 {
		return kernels.I8, nil
	}
	return formatOf(d)
}

// NewMatrix implements compute.Backend.
func (b *Backend) NewMatrix(parts ...compute.RawTensor) (compute.Matrix, error) {
	rows, err := compute.CheckParts(parts)
	if err != nil {
		return nil, err
	}
	m := &matrix{rows: rows, cols: parts[0].Cols}
	for first := 0; len(parts) > 0; {
		n := 1
		for n < len(parts) && parts[n].HeldAs() == parts[0].HeldAs() {
			n++
		}
		w, err := b.newBand(parts[:n])
		if err != nil {
			for _, before := range m.bands {
				b.weights.giveBack(before.data)
			}
			return nil, err
		}
		w.first = first
		m.bands = append(m.bands, w)
		first += w.rows
		parts = parts[n:]
	}
	return m, nil
}

// newBand packs parts that are held in one type.
func (b *Backend) newBand(parts []compute.RawTensor) (*band, error) {
	w := &band{cols: parts[0].Cols}
	for _, p := range parts {
		w.rows += p.Rows
	}
	w.tiles = kernels.NumTiles(w.rows)
	dtype := parts[0].HeldAs()
	if w.quant, w.quantised = dtype.Quant(); w.quantised {
		w.tileBytes = kernels.QTileBytes(w.quant, w.cols)
	} else {
		w.format, _ = formatOf(dtype) // CheckParts has seen it
		w.tileBytes = kernels.TileBytes(w.format, w.cols)
	}
	size, ok := compute.Product(w.tiles, w.tileBytes)
	if !ok {
		return nil, fmt.Errorf("compute/cpu: tensor %q is too large: [%d, %d]", parts[0].Name, w.rows, w.cols)
	}
	var err error
	if w.data, err = b.weights.take(size, "weight "+parts[0].Name); err != nil {
		return nil, err
	}
	t := &repackTask{w: w, parts: parts}
	err = guardRead(parts[0].Name, func() { b.pool.run(t, (w.tiles+repackTiles-1)/repackTiles) })
	if err != nil {
		b.weights.giveBack(w.data)
		return nil, err
	}
	return w, nil
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

// NewVector implements compute.Backend.
func (b *Backend) NewVector(t compute.RawTensor) (compute.Vector, error) {
	if err := t.CheckVector(); err != nil {
		return nil, err
	}
	v := &vector{data: make([]float32, t.Cols)}
	if err := guardRead(t.Name, func() { v.fill(t) }); err != nil {
		return nil, err
	}
	return v, nil
}

// fill widens t's elements.
func (v *vector) fill(t compute.RawTensor) { compute.Widen(v.data, t.Data, t.DType) }
