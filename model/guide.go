package model

import (
	"errors"
	"fmt"

	"github.com/troupe-llm/troupe/infer"
)

// guide masks what a grammar does not allow. Its memory is reused for one row
// after another.
type guide struct{ mask []uint64 }

// allowed brings a sequence's matcher to the end of output and returns the tokens
// that may follow, nil if there is no matcher.
func (g *guide) allowed(m infer.Matcher, output []int32, vocabSize int) ([]uint64, error) {
	if m == nil {
		return nil, nil
	}
	if err := follow(m, output); err != nil {
		return nil, err
	}
	if words := (vocabSize + 63) / 64; len(g.mask) != words {
		g.mask = make([]uint64, words)
	}
	m.Mask(g.mask)
	return g.mask, nil
}

// follow brings a matcher, which has seen a beginning of output, to its end.
func follow(m infer.Matcher, output []int32) error {
	if extra := m.NumAccepted() - len(output); extra > 0 {
		m.Rollback(extra)
	}
	for _, id := range output[m.NumAccepted():] {
		if err := m.Accept(id); err != nil {
			if e, ok := errors.AsType[*infer.Error](err); ok {
				return e // the client's: a grammar too ambiguous to follow
			}
			return infer.Internal(fmt.Errorf("model: the output has left its grammar: %w", err))
		}
	}
	return nil
}

// trim returns the proposals up to the first that the sequence's grammar does not
// allow. The matcher is left at the end of output.
func trim(m infer.Matcher, output, proposed []int32) []int32 {
	if m == nil || follow(m, output) != nil {
		return proposed
	}
	for i, id := range proposed {
		if m.Accept(id) != nil {
			proposed = proposed[:i]
			break
		}
	}
	m.Rollback(len(proposed))
	return proposed
}
