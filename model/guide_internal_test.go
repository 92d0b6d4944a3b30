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

func (refusing) NumAccepted() int     { return 0 }
func (r refusing) Accept(int32) error { return r.err }

// What a matcher says to the client reaches it; all else is the server's own.
func TestErrorsOfMatchers(t *testing.T) {
	var g guide
	mine := infer.Errorf(infer.CodeInvalid, "guided_grammar", "too ambiguous")
	_, err := g.allowed(refusing{err: mine}, []int32{1}, 64)
	require.Same(t, mine, infer.AsError(err))
	_, err = g.allowed(refusing{err: errors.New("token 1 is not allowed here")}, []int32{1}, 64)
	require.Equal(t, infer.CodeInternal, infer.AsError(err).Code)
}
