package cpu

import (
	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// Sizes that cut a product into chunks.
const (
	// chunkBytes of weights stay in a core's own cache while all panels pass.
	chunkBytes = 256 << 10
	// soloBytes of weights are read at a time for a single row: assembly cannot
	// be interrupted, and the garbage collector should not wait long.
	soloBytes = 1 << 20
	// blockFloats of activations are packed at a time.
	blockFloats = 256 << 10
	// aheadPanels are the most panels of a chunk that fetch the next one's weights:
	// of more, the first one's wait is a small part.
	aheadPanels = 16
	// tileGroup is the granule of tiles: kernels take up to so many at once.
	tileGroup = 4
)

// productNs estimates what one thread needs for a product: the weights come at
// some 32 bytes, the arithmetic at some 64 multiply-adds per nanosecond.
func productNs(w *band, rows int) int {
	perNs := 64
	if w.quantised {
		perNs = 192 // products of bytes
	}
	return max(len(w.data)/32, w.tiles*kernels.TileRows*w.cols/perNs*rows)
}

// linearTask is dst = src · wᵀ for a block of rows: chunks are groups of tiles
// times groups of panels.
type linearTask struct {
	b      *Backend
	w      *band
	src    []float32 // [rows, w.cols]
	dst    []float32 // [rows, ld], from the band's first column on
	ld     int       // rows of the whole matrix
	panels []float32 // src, packed: panelWords per row; of one row, only if it is quantised
	rows   int
	finish kernels.Finish

	split      // rows into panels
	chunkTiles int
	tileChunks int
	chunkWidth int // panels per chunk
}

// split cuts n rows into panels whose widths differ by at most one.
type split struct{ n, panels int }

func newSplit(n, widest int) split { return split{n: n, panels: (n + widest - 1) / widest} }

// bounds returns panel i's rows.
func (s split) bounds(i int) (from, to int) { return i * s.n / s.panels, (i + 1) * s.n / s.panels }

// Linear implements compute.Backend.
func (b *Backend) Linear(dst, src compute.Buffer, w compute.Matrix, rows int) {
	b.product(dst.(*buffer), src.(*buffer), w.(*matrix), rows, kernels.Set)
}

// LinearAdd implements compute.Backend.
func (b *Backend) LinearAdd(dst, src compute.Buffer, w compute.Matrix, rows int) {
	b.product(dst.(*buffer), src.(*buffer), w.(*matrix), rows, kernels.Add)
}

func (b *Backend) product(dst, src *buffer, w *matrix, rows int, finish kernels.Finish) {
	if !(dst.cols == w.rows && src.cols == w.cols) {
		fail("Linear: [%d, %d] of columns %d, %d", w.rows, w.cols, dst.cols, src.cols)
	}
	if !(rows >= 0 && rows <= dst.rows && rows <= src.rows) {
		fail("Linear: %d rows of %d, %d", rows, dst.rows, src.rows)
	}
	// A block is a whole number of the widest panels, so that only the last has
	// narrower ones.
	block := max(blockFloats/w.cols/12, 8) * 12
	for from := 0; from < rows; from += block {
		n := min(block, rows-from)
		t := &b.linear
		t.b, t.ld, t.rows, t.finish = b, w.rows, n, finish
		t.src = src.data[from*w.cols:]
		for _, t.w = range w.bands {
			t.dst = dst.data[from*w.rows+t.w.first:]
			t.compute()
		}
	}
}

// compute packs the block's rows and multiplies.
func (t *linearTask) compute() {
	t.split = newSplit(t.rows, t.widestPanel())
	if t.rows > 1 || t.w.quantised {
		t.panels = t.b.panels.floats(t.rows * t.panelWords())
		t.b.pack.linearTask = t
		t.b.runSized(&t.b.pack, t.split.panels, t.rows*t.w.cols/4)
	}
	t.plan()
	chunks := t.tileChunks * ((t.split.panels + t.chunkWidth - 1) / t.chunkWidth)
	t.b.pool.run(t, chunks)
}

// widestPanel returns the most columns that the kernels for w take.
func (t *linearTask) widestPanel() int {
	if t.w.quantised {
		return t.b.tier.MaxQCols()
	}
	return t.b.tier.MaxCols()
}

// panelWords returns the words of a panel per column.
func (t *linearTask) panelWords() int {
	if t.w.quantised {
		return kernels.QPanelWords(t.w.quant, t.w.cols, 1)
	}
	return t.w.cols
}

// plan chooses the chunks: small enough to share out, large enough to be worth
// a claim, weights small enough to stay in cache.
func (t *linearTask) plan() {
	w, threads := t.w, len(t.b.worker)
	t.chunkTiles, t.chunkWidth = w.tiles, t.split.panels
	if ns := productNs(w, t.rows); ns >= soloNs && threads > 1 {
		want := numChunks(ns, threads)
		t.chunkTiles = roundUp((w.tiles+want-1)/want, tileGroup)
		groups := (w.tiles + t.chunkTiles - 1) / t.chunkTiles
		t.chunkWidth = max(t.split.panels*groups/want, 1)
	}
	fit := chunkBytes
	if t.rows == 1 {
		fit = soloBytes
	}
	t.chunkTiles = min(t.chunkTiles, max(fit/w.tileBytes/tileGroup*tileGroup, tileGroup))
	t.tileChunks = (w.tiles + t.chunkTiles - 1) / t.chunkTiles
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// run implements task.
func (t *linearTask) run(chunk, index int) {
	first := chunk % t.tileChunks * t.chunkTiles
	tiles := min(t.chunkTiles, t.w.tiles-first)
	panel := chunk / t.tileChunks * t.chunkWidth
	for i := panel; i < min(panel+t.chunkWidth, t.split.panels); i++ {
		t.panel(i, first, tiles, &t.b.worker[index])
	}
}

// panel multiplies one panel with tiles from first on. A last tile that has
// fewer rows than lanes goes through scratch memory.
func (t *linearTask) panel(i, first, tiles int, ws *workspace) {
	from, to := t.split.bounds(i)
	nr, w := to-from, t.w
	x := t.src
	if t.rows > 1 || w.quantised {
		x = t.panels[from*t.panelWords():]
	}
	whole := min(tiles, w.rows/kernels.TileRows-first)
	if whole > 0 {
		t.multiply(ws, region{x, t.dst[from*t.ld+first*kernels.TileRows:], first, whole, nr, t.ld, t.ahead(i, first, tiles)})
	}
	if whole == tiles {
		return
	}
	row := (first + whole) * kernels.TileRows
	n := w.rows - row
	for j := range nr {
		copy(ws.edge[j*kernels.TileRows:][:n], t.dst[(from+j)*t.ld+row:])
	}
	t.multiply(ws, region{x, ws.edge[:], first + whole, 1, nr, kernels.TileRows, nil})
	for j := range nr {
		copy(t.dst[(from+j)*t.ld+row:][:n], ws.edge[j*kernels.TileRows:])
	}
}

// ahead returns the weights that panel i fetches while it is multiplied with tiles
// from first on: its share of what this thread probably computes next. A chunk's
// first panel waits for its weights to come from memory, if nobody asked for them.
func (t *linearTask) ahead(i, first, tiles int) []byte {
	next := first + len(t.b.worker)*t.chunkTiles
	if !t.w.quantised || next >= t.w.tiles || t.chunkWidth > aheadPanels {
		return nil
	}
	share := kernels.AheadBytes(tiles, t.w.cols/kernels.QBlock)
	from := next*t.w.tileBytes + i%t.chunkWidth*share
	end := min(next+t.chunkTiles, t.w.tiles) * t.w.tileBytes
	return t.w.data[min(from, end):min(from+share, end)]
}

// region is tiles of a band times a panel.
type region struct {
	x, out       []float32
	first, tiles int
	nr, ld       int // columns of the panel, distance of rows of out
	ahead        []byte
}

// multiply computes a region with the kernel for its weights.
func (t *linearTask) multiply(ws *workspace, r region) {
	w := t.w
	if w.quantised {
		ws.qgemm = kernels.QGemm{
			W: w.tile(r.first), X: r.x, Out: r.out, Blocks: w.cols / kernels.QBlock, NR: r.nr,
			Tiles: r.tiles, TileBytes: w.tileBytes, LDO: r.ld, Finish: t.finish, Type: w.quant, Ahead: r.ahead,
		}
		ws.qgemm.Run(t.b.tier)
		return
	}
	ws.gemm = kernels.Gemm{
		W: w.tile(r.first), X: r.x, Out: r.out, K: w.cols, NR: r.nr,
		Tiles: r.tiles, TileBytes: w.tileBytes, LDO: r.ld, Finish: t.finish, Format: w.format,
	}
	ws.gemm.Run(t.b.tier)
}

// packTask packs the panels of a linearTask, one per chunk.
type packTask struct{ *linearTask }

// run implements task.
func (t *packTask) run(i, worker int) {
	from, to := t.split.bounds(i)
	k, nr := t.w.cols, to-from
	dst, src := t.panels[from*t.panelWords():], t.src[from*k:]
	if !t.w.quantised {
		kernels.PackPanel(t.b.tier, dst, src, k, nr, k)
		return
	}
	scratch := t.b.worker[worker].rounded.floats(kernels.QPanelScratch(k, nr))
	kernels.PackQPanel(t.b.tier, dst, t.w.quant, src, kernels.QPanelShape{Cols: k, NR: nr, LD: k, Scratch: scratch})
}
