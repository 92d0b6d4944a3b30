package cpu

import (
	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// rowChunk is the number of rows in a chunk of the operations below.
const rowChunk = 8

// runRows runs t over chunks of rowChunk rows; ns is an estimate for all rows.
func (b *Backend) runRows(t task, rows, ns int) {
	b.runSized(t, (rows+rowChunk-1)/rowChunk, ns)
}

// Embed implements compute.Backend.
func (b *Backend) Embed(dst compute.Buffer, table compute.Matrix, ids []int32) {
	d, m := dst.(*buffer), table.(*matrix)
	if !(d.cols == m.cols && len(ids) <= d.rows) {
		fail("Embed: %d rows of [%d, %d] from %d columns", len(ids), d.rows, d.cols, m.cols)
	}
	for i, id := range ids {
		if !(id >= 0 && int(id) < m.rows) {
			fail("Embed: token %d of %d", id, m.rows)
		}
		m.load(d.row(i), int(id))
	}
}

// Gather implements compute.Backend.
func (b *Backend) Gather(dst, src compute.Buffer, rows []int32) {
	d, s := dst.(*buffer), src.(*buffer)
	if !(d.cols == s.cols && len(rows) <= d.rows) {
		fail("Gather: %d rows of %d columns to [%d, %d]", len(rows), s.cols, d.rows, d.cols)
	}
	for i, r := range rows {
		if !(r >= 0 && int(r) < s.rows) {
			fail("Gather: row %d of %d", r, s.rows)
		}
		copy(d.row(i), s.row(int(r)))
	}
}

// normTask normalises rows.
type normTask struct {
	tier     kernels.Tier
	dst, src *buffer
	w        []float32
	eps      float32
	rows     int
}

// RMSNorm implements compute.Backend.
func (b *Backend) RMSNorm(dst, src compute.Buffer, w compute.Vector, eps float32, rows int) {
	t := &b.norm
	*t = normTask{tier: b.tier, dst: dst.(*buffer), src: src.(*buffer), w: w.(*vector).data, eps: eps, rows: rows}
	if !(t.dst.cols == len(t.w) && t.src.cols == len(t.w)) {
		fail("RMSNorm: weight of %d for columns %d, %d", len(t.w), t.dst.cols, t.src.cols)
	}
	if !(rows >= 0 && rows <= t.dst.rows && rows <= t.src.rows) {
		fail("RMSNorm: %d rows of %d, %d", rows, t.dst.rows, t.src.rows)
	}
	b.runRows(t, rows, rows*len(t.w)/5)
}

// run implements task.
func (t *normTask) run(chunk, _ int) {
	for i := chunk * rowChunk; i < min((chunk+1)*rowChunk, t.rows); i++ {
		normRow(t.tier, t.dst.row(i), t.src.row(i), t.w, t.eps)
	}
}

// gateTask gates rows.
type gateTask struct {
	tier        kernels.Tier
	gate        func(t kernels.Tier, dst, gate, up []float32)
	dst, gateUp *buffer
	rows        int
}

// SiluMul implements compute.Backend.
func (b *Backend) SiluMul(dst, gateUp compute.Buffer, rows int) {
	b.gateMul(kernels.SiluMul, dst.(*buffer), gateUp.(*buffer), rows)
}

// GeluMul implements compute.Backend.
func (b *Backend) GeluMul(dst, gateUp compute.Buffer, rows int) {
	b.gateMul(kernels.GeluMul, dst.(*buffer), gateUp.(*buffer), rows)
}

func (b *Backend) gateMul(gate func(t kernels.Tier, dst, gate, up []float32), dst, gateUp *buffer, rows int) {
	t := &b.gate
	*t = gateTask{tier: b.tier, gate: gate, dst: dst, gateUp: gateUp, rows: rows}
	if t.gateUp.cols != 2*t.dst.cols {
		fail("gating: columns %d of %d", t.dst.cols, t.gateUp.cols)
	}
	if !(rows >= 0 && rows <= t.dst.rows && rows <= t.gateUp.rows) {
		fail("gating: %d rows of %d, %d", rows, t.dst.rows, t.gateUp.rows)
	}
	b.runRows(t, rows, rows*t.dst.cols/2)
}

// run implements task.
func (t *gateTask) run(chunk, _ int) {
	n := t.dst.cols
	for i := chunk * rowChunk; i < min((chunk+1)*rowChunk, t.rows); i++ {
		row := t.gateUp.row(i)
		t.gate(t.tier, t.dst.row(i), row[:n], row[n:])
	}
}
