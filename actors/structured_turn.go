package actors

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// compileLanes bound how many grammars are compiled at a time, by the work that they
// have turned out to be: nobody knows before. What takes a millisecond, as most do,
// waits for nobody. Each lane is served in the order of coming; none is behind a longer
// one. Those in the longest take up to a quarter of a second of a core and tens of MB.
type compileLanes struct{ middle, long compileLane }

type compileLane struct {
	places  chan struct{}
	waiting *atomic.Int64
}

const (
	// longCompile is the work from which a grammar is one of the long ones, as
	// [grammar.Options] counts it: some ten milliseconds.
	longCompile = 1_000_000
	// maxCompilesWaiting is how many may wait for a lane. A request that waits has its
	// place among those being prepared, 64 at least, so they must not be able to take all.
	maxCompilesWaiting = 24
	// compileRetryAfter is about how long a full lane needs.
	compileRetryAfter = 3 * time.Second
)

func newCompileLanes() compileLanes {
	cores := runtime.GOMAXPROCS(0)
	return compileLanes{middle: newCompileLane(cores), long: newCompileLane(max(1, cores/2))}
}

func newCompileLane(places int) compileLane {
	return compileLane{make(chan struct{}, places), new(atomic.Int64)}
}

// enter waits for a place until ctx ends, unless too many wait already.
func (l *compileLane) enter(ctx context.Context) error {
	select {
	case l.places <- struct{}{}:
		return nil
	default:
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxCompilesWaiting {
		return &infer.Error{
			Code:       infer.CodeOverloaded,
			Message:    "The server compiles too many large grammars and schemas at the moment; try again",
			RetryAfter: compileRetryAfter,
		}
	}
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errGivenUp
	}
}

// pause is [grammar.Options.Pause].
type pause = func(spent int) error

// errGivenUp ends the compiling of a grammar whose client has left.
var errGivenUp = errors.New("compiling was given up")

// turn is a compilation's place in a lane. One goroutine has it.
type turn struct {
	ctx   context.Context
	lanes *compileLanes
	lane  *compileLane // nil = it is in none
}

// pause makes way for others, and changes the lane when there was much to do.
func (t *turn) pause(spent int) error {
	want := &t.lanes.middle
	if spent >= longCompile {
		want = &t.lanes.long
	}
	switch {
	case t.ctx.Err() != nil:
		return errGivenUp
	case want == t.lane:
		runtime.Gosched() // steps and other requests want the core too
		return nil
	}
	t.leave()
	if err := want.enter(t.ctx); err != nil {
		return err
	}
	t.lane = want
	return nil
}

// leave makes room for the next one.
func (t *turn) leave() {
	if t.lane != nil {
		<-t.lane.places
		t.lane = nil
	}
}
