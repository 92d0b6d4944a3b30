package model

import (
	"errors"
	"fmt"

	"github.com/troupe-llm/troupe/infer"
)

// Work that masks may take within a step, in steps of matchers: stepWork for all rows
// together, and rowWork for each row whatever the others took. Most masks take a few
// hundred. What needs more is computed beside the steps, and its sequence sits them
// out: nobody waits for the grammar of somebody else.
const (
	stepWork = 16_000
	rowWork  = 2_000
)

// guide masks what a grammar does not allow. Its memory is reused for one row
// after another.
type guide struct {
	mask   []uint64
	left   int // of stepWork
	budget infer.MaskBudget
	late   chan struct{} // gets a value when a late mask is there; nil = none is ever late
}

// newGuide returns one that lets masks be late.
func newGuide() guide {
	late := make(chan struct{}, 1)
	return guide{late: late, budget: infer.MaskBudget{Late: func() {
		select {
		case late <- struct{}{}:
		default:
		}
	}}}
}

// begin starts a step.
func (g *guide) begin() { g.left = stepWork }

// allowed brings a sequence's matcher to the end of output and returns the tokens
// that may follow, nil if there is no matcher. It is not ok if that takes too long.
func (g *guide) allowed(m infer.Matcher, output []int32, vocabSize int) (mask []uint64, ok bool, err error) {
	if m == nil {
		return nil, true, nil
	}
	if words := (vocabSize + 63) / 64; len(g.mask) != words {
		g.mask = make([]uint64, words)
	}
	ok, err = g.next(m, output, g.mask)
	return g.mask, ok, err
}

// next is [infer.Matcher.Next] within what is left of the step's work.
func (g *guide) next(m infer.Matcher, output []int32, dst []uint64) (ok bool, err error) {
	most := max(g.left, rowWork)
	g.budget.Steps = most
	ok, err = m.Next(output, dst, &g.budget)
	g.left = max(0, g.left-(most-g.budget.Steps))
	if err == nil {
		return ok, nil
	}
	if e, isOurs := errors.AsType[*infer.Error](err); isOurs {
		return ok, e // the client's: a grammar too ambiguous to follow
	}
	return ok, infer.Internal(fmt.Errorf("model: the output has left its grammar: %w", err))
}

// trim returns how many of the proposals, the tokens of text from numOutput on, come
// before the first that the sequence's grammar does not allow, or not soon enough.
// The matcher is left at the end of the output. No mask may be late.
func (g *guide) trim(m infer.Matcher, text []int32, numOutput int) int {
	if m == nil {
		return len(text) - numOutput
	}
	end := numOutput
	for end < len(text) {
		if ok, err := g.next(m, text[:end+1], nil); !ok || err != nil {
			break
		}
		end++
	}
	if ahead := m.NumAccepted() - numOutput; ahead > 0 {
		m.Rollback(ahead)
	}
	return end - numOutput
}
