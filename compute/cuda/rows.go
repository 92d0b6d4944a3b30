package cuda

import (
	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// maxThreads is what kernels that work row by row have in a block at most. How many there
// are follows from the row's length, so that sums are in the same order for every row.
const maxThreads = 256

// perRow is a block for each of rows rows of cols elements.
func perRow(rows, cols int) kernels.Grid {
	return kernels.Grid{X: rows, Y: 1, Z: 1, Threads: min(ceil(cols, 32)*32, maxThreads)}
}

func checkRows(op string, rows int, buffers ...*buffer) {
	for _, f := range buffers {
		if !(rows >= 0 && rows <= f.rows) {
			fail("%s: %d rows of %d", op, rows, f.rows)
		}
	}
}

// Embed implements compute.Backend.
func (b *Backend) Embed(dst compute.Buffer, table compute.Matrix, ids []int32) {
	d, m := dst.(*buffer), table.(*matrix)
	if !(d.cols == m.cols && len(ids) <= d.rows) {
		fail("Embed: %d rows of [%d, %d] from %d columns", len(ids), d.rows, d.cols, m.cols)
	}
	p := kernels.Embed{Dst: d.p, Ids: b.writeIDs("Embed", ids, m.rows), Cols: m.cols, Units: m.units()}
	for _, w := range m.bands {
		p.W, p.Scales, p.First, p.N = w.data, w.scales, w.first, w.rows
		b.queue.Embed(w.kernels().embed, perRow(len(ids), m.cols), &p)
	}
}

// writeIDs brings numbers of rows, of which there are n, to the device.
func (b *Backend) writeIDs(op string, ids []int32, n int) Ptr {
	for _, id := range ids {
		if !(id >= 0 && int(id) < n) {
			fail("%s: row %d of %d", op, id, n)
		}
	}
	p := b.ids.grow(int64(4 * max(len(ids), b.maxRows)))
	write(b, p, ids)
	return p
}

// Gather implements compute.Backend.
func (b *Backend) Gather(dst, src compute.Buffer, rows []int32) {
	d, s := dst.(*buffer), src.(*buffer)
	if !(d.cols == s.cols && len(rows) <= d.rows) {
		fail("Gather: %d rows of [%d, %d] from %d columns", len(rows), d.rows, d.cols, s.cols)
	}
	p := kernels.Gather{Dst: d.p, Src: s.p, Ids: b.writeIDs("Gather", rows, s.rows), N: d.cols}
	b.queue.Gather(kernels.KernelGather, perRow(len(rows), d.cols), &p)
}

// RMSNorm implements compute.Backend.
func (b *Backend) RMSNorm(dst, src compute.Buffer, w compute.Vector, eps float32, rows int) {
	d, s, v := normed("RMSNorm", dst, src, w, rows)
	b.queue.RmsNorm(kernels.KernelRmsNorm, perRow(rows, d.cols), &kernels.RmsNorm{
		Dst: d.p, X: s.p, W: v.p, N: d.cols, Inv: 1 / float32(d.cols), Eps: eps})
}

// RMSNormAdd implements compute.Backend.
func (b *Backend) RMSNormAdd(dst, src compute.Buffer, w compute.Vector, eps float32, rows int) {
	d, s, v := normed("RMSNormAdd", dst, src, w, rows)
	b.queue.RmsNormAdd(kernels.KernelRmsNormAdd, perRow(rows, d.cols), &kernels.RmsNormAdd{
		Dst: d.p, X: s.p, W: v.p, N: d.cols, Inv: 1 / float32(d.cols), Eps: eps})
}

func normed(op string, dst, src compute.Buffer, w compute.Vector, rows int) (d, s *buffer, v *vectorOf) {
	d, s, v = dst.(*buffer), src.(*buffer), w.(*vectorOf)
	checkRows(op, rows, d, s)
	if !(d.cols == s.cols && v.n == s.cols) {
		fail("%s: %d columns from %d by %d weights", op, d.cols, s.cols, v.n)
	}
	return d, s, v
}

// HeadNorm implements compute.Backend.
func (b *Backend) HeadNorm(qkv compute.Buffer, spec compute.AttentionSpec, query, key compute.Vector, eps float32, rows int) {
	f, q, k := qkv.(*buffer), query.(*vectorOf), key.(*vectorOf)
	checkRows("HeadNorm", rows, f)
	if !(f.cols == (spec.NumHeads+2*spec.NumKVHeads)*spec.HeadDim && q.n == spec.HeadDim && k.n == spec.HeadDim) {
		fail("HeadNorm: %+v of %d columns by %d and %d weights", spec, f.cols, q.n, k.n)
	}
	b.queue.HeadNorm(kernels.KernelHeadNorm, kernels.Grid{X: rows, Y: 1, Z: 1, Threads: 128}, &kernels.HeadNorm{
		Qkv: f.p, Wq: q.p, Wk: k.p, Stride: f.cols, Heads: spec.NumHeads, KvHeads: spec.NumKVHeads, Dim: spec.HeadDim,
		Inv: 1 / float32(spec.HeadDim), Eps: eps})
}

// AddBias implements compute.Backend.
func (b *Backend) AddBias(dst compute.Buffer, bias compute.Vector, rows int) {
	d, v := dst.(*buffer), bias.(*vectorOf)
	checkRows("AddBias", rows, d)
	if d.cols != v.n {
		fail("AddBias: %d elements to %d columns", v.n, d.cols)
	}
	b.queue.AddBias(kernels.KernelAddBias, perRow(rows, d.cols), &kernels.AddBias{Dst: d.p, Bias: v.p, N: d.cols})
}

// Scale implements compute.Backend.
func (b *Backend) Scale(dst compute.Buffer, factor float32, rows int) {
	d := dst.(*buffer)
	checkRows("Scale", rows, d)
	b.queue.ScaleRows(kernels.KernelScaleRows, perRow(rows, d.cols), &kernels.ScaleRows{Dst: d.p, N: d.cols, Factor: factor})
}

// SoftCap implements compute.Backend.
func (b *Backend) SoftCap(dst compute.Buffer, limit float32, rows int) {
	d := dst.(*buffer)
	checkRows("SoftCap", rows, d)
	b.queue.SoftCap(kernels.KernelSoftCap, perRow(rows, d.cols), &kernels.SoftCap{Dst: d.p, N: d.cols, Limit: limit, Inv: 1 / limit})
}

// SiluMul implements compute.Backend.
func (b *Backend) SiluMul(dst, gateUp compute.Buffer, rows int) {
	d, s := gated("SiluMul", dst, gateUp, rows)
	b.queue.SiluMul(kernels.KernelSiluMul, perRow(rows, d.cols), &kernels.SiluMul{Dst: d.p, Src: s.p, Rows: rows, N: d.cols})
}

// GeluMul implements compute.Backend.
func (b *Backend) GeluMul(dst, gateUp compute.Buffer, rows int) {
	d, s := gated("GeluMul", dst, gateUp, rows)
	b.queue.GeluMul(kernels.KernelGeluMul, perRow(rows, d.cols), &kernels.GeluMul{Dst: d.p, Src: s.p, Rows: rows, N: d.cols})
}

func gated(op string, dst, gateUp compute.Buffer, rows int) (d, s *buffer) {
	d, s = dst.(*buffer), gateUp.(*buffer)
	checkRows(op, rows, d, s)
	if s.cols != 2*d.cols {
		fail("%s: %d columns from %d", op, d.cols, s.cols)
	}
	return d, s
}
