package http

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
)

func TestRequestsArePreparedFewAtATime(t *testing.T) {
	for _, size := range []int{tinyBody, smallBody, smallBody + 1} {
		g := newGate()
		require.Equal(t, 2*runtime.GOMAXPROCS(0), cap(g.small))
		lane, other, otherSize := g.large, g.small, smallBody
		switch {
		case size <= tinyBody:
			lane = g.tiny
		case size <= smallBody:
			lane, other, otherSize = g.small, g.large, smallBody+1
		}
		ctx, cancel := context.WithCancel(context.Background())
		var last *pass
		for range cap(lane) {
			var err error
			last, err = g.enter(ctx, size)
			require.NoError(t, err)
		}
		aside, err := g.enter(ctx, otherSize)
		require.NoError(t, err, "those of other sizes are not behind")
		aside.leave()
		require.Empty(t, other)

		entered := make(chan error)
		go func() {
			p, err := g.enter(context.Background(), size)
			p.leave()
			entered <- err
		}()
		last.leave()
		last.leave() // once is enough
		require.NoError(t, <-entered)

		_, err = g.enter(ctx, size)
		require.NoError(t, err)
		cancel()
		gone, err := g.enter(ctx, size)
		require.ErrorIs(t, err, context.Canceled, "who has gone does not wait")
		gone.leave()
		require.Len(t, lane, cap(lane))
	}
}

// Plain requests are not behind those with forms, of which nobody knows what they cost.
func TestSmallFormsHaveALane(t *testing.T) {
	g := newGate()
	form := &infer.Request{Structured: &infer.StructuredOutput{Regex: "a"}}
	for range cap(g.forms) {
		p, err := g.enter(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, p.reclassify(t.Context(), form))
	}
	require.Len(t, g.forms, cap(g.forms))
	require.Empty(t, g.tiny)
	p, err := g.enter(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.reclassify(t.Context(), &infer.Request{}))
	require.Len(t, g.tiny, 1)
	gone, leave := context.WithCancel(t.Context())
	leave()
	require.ErrorIs(t, p.reclassify(gone, form), context.Canceled)
	require.Empty(t, g.tiny)
}

func TestLargeFormsAreLargeRequests(t *testing.T) {
	large := string(make([]byte, smallForm+1))
	for name, r := range map[string]*infer.Request{
		"schema": {Structured: &infer.StructuredOutput{JSONSchema: json.RawMessage(large)}},
		"regex":  {Structured: &infer.StructuredOutput{Regex: large}},
		"ebnf":   {Structured: &infer.StructuredOutput{EBNF: large}},
		"choice": {Structured: &infer.StructuredOutput{Choice: []string{large[1:], "x"}}},
		"tools":  {Tools: &infer.ToolUse{Tools: []infer.Tool{{Name: "f"}, {Parameters: json.RawMessage(large)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			ctx, cancel := context.WithCancel(context.Background())
			p, err := g.enter(ctx, smallBody)
			require.NoError(t, err)
			require.NoError(t, p.reclassify(ctx, &infer.Request{}))
			require.Len(t, g.small, 1)
			require.NoError(t, p.reclassify(ctx, r))
			require.Empty(t, g.small)
			require.Len(t, g.large, 1)
			require.NoError(t, p.reclassify(ctx, r), "it is there already")
			p.leave()
			require.Empty(t, g.large)

			for range cap(g.large) {
				g.large <- struct{}{}
			}
			p, err = g.enter(ctx, smallBody)
			require.NoError(t, err)
			cancel()
			require.ErrorIs(t, p.reclassify(ctx, r), context.Canceled)
			p.leave()
			require.Empty(t, g.small)
		})
	}
}
