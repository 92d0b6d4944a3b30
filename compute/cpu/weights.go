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
	if _, err := compute.CheckParts(parts); err != nil {
		return nil, err
	}
	m, sources, err := layOut(parts)
	if err != nil {
		return nil, err
	}
	for i, w := range m.bands {
		if err := b.fill(w, sources[i]); err != nil {
			for _, before := range m.bands[:i] {
				b.weights.giveBack(before.data)
			}
			return nil, err
		}
	}
	if b.kept.writer != nil {
		b.kept.writer.keep(m)
	}
	return m, nil
}

// layOut returns the matrix that parts make, without memory, and the parts that each
// of its bands is made of: neighbours that are held in one type. The parts' data does
// not matter.
func layOut(parts []compute.RawTensor) (*matrix, [][]compute.RawTensor, error) {
	m := &matrix{cols: parts[0].Cols}
	var sources [][]compute.RawTensor
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].HeldAs() == parts[0].HeldAs() {
			n++
		}
		w, err := layOutBand(parts[:n])
		if err != nil {
			return nil, nil, err
		}
		w.first = m.rows
		m.bands, sources = append(m.bands, w), append(sources, parts[:n])
		m.rows += w.rows
		parts = parts[n:]
	}
	return m, sources, nil
}

// layOutBand returns the band of parts that are held in one type.
func layOutBand(parts []compute.RawTensor) (*band, error) {
	w := &band{cols: parts[0].Cols}
	for _, p := range parts {
		w.rows += p.Rows
	}
	w.tiles = kernels.NumTiles(w.rows)
	dtype := parts[0].HeldAs()
	if w.quant, w.quantised = dtype.Quant(); w.quantised {
		w.tileBytes = kernels.QTileBytes(w.quant, w.cols)
	} else {
		var err error
		if w.format, err = formatOf(dtype); err != nil {
			return nil, err
		}
		w.tileBytes = kernels.TileBytes(w.format, w.cols)
	}
	if _, ok := compute.Product(w.tiles, w.tileBytes); !ok {
		return nil, fmt.Errorf("compute/cpu: tensor %q is too large: [%d, %d]", parts[0].Name, w.rows, w.cols)
	}
	return w, nil
}

// fill gives a band memory and fills it from parts.
func (b *Backend) fill(w *band, parts []compute.RawTensor) (err error) {
	if w.data, err = b.weights.take(int64(w.tiles)*int64(w.tileBytes), "weight "+parts[0].Name); err != nil {
		return err
	}
	t := &repackTask{w: w, parts: parts}
	err = guardRead(parts[0].Name, func() { b.pool.run(t, (w.tiles+repackTiles-1)/repackTiles) })
	if err != nil {
		b.weights.giveBack(w.data)
	}
	return err
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
