package cpu

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// panel is the state of one unit of attention while it is computed.
type panel struct {
	*attentionTask
	*attentionPanel
	ws      *workspace
	seq     *compute.BatchSeq
	columns [widest]column
	queries []float32 // [head_dim, columns]

	// The span at hand:
	start, end int       // positions
	scores     []float32 // [columns, stride], then the weights
	stride     int
}

// column is one query head at one position.
type column struct {
	row, offset int // of the query in qkv, and of the result in dst
	from, sees  int // it sees positions from … sees-1
}

// n is the number of columns.
func (p *panel) n() int { return p.to - p.from }

// all computes the panel whole.
func (p *panel) all() {
	p.prepare()
	memory := p.ws.out.floats(2 * p.n() * p.padded)
	sum, next := &p.ws.parts[0], &p.ws.parts[1]
	sum.out, next.out = memory[:len(memory)/2], memory[len(memory)/2:]
	first, end := p.spans(p.attentionPanel)
	p.weigh(first, sum)
	for span := first + 1; span < end; span++ {
		p.weigh(span, next)
		p.fold(sum, next, span)
	}
	p.finish(sum)
}

// one computes a span of the panel, and the rest if it was the last to be done.
func (p *panel) one(u attentionUnit, part *partial) {
	p.prepare()
	p.weigh(u.span, part)
	if p.left[u.panel].Add(-1) > 0 {
		return
	}
	first, end := p.spans(p.attentionPanel)
	parts := p.parts[p.first:][:end-first]
	for i := 1; i < len(parts); i++ {
		p.fold(&parts[0], &parts[i], first+i)
	}
	p.finish(&parts[0])
}

// locate fills in the columns.
func (p *panel) locate() {
	p.seq = &p.batch.Seqs[p.attentionPanel.seq]
	query, head := p.from/p.group, p.from%p.group
	for j := range p.n() {
		sees := p.seq.ContextLen - p.seq.QueryLen + query + 1
		p.columns[j] = column{
			row: p.seq.QueryStart + query, offset: (p.head*p.group + head) * p.spec.HeadDim,
			from: p.windowStart(sees), sees: sees,
		}
		if head++; head == p.group {
			query, head = query+1, 0
		}
	}
}

// prepare packs the queries.
func (p *panel) prepare() {
	p.locate()
	n, dim := p.n(), p.spec.HeadDim
	if n == 1 {
		c := &p.columns[0]
		p.queries = p.qkv.row(c.row)[c.offset:][:dim]
		return
	}
	memory := p.ws.queries.floats(2 * n * dim)
	rows, packed := memory[:n*dim], memory[n*dim:]
	for j := range n {
		c := &p.columns[j]
		copy(rows[j*dim:][:dim], p.qkv.row(c.row)[c.offset:])
	}
	kernels.PackPanel(p.b.tier, packed, rows, dim, n, dim)
	p.queries = packed
}

// finish divides by the sums of the weights and stores the columns.
func (p *panel) finish(sum *partial) {
	for j := range p.n() {
		c := &p.columns[j]
		dst := p.dst.row(c.row)[c.offset:][:p.spec.HeadDim]
		kernels.Scale(p.b.tier, dst, sum.out[j*p.padded:][:len(dst)], 1/sum.total[j])
	}
}

// weigh computes one span's part of every column that sees any of it.
func (p *panel) weigh(span int, part *partial) {
	p.start = span * p.span
	p.end = min(p.start+p.span, p.columns[p.n()-1].sees)
	// A tile apart, so that rows do not fall on the same places of the cache.
	p.stride = roundUp(p.end-p.start, kernels.TileRows) + kernels.TileRows
	p.scores = p.ws.scores.floats(p.n() * p.stride)
	p.score()
	for j := p.firstSeeing(p.start); j < p.n(); j++ {
		part.largest[j], part.total[j] = p.softmax(j)
	}
	clear(part.out)
	p.mix(part.out)
}

// firstSeeing returns the first column that sees position pos; those after it
// do, too.
func (p *panel) firstSeeing(pos int) int {
	j := 0
	for p.columns[j].sees <= pos {
		j++
	}
	return j
}

// score fills scores[j][i] = query j · key start+i. Columns that see fewer
// positions get scores they will not use.
func (p *panel) score() {
	g := &p.ws.gemm
	*g = kernels.Gemm{X: p.queries, K: p.spec.HeadDim, NR: p.n(), W: p.kv.keysOf(p.layer, p.head), Format: p.kv.format}
	if p.kv.spec.BlockSize%kernels.TileRows == 0 {
		g.Tile = p.keyTiles()
		g.Tiles, g.Out, g.LDO = len(g.Tile), p.scores, p.stride
		g.Run(p.b.tier)
		return
	}
	p.scoreRuns(g)
}

// keyTiles lists where the span's keys are, for blocks that are whole tiles.
func (p *panel) keyTiles() []int64 {
	perBlock := p.kv.spec.BlockSize / kernels.TileRows
	tiles := p.ws.offsets[:0]
	for i := p.start / kernels.TileRows; i < kernels.NumTiles(p.end); i++ {
		slotTile := int(p.seq.BlockTable[i/perBlock])*perBlock + i%perBlock
		tiles = append(tiles, p.kv.keyOffset(slotTile))
	}
	p.ws.offsets = tiles
	return tiles
}

// scoreRuns is score for blocks that share tiles with others: tile by tile,
// picking the lanes of the block.
func (p *panel) scoreRuns(g *kernels.Gemm) {
	size := p.kv.spec.BlockSize
	for pos := p.start; pos < p.end; {
		slot := int(p.seq.BlockTable[pos/size])*size + pos%size
		lane := slot % kernels.TileRows
		run := min(size-pos%size, kernels.TileRows-lane, p.end-pos)
		p.ws.offsets = append(p.ws.offsets[:0], p.kv.keyOffset(slot/kernels.TileRows))
		g.Tile, g.Tiles, g.Out, g.LDO = p.ws.offsets, 1, p.ws.edge[:], kernels.TileRows
		g.Run(p.b.tier)
		for j := range p.n() {
			copy(p.scores[j*p.stride+pos-p.start:][:run], p.ws.edge[j*kernels.TileRows+lane:])
		}
		pos += run
	}
}

// softmax turns row j's scores of the positions that column j sees into weights
// that still have to be divided by their total, relative to the largest score.
// Positions before its window weigh 0. One that sees nothing of the span gets a
// part that fold passes over.
func (p *panel) softmax(j int) (largest, total float32) {
	c, lowest := &p.columns[j], float32(math.Inf(-1))
	n := min(c.sees, p.end) - p.start
	row := p.scores[j*p.stride:][:roundUp(n, kernels.TileRows)]
	if c.from >= p.end {
		clear(row)
		return lowest, 0
	}
	scale := p.spec.Scale
	if p.spec.SoftCap > 0 {
		kernels.SoftCap(p.b.tier, row, scale, p.spec.SoftCap)
		scale = 1
	}
	fill(row[n:], lowest)
	fill(row[:max(c.from-p.start, 0)], lowest)
	largest = kernels.ScaleMax(p.b.tier, row, scale)
	return largest, kernels.ExpSum(p.b.tier, row, largest)
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// mix adds the span's values, weighted: out[j] += Σ weight * value. What all
// columns see is one product for the whole blocks and one for the rest; after
// that the columns of each query, which see equally far, have products of their
// own. The order of the additions is the same.
func (p *panel) mix(out []float32) {
	p.ws.gemm = kernels.Gemm{
		W:     p.kv.valuesOf(p.layer, p.head),
		Tiles: p.kv.valueTiles, TileBytes: p.kv.valueTile, LDO: p.padded,
		Format: p.kv.format, Finish: kernels.Continue,
	}
	n, size, pos := p.n(), p.kv.spec.BlockSize, p.start
	first := p.firstSeeing(p.start)
	if first == 0 {
		all := min(p.columns[0].sees, p.end)
		if blocks := (all - pos) / size; blocks > 0 {
			p.ws.gemm.Segment, p.ws.gemm.K = p.valueBlocks(pos/size, blocks), size
			p.product(out, 0, n, pos, blocks*size)
			pos += blocks * size
		}
		if all < p.end {
			all -= (all - pos) % 2 // within a block, tiles of halves hold columns in pairs
		}
		p.mixPieces(out, 0, n, pos, all)
		pos = all
	}
	for from := first; from < n && pos < p.end; {
		to := from + 1
		for to < n && p.columns[to].row == p.columns[from].row {
			to++
		}
		p.mixPieces(out, from, to, pos, min(p.columns[from].sees, p.end))
		from = to
	}
}

// mixPieces adds the values of positions pos … end-1, block by block, to columns
// from … to-1.
func (p *panel) mixPieces(out []float32, from, to, pos, end int) {
	size := p.kv.spec.BlockSize
	for pos < end {
		offset := pos % size
		k := min(size-offset, end-pos)
		p.ws.gemm.Segment, p.ws.gemm.K = p.valueBlocks(pos/size, 1), k
		p.ws.gemm.Segment[0] += int64(kernels.ElemOffset(p.kv.format, offset, 0))
		p.product(out, from, to, pos, k)
		pos += k
	}
}

// product runs the prepared product over k positions from pos on for columns
// from … to-1.
func (p *panel) product(out []float32, from, to, pos, k int) {
	g := &p.ws.gemm
	g.X, g.Out, g.NR = p.packWeights(from, to, pos, k), out[from*p.padded:], to-from
	g.Run(p.b.tier)
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

// packWeights returns the panel [k, to-from] of weights of positions from pos on.
func (p *panel) packWeights(from, to, pos, k int) []float32 {
	weights := p.scores[from*p.stride+pos-p.start:]
	if to-from == 1 {
		return weights
	}
	packed := p.ws.probs.floats(k * (to - from))
	kernels.PackPanel(p.b.tier, packed, weights, k, to-from, p.stride)
	return packed
}
