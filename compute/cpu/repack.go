package cpu

import (
	"runtime/debug"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// repackTask fills a band's tiles from row-major parts.
type repackTask struct {
	w     *band
	parts []compute.RawTensor
}

// repackTiles is the number of tiles in a chunk.
const repackTiles = 8

func (t *repackTask) run(chunk, _ int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var q quantiser
	first := chunk * repackTiles
	for i := first; i < min(first+repackTiles, t.w.tiles); i++ {
		t.tile(i, &q)
	}
}

// tile packs the rows of tile i, which may come from several parts.
func (t *repackTask) tile(i int, q *quantiser) {
	w := t.w
	tile := w.tile(i)[:w.tileBytes]
	from, to := i*kernels.TileRows, (i+1)*kernels.TileRows
	start := 0 // the part's first row in the band
	for _, p := range t.parts {
		lo, hi := max(from, start), min(to, start+p.Rows)
		if lo < hi {
			rowBytes := p.DType.RowBytes(p.Cols)
			src := p.Data[(lo-start)*rowBytes : (hi-start)*rowBytes]
			switch {
			case !w.quantised:
				kernels.PackRows(tile, src, w.format, w.cols, lo-from)
			case p.HeldAs() == p.DType:
				kernels.PackQRows(tile, src, w.quant, w.cols, lo-from)
			default:
				kernels.PackQRows(tile, q.blocks(p, w, src), w.quant, w.cols, lo-from)
			}
		}
		start += p.Rows
	}
}

// quantiser makes blocks of rows at load, in memory that it keeps.
type quantiser struct {
	row  []float32
	made []byte
}

// blocks returns the rows of src, elements of p, as blocks of w's type.
func (q *quantiser) blocks(p compute.RawTensor, w *band, src []byte) []byte {
	if q.row == nil {
		q.row = make([]float32, w.cols)
	}
	q.made = q.made[:0]
	for rowBytes := p.DType.RowBytes(w.cols); len(src) > 0; src = src[rowBytes:] {
		compute.Widen(q.row, src, p.DType)
		q.made = w.quant.Append(q.made, q.row)
	}
	return q.made
}
