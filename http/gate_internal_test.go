package http

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLargeRequestsArePreparedFewAtATime(t *testing.T) {
	g := newGate()
	ctx, cancel := context.WithCancel(context.Background())
	var leave func()
	for range cap(g.large) {
		var err error
		leave, err = g.enter(ctx, smallBody+1)
		require.NoError(t, err)
	}
	passSmall, err := g.enter(ctx, smallBody)
	require.NoError(t, err, "small ones are not behind large ones")
	passSmall()
	require.Empty(t, g.small)

	entered := make(chan error)
	go func() {
		leave, err := g.enter(context.Background(), smallBody+1)
		if err == nil {
			leave()
		}
		entered <- err
	}()
	leave()
	leave() // once is enough
	require.NoError(t, <-entered)

	_, err = g.enter(ctx, smallBody+1)
	require.NoError(t, err)
	cancel()
	_, err = g.enter(ctx, smallBody+1)
	require.ErrorIs(t, err, context.Canceled, "who has gone does not wait")
	require.Len(t, g.large, cap(g.large))
}
