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

	// What the thread computes next, or nil:
	next     *attentionPanel
	nextSpan int

	// The span at hand:
	start, end int       // positions
	scores     []float32 // [columns, ScoreStride], then the weights
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
	p.weigh(p.firstSpan, sum)
	for span := p.firstSpan + 1; span < p.lastSpan; span++ {
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
	parts := p.parts[p.first:][:p.lastSpan-p.firstSpan]
	for i := 1; i < len(parts); i++ {
		p.fold(&parts[0], &parts[i], p.firstSpan+i)
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
	p.start = span * spanPositions
	p.end = min(p.start+spanPositions, p.columns[p.n()-1].sees)
	p.scores = p.ws.scores.floats(p.n() * kernels.ScoreStride)
	first := p.firstSeeing(p.start)
	if p.kv.pieces() {
		p.listPieces(span)
	} else {
		p.gather()
	}
	p.score()
	p.softmax(part, first)
	p.mix(part.out, first)
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
	a := &p.ws.attend
	a.Pieces, a.X, a.Out, a.Dim = p.ws.offsets, p.queries, p.scores, p.spec.HeadDim
	a.NR, a.Positions, a.Format = p.n(), p.end-p.start, p.kv.format
	a.Scores(p.b.tier)
}

// softmax turns the scores of the positions that each column sees into weights
// that still have to be divided by their total, relative to the largest score;
// columns before first see nothing of the span.
// Positions before its window weigh 0. A column whose window starts after the span
// gets a part that fold passes over.
func (p *panel) softmax(part *partial, first int) {
	n, width, lowest := p.n(), roundUp(p.end-p.start, kernels.TileRows), float32(math.Inf(-1))
	last, scale := first, p.spec.Scale*math.Log2E
	for ; last < n && p.columns[last].from < p.end; last++ {
		c := &p.columns[last]
		row := p.scores[last*kernels.ScoreStride:][:width]
		if p.kv.units != nil {
			kernels.ScaleMul(p.b.tier, row, row, p.ws.units.keys[:width], 1)
		}
		if p.spec.SoftCap > 0 {
			kernels.SoftCap(p.b.tier, row, p.spec.Scale, p.spec.SoftCap)
		}
		fill(row[min(c.sees, p.end)-p.start:], lowest)
		fill(row[:max(c.from-p.start, 0)], lowest)
	}
	if p.spec.SoftCap > 0 {
		scale = math.Log2E
	}
	kernels.Softmax(p.b.tier, p.scores[first*kernels.ScoreStride:], last-first, kernels.ScoreStride, width, scale, part.largest[first:], part.total[first:])
	if p.kv.units != nil {
		p.countValues(first, last)
	}
	for j := last; j < n; j++ {
		clear(p.scores[j*kernels.ScoreStride:][:width])
		part.largest[j], part.total[j] = lowest, 0
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// countValues multiplies the weights of columns first … last-1 by the units that
// values count, for what each column sees: the unit of a position that it does not
// see may be a NaN, and its weight is to stay zero.
func (p *panel) countValues(first, last int) {
	for j := first; j < last; j++ {
		from, to := p.seen(j)
		row := p.scores[j*kernels.ScoreStride:][from:to]
		kernels.ScaleMul(p.b.tier, row, row, p.ws.units.values[from:to], 1)
	}
}

// seen returns the positions of the span that column j sees, from … to-1, counted
// from the span's first.
func (p *panel) seen(j int) (from, to int) {
	c := &p.columns[j]
	return max(c.from-p.start, 0), min(c.sees, p.end) - p.start
}

// mix sets out[j] = Σ weight * value for columns from first on, the first that sees
// any of the span. Those that see less of it than others have weights of zero for
// the rest, and times zero finite values count for nothing, as the values of this
// step's later positions are already stored. Values that are not finite would: the
// columns that a NaN or an infinity came to in that way are computed again without
// what they do not see.
func (p *panel) mix(out []float32, first int) {
	a := &p.ws.attend
	a.Pieces = p.ws.offsets[kernels.NumTiles(p.end-p.start):]
	a.X, a.Out, a.NR, a.LDO = p.scores[first*kernels.ScoreStride:], out[first*p.padded:], p.n()-first, p.padded
	a.Values(p.b.tier)
	for j := first; j < p.n(); j++ {
		from, to := p.seen(j)
		row := out[j*p.padded:][:p.padded]
		if from >= to || from == 0 && to == p.end-p.start || kernels.SumSquares(p.b.tier, row) <= math.MaxFloat32 {
			continue
		}
		a.X, a.Out, a.NR, a.Positions = p.scores[j*kernels.ScoreStride:], row, 1, to
		a.ValuesFrom(p.b.tier, from)
	}
}
