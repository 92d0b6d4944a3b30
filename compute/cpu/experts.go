package cpu

import (
	"math"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// mixture is the memory of one ExpertsAdd. The experts take turns, from first to
// last, each with all rows that are routed to it: so a row's outputs are added in
// the order of its experts, whoever else is there.
type mixture struct {
	b    *Backend
	e    *compute.Experts
	rows int

	logits, in, gateUp, act, out buffer
	memory                       [5]scratch // of the buffers

	chosen []route
	taken  []bool // per expert, of the row at hand
	load   []int  // per expert: where its rows end in order
	order  []route
}

// route is that a row goes to an expert, whose output weighs so much.
type route struct {
	row, expert int
	weight      float32
}

// ExpertsAdd implements compute.Backend.
func (b *Backend) ExpertsAdd(dst, src compute.Buffer, e *compute.Experts, rows int) {
	m, d, s := &b.mixture, dst.(*buffer), src.(*buffer)
	m.b, m.e, m.rows = b, e, rows
	m.check(d, s)
	m.shape()
	b.Linear(&m.logits, s, e.Router, rows)
	m.route()
	for from := 0; from < len(m.order); {
		to := from + 1
		for to < len(m.order) && m.order[to].expert == m.order[from].expert {
			to++
		}
		m.expert(d, s, m.order[from:to])
		from = to
	}
}

func (m *mixture) check(dst, src *buffer) {
	e := m.e
	n := e.Router.Rows()
	if !(e.PerToken > 0 && e.PerToken <= n && len(e.GateUp) == n && len(e.Down) == n) {
		fail("ExpertsAdd: %d of %d experts, %d, %d matrices", e.PerToken, n, len(e.GateUp), len(e.Down))
	}
	if !(m.rows >= 0 && m.rows <= src.rows && m.rows <= dst.rows) {
		fail("ExpertsAdd: %d rows of %d, %d", m.rows, src.rows, dst.rows)
	}
}

// shape lays the buffers out for as many rows as all.
func (m *mixture) shape() {
	e := m.e
	for i, b := range []struct {
		buffer *buffer
		cols   int
	}{
		{&m.logits, e.Router.Rows()}, {&m.in, e.Router.Cols()}, {&m.gateUp, e.GateUp[0].Rows()},
		{&m.act, e.Down[0].Cols()}, {&m.out, e.Down[0].Rows()},
	} {
		m.memory[i].mem = &m.b.mem
		*b.buffer = buffer{data: m.memory[i].floats(m.rows * b.cols), rows: m.rows, cols: b.cols}
	}
}

// route chooses every row's experts and sorts the choices by expert, those of
// one expert by row.
func (m *mixture) route() {
	n := m.e.Router.Rows()
	m.chosen = m.chosen[:0]
	for row := range m.rows {
		m.choose(row)
	}
	m.load = append(m.load[:0], make([]int, n+1)...)
	for _, r := range m.chosen {
		m.load[r.expert+1]++
	}
	for e := range n {
		m.load[e+1] += m.load[e]
	}
	m.order = append(m.order[:0], m.chosen...)
	for _, r := range m.chosen {
		m.order[m.load[r.expert]] = r
		m.load[r.expert]++
	}
}

// choose appends the experts with the largest logits, of equal ones the first,
// with their weights.
func (m *mixture) choose(row int) {
	logits, from := m.logits.row(row), len(m.chosen)
	m.taken = append(m.taken[:0], make([]bool, len(logits))...)
	for range m.e.PerToken {
		best := -1
		for i, l := range logits {
			if !m.taken[i] && (best < 0 || l > logits[best]) {
				best = i
			}
		}
		m.taken[best] = true
		m.chosen = append(m.chosen, route{row: row, expert: best})
	}
	largest, sum := float64(logits[m.chosen[from].expert]), 0.0
	for i, l := range logits {
		if m.taken[i] || !m.e.Normalize {
			sum += math.Exp(float64(l) - largest)
		}
	}
	for i := from; i < len(m.chosen); i++ {
		r := &m.chosen[i]
		r.weight = float32(math.Exp(float64(logits[r.expert])-largest) / sum)
	}
}

// expert adds one expert's outputs to its rows.
func (m *mixture) expert(dst, src *buffer, routes []route) {
	n, expert := len(routes), routes[0].expert
	for i, r := range routes {
		copy(m.in.row(i), src.row(r.row))
	}
	m.b.Linear(&m.gateUp, &m.in, m.e.GateUp[expert], n)
	m.b.SiluMul(&m.act, &m.gateUp, n)
	m.b.Linear(&m.out, &m.act, m.e.Down[expert], n)
	for i, r := range routes {
		kernels.Blend(m.b.tier, dst.row(r.row), m.out.row(i), 1, r.weight)
	}
}
