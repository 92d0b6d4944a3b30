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
	// tileGroup is the granule of tiles: kernels take up to so many at once.
	tileGroup = 4
)

// productNs estimates what one thread needs for a product: the weights come at
// some 32 bytes, the arithmetic at some 64 multiply-adds per nanosecond.
func productNs(w *matrix, rows int) int {
	return max(len(w.data)/32, w.tiles*kernels.TileRows*w.cols/64*rows)
}

// linearTask is dst = src · wᵀ for a block of rows: chunks are groups of tiles
// times groups of panels.
type linearTask struct {
	b      *Backend
	w      *matrix
	src    []float32 // [rows, w.cols]
	dst    []float32 // [rows, w.rows]
	panels []float32 // src, packed; unused with one row
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
		t.b, t.w, t.rows, t.finish = b, w, n, finish
		t.src, t.dst = src.data[from*w.cols:], dst.data[from*w.rows:]
		t.compute()
	}
}

// compute packs the block's rows and multiplies.
func (t *linearTask) compute() {
	t.split = newSplit(t.rows, t.b.tier.MaxCols())
	if t.rows > 1 {
		t.panels = t.b.panels.floats(t.rows * t.w.cols)
		t.b.pack.linearTask = t
		t.b.runSized(&t.b.pack, t.split.panels, t.rows*t.w.cols/4)
	}
	t.plan()
	chunks := t.tileChunks * ((t.split.panels + t.chunkWidth - 1) / t.chunkWidth)
	t.b.pool.run(t, chunks)
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
	w := t.w
	g := &ws.gemm
	*g = kernels.Gemm{
		X: t.src, K: w.cols, NR: to - from, TileBytes: w.tileBytes,
		Format: w.format, Finish: t.finish, LDO: w.rows,
	}
	if t.rows > 1 {
		g.X = t.panels[from*w.cols:]
	}
	whole := min(tiles, w.rows/kernels.TileRows-first)
	if whole > 0 {
		g.W, g.Out, g.Tiles = w.tile(first), t.dst[from*w.rows+first*kernels.TileRows:], whole
		g.Run(t.b.tier)
	}
	if whole == tiles {
		return
	}
	row := (first + whole) * kernels.TileRows
	n := w.rows - row
	g.W, g.Out, g.Tiles, g.LDO = w.tile(first+whole), ws.edge[:], 1, kernels.TileRows
	for j := range g.NR {
		copy(ws.edge[j*kernels.TileRows:][:n], t.dst[(from+j)*w.rows+row:])
	}
	g.Run(t.b.tier)
	for j := range g.NR {
		copy(t.dst[(from+j)*w.rows+row:][:n], ws.edge[j*kernels.TileRows:])
	}
}

// packTask packs the panels of a linearTask, one per chunk.
type packTask struct{ *linearTask }

// run implements task.
func (t *packTask) run(i, _ int) {
	from, to := t.split.bounds(i)
	k := t.w.cols
	kernels.PackPanel(t.b.tier, t.panels[from*k:], t.src[from*k:], k, to-from, k)
}
