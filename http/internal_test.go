package http

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
)

func TestUnparsedBodiesAreBounded(t *testing.T) {
	s := &Server{}
	s.bodies.left.Store(100)
	first, err := s.grow(nil, 60)
	require.NoError(t, err)
	require.Equal(t, 60, cap(first))
	_, err = s.grow(nil, 60)
	var inferErr *infer.Error
	require.ErrorAs(t, err, &inferErr)
	require.Equal(t, infer.CodeOverloaded, inferErr.Code)
	require.Positive(t, inferErr.RetryAfter)
	s.bodies.give(cap(first))
	body, err := s.grow(nil, 60)
	require.NoError(t, err)
	body, err = s.grow(append(body, make([]byte, 60)...), 60)
	require.Error(t, err, "old and new memory count while one is copied into the other")
	s.bodies.give(cap(body))
	require.EqualValues(t, 100, s.bodies.left.Load())
}
