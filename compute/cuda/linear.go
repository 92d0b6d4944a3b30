package cuda

import (
	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// Of kernels/cuda/src/linear.cu.
const (
	rowTile     = 8 // rows that an instruction computes together
	narrowTiles = 4 // that narrow4 computes together
	wideTiles   = 8 // that a block of wide computes together
	wideUnits   = 8 // units of weight rows of such a block
	packUnits   = 4 // of a block of pack_rows
	packThreads = 128
	dotThreads  = 256
	vectorBytes = 16
	lanes       = 32
	narrowMost  = 1 * rowTile           // rows up to which narrow1 is best
	narrow4Most = narrowTiles * rowTile // and narrow4
)

// Linear implements compute.Backend.
func (b *Backend) Linear(dst, src compute.Buffer, w compute.Matrix, rows int) {
	b.linear(dst.(*buffer), src.(*buffer), w.(*matrix), product{rows: rows})
}

// LinearAdd implements compute.Backend.
func (b *Backend) LinearAdd(dst, src compute.Buffer, w compute.Matrix, rows int) {
	b.linear(dst.(*buffer), src.(*buffer), w.(*matrix), product{rows: rows, add: 1})
}

// product says which rows are multiplied.
type product struct {
	rows  int
	order Ptr // which rows of src they are; 0 = the first
	count Ptr // how many there are, at most rows; 0 = rows
	add   int // 1 = keep what dst holds, and add to it
}

// linear multiplies rows of src with a weight.
func (b *Backend) linear(dst, src *buffer, m *matrix, p product) {
	if !(dst.cols == m.rows && src.cols == m.cols && p.rows >= 0 && p.rows <= dst.rows && p.rows <= src.rows) {
		fail("Linear: %d rows of [%d, %d] from [%d, %d] by [%d, %d]", p.rows, dst.rows, dst.cols, src.rows, src.cols, m.rows, m.cols)
	}
	if p.rows == 0 {
		return
	}
	pad := 1
	if p.rows > narrow4Most {
		pad = wideTiles
	} else if p.rows > narrowMost {
		pad = narrowTiles
	}
	tiles, units := ceil(ceil(p.rows, rowTile), pad)*pad, m.units()
	x := b.packed.grow(b.packedBytes(max(tiles*rowTile, b.maxRows), max(m.cols, int(b.shared.maxCols.Load()))))
	b.queue.PackRows(kernels.KernelPackRows, kernels.Grid{X: ceil(units, packUnits), Y: tiles, Z: 1, Threads: packThreads}, &kernels.PackRows{
		Packed: x, X: src.p, Order: p.order, Count: p.count, Rows: p.rows, Cols: m.cols, Units: units, Parts: b.parts, Pad: pad})
	for _, w := range m.bands {
		q := kernels.Narrow{C: dst.p + Ptr(4*w.first), X: x, W: w.data, Scales: w.scales, Count: p.count,
			Rows: p.rows, N: w.rows, Ldc: dst.cols, Units: units, Parts: b.parts, Add: p.add}
		g := kernels.Grid{X: ceil(w.rows, unitRows), Y: tiles / pad, Z: 1, Threads: dotThreads}
		switch k := w.kernels(); pad {
		case 1:
			b.queue.Narrow(k.narrow1, g, &q)
		case narrowTiles:
			b.queue.Narrow(k.narrow4, g, &q)
		default:
			g.X = ceil(g.X, wideUnits)
			wide := kernels.Wide(q)
			b.queue.Wide(k.wide, g, &wide)
		}
	}
}

// packedBytes is the memory that rows of cols columns take when they are taken apart.
func (b *Backend) packedBytes(rows, cols int) int64 {
	tiles := ceil(ceil(rows, rowTile), wideTiles) * wideTiles
	return int64(tiles) * int64(ceil(cols, unitCols)) * int64(b.parts*lanes*vectorBytes)
}
