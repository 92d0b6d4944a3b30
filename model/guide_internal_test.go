package model

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
)

// refusing is a matcher that accepts nothing.
type refusing struct {
	infer.Matcher
	err error
}

func (r refusing) Next([]int32, []uint64, *infer.MaskBudget) (bool, error) { return false, r.err }

// What a matcher says to the client reaches it; all else is the server's own.
func TestErrorsOfMatchers(t *testing.T) {
	var g guide
	mine := infer.Errorf(infer.CodeInvalid, "guided_grammar", "too ambiguous")
	_, _, err := g.allowed(refusing{err: mine}, []int32{1}, 64)
	require.Same(t, mine, infer.AsError(err))
	_, _, err = g.allowed(refusing{err: errors.New("token 1 is not allowed here")}, []int32{1}, 64)
	require.Equal(t, infer.CodeInternal, infer.AsError(err).Code)
}

// greedyMatcher takes all that it may have, and is never ready.
type greedyMatcher struct {
	infer.Matcher
	granted *int
}

func (m greedyMatcher) Next(_ []int32, _ []uint64, b *infer.MaskBudget) (bool, error) {
	*m.granted += b.Steps
	b.Steps = -1
	return false, nil
}

// However many rows want much, a step's masks take no more than it allows, and every
// row gets a chance.
func TestWorkOfAStepIsBounded(t *testing.T) {
	g := newGuide()
	for range 3 {
		granted := 0
		g.begin()
		for row := range 8 {
			before := granted
			_, ok, err := g.allowed(greedyMatcher{granted: &granted}, nil, 64)
			require.NoError(t, err)
			require.False(t, ok)
			require.GreaterOrEqual(t, granted-before, rowWork, "row %d", row)
		}
		require.LessOrEqual(t, granted, stepWork+8*rowWork)
	}
}
