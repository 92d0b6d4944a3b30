package cuda

import (
	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// maxExperts is what the kernel that routes rows has room for.
const maxExperts = 1024

// mixture is the memory of one ExpertsAdd. The experts take turns, from first to last, each
// with all rows that are routed to it: so a row's outputs are added in the order of its
// experts, whoever else is there. How many rows an expert has is known on the device alone.
type mixture struct {
	b *Backend

	logits, gateUp, act, out scratch // of the rows
	weights, order, counts   scratch
}

func (m *mixture) init(b *Backend) {
	m.b = b
	for _, s := range []*scratch{&m.logits, &m.gateUp, &m.act, &m.out, &m.weights, &m.order, &m.counts} {
		s.b = b
	}
}

// buffer returns a buffer for as many rows as any.
func (m *mixture) buffer(s *scratch, rows, cols int) *buffer {
	rows = max(rows, m.b.maxRows)
	return &buffer{b: m.b, p: s.grow(int64(4*rows) * int64(cols)), rows: rows, cols: cols}
}

// ExpertsAdd implements compute.Backend.
func (b *Backend) ExpertsAdd(dst, src compute.Buffer, e *compute.Experts, rows int) {
	m, d, s := &b.mixture, dst.(*buffer), src.(*buffer)
	n := e.Router.Rows()
	if !(e.PerToken > 0 && e.PerToken <= n && n <= maxExperts && len(e.GateUp) == n && len(e.Down) == n && d.cols == s.cols) {
		fail("ExpertsAdd: %d of %d experts, %d, %d matrices", e.PerToken, n, len(e.GateUp), len(e.Down))
	}
	checkRows("ExpertsAdd", rows, d, s)
	if rows == 0 {
		return
	}
	m.route(s, e, rows)
	for i := range n {
		m.expert(d, s, e, expert{index: i, rows: rows})
	}
}

// route computes which rows go to which expert, and their weights.
func (m *mixture) route(src *buffer, e *compute.Experts, rows int) {
	b, n, most := m.b, e.Router.Rows(), max(rows, m.b.maxRows)
	logits := m.buffer(&m.logits, rows, n)
	b.linear(logits, src, e.Router.(*matrix), product{rows: rows})
	normalize := 0
	if e.Normalize {
		normalize = 1
	}
	weights := m.weights.grow(int64(4*most) * int64(n))
	b.queue.Route(kernels.KernelRoute, kernels.Grid{X: rows, Y: 1, Z: 1, Threads: 32}, &kernels.Route{
		Weights: weights, Logits: logits.p, Experts: n, Chosen: e.PerToken, Normalize: normalize})
	b.queue.ExpertRows(kernels.KernelExpertRows, kernels.Grid{X: n, Y: 1, Z: 1, Threads: 32}, &kernels.ExpertRows{
		Order: m.order.grow(int64(4*most) * int64(n)), Counts: m.counts.grow(int64(4 * n)), Weights: weights,
		Rows: rows, Experts: n, Stride: most})
}

// expert is one of them, and how many rows it has at most.
type expert struct{ index, rows int }

// expert adds an expert's outputs for its rows.
func (m *mixture) expert(dst, src *buffer, e *compute.Experts, x expert) {
	b, most := m.b, max(x.rows, m.b.maxRows)
	order, count := m.order.p+Ptr(4*most*x.index), m.counts.p+Ptr(4*x.index)
	gateUp, down := e.GateUp[x.index].(*matrix), e.Down[x.index].(*matrix)
	both, act, out := m.buffer(&m.gateUp, x.rows, gateUp.rows), m.buffer(&m.act, x.rows, gateUp.rows/2), m.buffer(&m.out, x.rows, down.rows)
	b.linear(both, src, gateUp, product{rows: x.rows, order: order, count: count})
	b.queue.SiluMul(kernels.KernelSiluMul, perRow(x.rows, act.cols), &kernels.SiluMul{
		Dst: act.p, Src: both.p, Count: count, Rows: x.rows, N: act.cols})
	b.linear(out, act, down, product{rows: x.rows, count: count})
	b.queue.AddExpert(kernels.KernelAddExpert, perRow(x.rows, dst.cols), &kernels.AddExpert{
		Dst: dst.p, X: out.p, Weights: m.weights.p, Order: order, Count: count,
		Experts: e.Router.Rows(), Expert: x.index, N: dst.cols})
}
