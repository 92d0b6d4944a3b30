package cpu

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// attentionTask is causal attention of a batch. Its unit of work is a panel: up
// to the tier's widest number of columns, where a column is one query head at
// one position, all of one sequence and one key-value head. A panel is two
// products over the cache's tiles with a softmax between them.
type attentionTask struct {
	b        *Backend
	dst, qkv *buffer
	spec     compute.AttentionSpec
	kv       *kvCache
	layer    int
	batch    *compute.Batch
	group    int // query heads per key-value head

	units  []attentionUnit
	chunks []int // chunk i is units chunks[i] … chunks[i+1]-1
}

// attentionUnit is a panel: columns from … to-1 of a sequence and key-value
// head. Column c is head c%group of query c/group.
type attentionUnit struct{ seq, head, from, to int }

// Attention implements compute.Backend.
func (b *Backend) Attention(dst, qkv compute.Buffer, spec compute.AttentionSpec, kv compute.KVCache, layer int, batch *compute.Batch) {
	t := &b.attn
	t.b, t.dst, t.qkv, t.spec, t.kv = b, dst.(*buffer), qkv.(*buffer), spec, kv.(*kvCache)
	t.layer, t.batch, t.group = layer, batch, spec.NumHeads/max(spec.NumKVHeads, 1)
	checkAttention(t.qkv, spec, t.kv, layer)
	if t.dst.cols != spec.NumHeads*spec.HeadDim {
		fail("Attention: %d columns for %+v", t.dst.cols, spec)
	}
	ns := t.plan()
	b.runSized(t, len(t.chunks)-1, ns)
}

// plan lists the panels, cuts the list into chunks and returns an estimate of
// the whole time in nanoseconds.
func (t *attentionTask) plan() (total int) {
	t.units, t.chunks = t.units[:0], append(t.chunks[:0], 0)
	blockSize, ns := t.kv.spec.BlockSize, 0
	for s := range t.batch.Seqs {
		seq := &t.batch.Seqs[s]
		if !(seq.QueryStart >= 0 && seq.QueryLen >= 0 && seq.QueryLen <= seq.ContextLen &&
			seq.QueryStart+seq.QueryLen <= min(t.dst.rows, t.qkv.rows) &&
			len(seq.BlockTable)*blockSize >= seq.ContextLen) {
			fail("Attention: rows %d+%d, context %d, %d blocks", seq.QueryStart, seq.QueryLen, seq.ContextLen, len(seq.BlockTable))
		}
		panels := newSplit(seq.QueryLen*t.group, t.b.tier.MaxCols())
		for head := range t.spec.NumKVHeads {
			for p := range panels.panels {
				from, to := panels.bounds(p)
				t.units = append(t.units, attentionUnit{seq: s, head: head, from: from, to: to})
				// Each score costs two products of a head and an exponential.
				ns += 100 + (to-from)*seq.ContextLen*(2*t.spec.HeadDim+16)/32
				if ns >= 2*chunkNs {
					t.chunks = append(t.chunks, len(t.units))
					total, ns = total+ns, 0
				}
			}
		}
	}
	if t.chunks[len(t.chunks)-1] < len(t.units) {
		t.chunks = append(t.chunks, len(t.units))
	}
	return total + ns
}

// run implements task.
func (t *attentionTask) run(chunk, index int) {
	for _, u := range t.units[t.chunks[chunk]:t.chunks[chunk+1]] {
		p := panel{attentionTask: t, unit: u, seq: &t.batch.Seqs[u.seq], ws: &t.b.worker[index]}
		p.compute()
	}
}

// panel is the state of one unit while it is computed.
type panel struct {
	*attentionTask
	unit   attentionUnit
	seq    *compute.BatchSeq
	ws     *workspace
	scores []float32 // [columns, stride]
	out    []float32 // [columns, padded head_dim]
	stride int
}

// context returns how many positions column j of the panel sees.
func (p *panel) context(j int) int {
	return p.seq.ContextLen - p.seq.QueryLen + (p.unit.from+j)/p.group + 1
}

// at returns column j's row in the buffers and its offset there.
func (p *panel) at(j int) (row, offset int) {
	c := p.unit.from + j
	head := p.unit.head*p.group + c%p.group
	return p.seq.QueryStart + c/p.group, head * p.spec.HeadDim
}

func (p *panel) compute() {
	n := p.unit.to - p.unit.from
	longest := p.context(n - 1)
	// Room for a whole tile after the last position: products write whole tiles.
	p.stride = roundUp(longest, kernels.TileRows) + kernels.TileRows
	p.scores = p.ws.scores.floats(n * p.stride)
	p.score(p.packQueries(n), n, longest)
	padded := p.kv.valueTiles * kernels.TileRows
	p.out = p.ws.out.floats(n * padded)
	clear(p.out)
	var scale [widest]float32
	for j := range n {
		scale[j] = p.softmax(j)
	}
	p.mix(n, longest)
	for j := range n {
		row, offset := p.at(j)
		dst := p.dst.row(row)[offset:][:p.spec.HeadDim]
		out := p.out[j*padded:][:len(dst)]
		for d := range dst {
			dst[d] = out[d] * scale[j]
		}
	}
}

// packQueries returns the panel [head_dim, n] of queries.
func (p *panel) packQueries(n int) []float32 {
	dim := p.spec.HeadDim
	if n == 1 {
		row, offset := p.at(0)
		return p.qkv.row(row)[offset:][:dim]
	}
	memory := p.ws.queries.floats(2 * n * dim)
	rows, packed := memory[:n*dim], memory[n*dim:]
	for j := range n {
		row, offset := p.at(j)
		copy(rows[j*dim:][:dim], p.qkv.row(row)[offset:])
	}
	kernels.PackPanel(p.b.tier, packed, rows, dim, n, dim)
	return packed
}

// score fills scores[j][pos] = query j · key pos for positions below longest.
// Columns that see fewer positions get scores they will not use.
func (p *panel) score(queries []float32, n, longest int) {
	g := &p.ws.gemm
	*g = kernels.Gemm{X: queries, K: p.spec.HeadDim, NR: n, W: p.kv.keysOf(p.layer, p.unit.head), Format: p.kv.format}
	if p.kv.spec.BlockSize%kernels.TileRows == 0 {
		g.Tile = p.keyTiles(longest)
		g.Tiles, g.Out, g.LDO = len(g.Tile), p.scores, p.stride
		g.Run(p.b.tier)
		return
	}
	p.scoreRuns(g, n, longest)
}

// keyTiles lists where the tiles of positions below end are, for blocks that
// are whole tiles.
func (p *panel) keyTiles(end int) []int64 {
	perBlock := p.kv.spec.BlockSize / kernels.TileRows
	tiles := p.ws.offsets[:0]
	for i := range kernels.NumTiles(end) {
		slotTile := int(p.seq.BlockTable[i/perBlock])*perBlock + i%perBlock
		tiles = append(tiles, p.kv.keyOffset(slotTile))
	}
	p.ws.offsets = tiles
	return tiles
}

// scoreRuns is score for blocks that share tiles with others: tile by tile,
// picking the lanes of the block.
func (p *panel) scoreRuns(g *kernels.Gemm, n, longest int) {
	size := p.kv.spec.BlockSize
	for pos := 0; pos < longest; {
		slot := int(p.seq.BlockTable[pos/size])*size + pos%size
		lane := slot % kernels.TileRows
		run := min(size-pos%size, kernels.TileRows-lane, longest-pos)
		p.ws.offsets = append(p.ws.offsets[:0], p.kv.keyOffset(slot/kernels.TileRows))
		g.Tile, g.Tiles, g.Out, g.LDO = p.ws.offsets, 1, p.ws.edge[:], kernels.TileRows
		g.Run(p.b.tier)
		for j := range n {
			copy(p.scores[j*p.stride+pos:][:run], p.ws.edge[j*kernels.TileRows+lane:])
		}
		pos += run
	}
}

// softmax turns row j into weights that still have to be divided by their sum,
// and returns that factor.
func (p *panel) softmax(j int) float32 {
	n := p.context(j)
	row := p.scores[j*p.stride:][:roundUp(n, kernels.TileRows)]
	for i := n; i < len(row); i++ {
		row[i] = float32(math.Inf(-1))
	}
	largest := kernels.ScaleMax(p.b.tier, row, p.spec.Scale)
	return 1 / kernels.ExpSum(p.b.tier, row, largest)
}

// mix adds the values, weighted: out[j] += Σ weight * value. The blocks that all
// columns see whole are one product. In a block that they see equally far it is
// another; where they differ, each column is one of its own. The order of the
// additions is the same.
func (p *panel) mix(n, longest int) {
	size := p.kv.spec.BlockSize
	shortest := p.context(0)
	g := &p.ws.gemm
	*g = kernels.Gemm{
		W:     p.kv.valuesOf(p.layer, p.unit.head),
		Tiles: p.kv.valueTiles, TileBytes: p.kv.valueTile, LDO: p.kv.valueTiles * kernels.TileRows,
		Format: p.kv.format, Finish: kernels.Continue,
	}
	if whole := shortest / size; whole > 0 {
		g.Segment = p.valueBlocks(0, whole)
		g.X, g.Out, g.K, g.NR = p.packWeights(0, whole*size, n), p.out, size, n
		g.Run(p.b.tier)
	}
	for start := shortest / size * size; start < longest; start += size {
		g.Segment = p.valueBlocks(start/size, 1)
		seen := min(size, longest-start)
		if seen == min(size, shortest-start) {
			g.X, g.Out, g.K, g.NR = p.packWeights(start, seen, n), p.out, seen, n
			g.Run(p.b.tier)
			continue
		}
		for j := range n {
			if k := min(size, p.context(j)-start); k > 0 {
				g.X, g.Out, g.K, g.NR = p.scores[j*p.stride+start:], p.out[j*g.LDO:], k, 1
				g.Run(p.b.tier)
			}
		}
	}
}

// valueBlocks lists where the values of n blocks of the sequence are.
func (p *panel) valueBlocks(first, n int) []int64 {
	blocks := p.ws.offsets[:0]
	for _, block := range p.seq.BlockTable[first : first+n] {
		blocks = append(blocks, p.kv.valueOffset(int(block)))
	}
	p.ws.offsets = blocks
	return blocks
}

// packWeights returns the panel [k, n] of attention weights from position start on.
func (p *panel) packWeights(start, k, n int) []float32 {
	if n == 1 {
		return p.scores[start:]
	}
	packed := p.ws.probs.floats(k * n)
	kernels.PackPanel(p.b.tier, packed, p.scores[start:], k, n, p.stride)
	return packed
}
