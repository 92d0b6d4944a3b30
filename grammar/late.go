package grammar

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// late is work that a step cannot wait for.
type late struct {
	count int           // tokens accepted at its end
	done  chan struct{} // closed when the rest is valid
	mask  []uint64
	err   error
}

// Next implements [infer.Matcher].
func (m *Matcher) Next(output []int32, dst []uint64, b *infer.MaskBudget) (ok bool, err error) {
	if l := m.late; l != nil {
		select {
		case <-l.done:
		default:
			return false, nil
		}
		if m.late = nil; l.err != nil {
			return true, l.err
		}
		if m.count == len(output) && dst != nil {
			clear(dst[copy(dst, l.mask):])
			return true, nil
		}
	}
	ok, err = m.within(output, dst, b)
	if !ok && err == nil && b.Late != nil {
		m.goOn(output, b.Late)
	}
	return ok, err
}

// within does what Next does, if the budget suffices.
func (m *Matcher) within(output []int32, dst []uint64, b *infer.MaskBudget) (ok bool, err error) {
	if extra := m.count - len(output); extra > 0 {
		m.Rollback(extra)
	}
	for m.count < len(output) {
		work, err := m.accept(output[m.count], b.Steps)
		if b.Steps -= work; b.Steps < 0 || err != nil {
			return false, err
		}
	}
	if dst != nil {
		b.Steps -= m.mask(dst, b.Steps)
	}
	return b.Steps >= 0, nil
}

// goOn finds the mask after output on a goroutine of its own, which has the matcher
// until it is done. It waits for a lane: the work of each is bounded, and so each gets
// one.
func (m *Matcher) goOn(output []int32, tell func()) {
	rest := slices.Clone(output[m.count:])
	l := &late{count: len(output), done: make(chan struct{}), mask: make([]uint64, m.b.v.MaskWords())}
	m.late = l
	go func() {
		defer tell()
		defer close(l.done)
		defer func() {
			if r := recover(); r != nil {
				l.err = infer.Internal(fmt.Errorf("grammar: panic: %v\n%s", r, debug.Stack()))
			}
		}()
		lanes := m.b.v.lanes
		lanes <- struct{}{}
		defer func() { <-lanes }()
		for _, id := range rest {
			if l.err = m.Accept(id); l.err != nil {
				return
			}
		}
		m.Mask(l.mask)
	}()
}
