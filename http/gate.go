package http

import (
	"context"
	"runtime"

	"github.com/troupe-llm/troupe/infer"
)

const (
	// smallBody is the size up to which a request is prepared in no time.
	smallBody = 64 << 10
	// smallLanes is how many small requests per core may be prepared at a time. It
	// is out of reach of usual traffic: each takes a millisecond or less.
	smallLanes    = 16
	minSmallLanes = 64
)

// gate bounds how many requests are prepared at a time: parsed, rendered, turned
// into tokens. That is plain computing on bytes of strangers, and without a bound
// enough of it takes the cores from running steps and from everybody's events.
// Large requests have one core less than there are, and a queue of their own, in
// the order in which they came; small ones are not behind them.
type gate struct{ small, large chan struct{} }

func newGate() *gate {
	cores := runtime.GOMAXPROCS(0)
	return &gate{
		small: make(chan struct{}, max(minSmallLanes, smallLanes*cores)),
		large: make(chan struct{}, max(1, cores-1)),
	}
}

// enter waits for its turn with a body of numBytes until ctx ends. leave must be
// called when the request is prepared; further calls do nothing.
func (g *gate) enter(ctx context.Context, numBytes int) (leave func(), err error) {
	lane := g.large
	if numBytes <= smallBody {
		lane = g.small
	}
	select {
	case lane <- struct{}{}:
	case <-ctx.Done():
		return nil, &infer.Error{Code: infer.CodeUnavailable, Message: "The request was given up before it was admitted.", Err: ctx.Err()}
	}
	isOut := false
	return func() {
		if !isOut {
			isOut = true
			<-lane
		}
	}, nil
}
