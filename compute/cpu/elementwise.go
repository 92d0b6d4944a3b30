package cpu

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// elementTask is one of the small operations that change rows in place.
type elementTask struct {
	b    *Backend
	op   func(t *elementTask, row []float32, i, worker int)
	dst  *buffer
	src  *buffer   // of the operations that have one
	w    []float32 // a weight
	keys []float32 // that of the keys, if w is that of the queries
	x    float32   // a factor, a limit or an epsilon
	spec compute.AttentionSpec
	rows int
}

// run implements task.
func (t *elementTask) run(chunk, worker int) {
	for i := chunk * rowChunk; i < min((chunk+1)*rowChunk, t.rows); i++ {
		t.op(t, t.dst.row(i), i, worker)
	}
}

// runElements runs t, whose operation takes a nanosecond for so many elements.
func (b *Backend) runElements(t elementTask, perNs int) {
	if !(t.rows >= 0 && t.rows <= t.dst.rows) {
		fail("%d rows of %d", t.rows, t.dst.rows)
	}
	b.element = t
	b.element.b = b
	b.runRows(&b.element, t.rows, t.rows*t.dst.cols/perNs)
}

// Scale implements compute.Backend.
func (b *Backend) Scale(dst compute.Buffer, factor float32, rows int) {
	b.runElements(elementTask{op: scaleRow, dst: dst.(*buffer), x: factor, rows: rows}, 8)
}

func scaleRow(t *elementTask, row []float32, _, _ int) { kernels.Scale(t.b.tier, row, row, t.x) }

// SoftCap implements compute.Backend.
func (b *Backend) SoftCap(dst compute.Buffer, limit float32, rows int) {
	if !(limit > 0) {
		fail("SoftCap: limit %v", limit)
	}
	b.runElements(elementTask{op: softCapRow, dst: dst.(*buffer), x: limit, rows: rows}, 2)
}

func softCapRow(t *elementTask, row []float32, _, _ int) { kernels.SoftCap(t.b.tier, row, 1, t.x) }

// AddBias implements compute.Backend.
func (b *Backend) AddBias(dst compute.Buffer, bias compute.Vector, rows int) {
	t := elementTask{op: addRow, dst: dst.(*buffer), w: bias.(*vector).data, rows: rows}
	if len(t.w) != t.dst.cols {
		fail("AddBias: %d elements for %d columns", len(t.w), t.dst.cols)
	}
	b.runElements(t, 8)
}

func addRow(t *elementTask, row []float32, _, _ int) { kernels.Blend(t.b.tier, row, t.w, 1, 1) }

// RMSNormAdd implements compute.Backend.
func (b *Backend) RMSNormAdd(dst, src compute.Buffer, w compute.Vector, eps float32, rows int) {
	t := elementTask{op: normAddRow, dst: dst.(*buffer), src: src.(*buffer), w: w.(*vector).data, x: eps, rows: rows}
	if !(t.dst.cols == len(t.w) && t.src.cols == len(t.w) && rows <= t.src.rows) {
		fail("RMSNormAdd: weight of %d, %d rows for [%d, %d] of columns %d", len(t.w), rows, t.src.rows, t.src.cols, t.dst.cols)
	}
	b.runElements(t, 4)
}

func normAddRow(t *elementTask, row []float32, i, worker int) {
	normed := t.b.worker[worker].out.floats(len(row))
	normRow(t.b.tier, normed, t.src.row(i), t.w, t.x)
	kernels.Blend(t.b.tier, row, normed, 1, 1)
}

// HeadNorm implements compute.Backend.
func (b *Backend) HeadNorm(qkv compute.Buffer, spec compute.AttentionSpec, query, key compute.Vector, eps float32, rows int) {
	t := elementTask{op: headNormRow, dst: qkv.(*buffer), w: query.(*vector).data, keys: key.(*vector).data, x: eps, spec: spec, rows: rows}
	if !(len(t.w) == spec.HeadDim && len(t.keys) == spec.HeadDim && t.dst.cols == (spec.NumHeads+2*spec.NumKVHeads)*spec.HeadDim) {
		fail("HeadNorm: weights of %d and %d for %+v in %d columns", len(t.w), len(t.keys), spec, t.dst.cols)
	}
	b.runElements(t, 4)
}

func headNormRow(t *elementTask, row []float32, _, _ int) {
	dim := t.spec.HeadDim
	for h := range t.spec.NumHeads + t.spec.NumKVHeads {
		w := t.w
		if h >= t.spec.NumHeads {
			w = t.keys
		}
		head := row[h*dim:][:dim]
		normRow(t.b.tier, head, head, w, t.x)
	}
}

// normRow sets dst = x / rms(x) * w.
func normRow(tier kernels.Tier, dst, x, w []float32, eps float32) {
	mean := float64(kernels.SumSquares(tier, x)) / float64(len(x))
	kernels.ScaleMul(tier, dst, x, w, float32(1/math.Sqrt(mean+float64(eps))))
}
