package cpu

import (
	"sync/atomic"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// spanPositions is how many positions of a context are weighed against each other
// at a time: their scores stay in the first cache, and a long context is work for
// several threads.
const spanPositions = kernels.ScoreStride - kernels.TileRows

// attentionTask is causal attention of a batch. A column is one query head at
// one position; columns of one sequence and key-value head, up to the tier's
// widest number, form a panel, which reads every key and value once.
//
// A panel goes through its context span by span, each a product with the keys,
// a softmax and a product with the values, and folds the spans' results from
// first to last. With few panels each span is a unit of work of its own and
// whoever ends a panel's last unit folds; with many a panel is one unit. Spans
// and the order of folding depend on a column's context alone, so neither
// choice shows in the bits.
type attentionTask struct {
	b        *Backend
	dst, qkv *buffer
	spec     compute.AttentionSpec
	kv       *kvCache
	layer    int
	batch    *compute.Batch
	group    int // query heads per key-value head
	padded   int // head_dim rounded up to whole tiles

	panels []attentionPanel
	units  []attentionUnit
	chunks []int // chunk i is units chunks[i] … chunks[i+1]-1

	// With a unit per span:
	split  bool
	parts  []partial      // per unit
	left   []atomic.Int32 // per panel: units not yet done
	memory scratch        // of the parts
}

// attentionPanel is columns from … to-1 of a sequence and key-value head. Column
// c is head c%group of query c/group.
type attentionPanel struct {
	seq, head, from, to int
	firstSpan, lastSpan int // its columns see spans firstSpan … lastSpan-1
	first               int // its first unit; the others follow
}

// attentionUnit is one span of a panel, or all.
type attentionUnit struct{ panel, span int }

// allSpans as a unit's span.
const allSpans = -1

// Attention implements compute.Backend.
func (b *Backend) Attention(dst, qkv compute.Buffer, spec compute.AttentionSpec, kv compute.KVCache, layer int, batch *compute.Batch) {
	t := &b.attn
	t.b, t.dst, t.qkv, t.spec, t.kv = b, dst.(*buffer), qkv.(*buffer), spec, kv.(*kvCache)
	t.layer, t.batch, t.group = layer, batch, spec.NumHeads/max(spec.NumKVHeads, 1)
	checkAttention(t.qkv, spec, t.kv, layer)
	if t.dst.cols != spec.NumHeads*spec.HeadDim {
		fail("Attention: %d columns for %+v", t.dst.cols, spec)
	}
	t.padded = t.kv.valueTiles * kernels.TileRows
	t.listPanels()
	t.listUnits()
	ns := t.cut()
	b.runSized(t, len(t.chunks)-1, ns)
}

// listPanels cuts every sequence's columns into panels.
func (t *attentionTask) listPanels() {
	t.panels = t.panels[:0]
	for s := range t.batch.Seqs {
		t.checkSeq(&t.batch.Seqs[s])
		columns := newSplit(t.batch.Seqs[s].QueryLen*t.group, t.b.tier.MaxCols())
		for head := range t.spec.NumKVHeads {
			for i := range columns.panels {
				from, to := columns.bounds(i)
				p := attentionPanel{seq: s, head: head, from: from, to: to}
				p.firstSpan, p.lastSpan = t.spans(&p)
				t.panels = append(t.panels, p)
			}
		}
	}
}

func (t *attentionTask) checkSeq(seq *compute.BatchSeq) {
	if !(seq.QueryStart >= 0 && seq.QueryLen >= 0 && seq.QueryLen <= seq.ContextLen &&
		seq.QueryStart+seq.QueryLen <= min(t.dst.rows, t.qkv.rows) &&
		len(seq.BlockTable)*t.kv.spec.BlockSize >= seq.ContextLen) {
		fail("Attention: rows %d+%d, context %d, %d blocks", seq.QueryStart, seq.QueryLen, seq.ContextLen, len(seq.BlockTable))
	}
}

// context returns how many positions column c of the panel sees.
func (t *attentionTask) context(p *attentionPanel, c int) int {
	seq := &t.batch.Seqs[p.seq]
	return seq.ContextLen - seq.QueryLen + c/t.group + 1
}

// windowStart returns the first position that a column sees that sees none
// beyond the first sees.
func (t *attentionTask) windowStart(sees int) int {
	if t.spec.Window == 0 {
		return 0
	}
	return max(sees-t.spec.Window, 0)
}

// spans returns the spans that the panel's columns see any of: from … to-1.
func (t *attentionTask) spans(p *attentionPanel) (from, to int) {
	return t.windowStart(t.context(p, p.from)) / spanPositions, (t.context(p, p.to-1) + spanPositions - 1) / spanPositions
}

// listUnits decides whether spans are units, and lists the units.
func (t *attentionTask) listUnits() {
	threads := len(t.b.worker)
	t.units, t.split = t.units[:0], threads > 1 && len(t.panels) < 4*threads
	for i := range t.panels {
		p := &t.panels[i]
		p.first = len(t.units)
		if !t.split {
			t.units = append(t.units, attentionUnit{panel: i, span: allSpans})
			continue
		}
		for span := p.firstSpan; span < p.lastSpan; span++ {
			t.units = append(t.units, attentionUnit{panel: i, span: span})
		}
	}
	if t.split {
		t.makeParts()
	}
}

// makeParts prepares the results of units that are spans.
func (t *attentionTask) makeParts() {
	if len(t.left) < len(t.panels) {
		t.left = make([]atomic.Int32, 2*len(t.panels))
	}
	if cap(t.parts) < len(t.units) {
		t.parts = make([]partial, 2*len(t.units))
	}
	t.parts = t.parts[:len(t.units)]
	size := 0
	for i := range t.panels {
		p := &t.panels[i]
		size += (p.lastSpan - p.firstSpan) * (p.to - p.from) * t.padded
	}
	memory := t.memory.floats(size)
	for i, u := range t.units {
		p := &t.panels[u.panel]
		n := (p.to - p.from) * t.padded
		t.parts[i].out, memory = memory[:n:n], memory[n:]
		t.left[u.panel].Store(int32(p.lastSpan - p.firstSpan))
	}
}

// cut cuts the list of units into chunks and returns an estimate of the whole
// time in nanoseconds.
func (t *attentionTask) cut() (total int) {
	for i := range t.units {
		total += t.estimate(&t.units[i])
	}
	enough := min(max(total/(8*len(t.b.worker)), chunkNs/4), 2*chunkNs)
	t.chunks = append(t.chunks[:0], 0)
	ns := 0
	for i := range t.units {
		ns += t.estimate(&t.units[i])
		if ns >= enough || i == len(t.units)-1 {
			t.chunks = append(t.chunks, i+1)
			ns = 0
		}
	}
	return total
}

// estimate is a unit's time in nanoseconds of one thread: some 30 bytes of keys
// and values come in one, and each score costs two products of a head and an
// exponential.
func (t *attentionTask) estimate(u *attentionUnit) int {
	p := &t.panels[u.panel]
	positions := t.context(p, p.to-1)
	if u.span == allSpans {
		positions -= p.firstSpan * spanPositions
	} else {
		positions = min(positions-u.span*spanPositions, spanPositions)
	}
	dim := t.spec.HeadDim
	traffic := positions * dim * 2 * t.kv.format.Size() / 30
	return 100 + max(traffic, (p.to-p.from)*positions*(2*dim+16)/40)
}

// run implements task.
func (t *attentionTask) run(chunk, index int) {
	ws := &t.b.worker[index]
	for i := t.chunks[chunk]; i < t.chunks[chunk+1]; i++ {
		u := t.units[i]
		p := panel{attentionTask: t, attentionPanel: &t.panels[u.panel], ws: ws}
		if i+1 < t.chunks[chunk+1] {
			p.next, p.nextSpan = t.unitStart(i + 1)
		}
		if u.span == allSpans {
			p.all()
		} else {
			p.one(u, &t.parts[i])
		}
	}
}

// unitStart returns where unit i starts.
func (t *attentionTask) unitStart(i int) (p *attentionPanel, span int) {
	u := t.units[i]
	p = &t.panels[u.panel]
	if u.span == allSpans {
		return p, p.firstSpan
	}
	return p, u.span
}
