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
type compileLanes struct {
	middle, long chan struct{}
	waiting      atomic.Int64 // for the long lane
}

const (
	// longCompile is the work from which a grammar is one of the long ones, as
	// [grammar.Options] counts it: some ten milliseconds.
	longCompile = 1_000_000
	// maxLongWaiting is how many may wait for the long lane. A request that waits has
	// its place among those being prepared, so they must not be able to take all.
	maxLongWaiting = 32
	// longRetryAfter is about how long a full lane needs.
	longRetryAfter = 4 * time.Second
)

func newCompileLanes() compileLanes {
	cores := runtime.GOMAXPROCS(0)
	return compileLanes{middle: make(chan struct{}, cores), long: make(chan struct{}, max(1, cores/2))}
}

// pause is [grammar.Options.Pause].
type pause = func(spent int) error

// errGivenUp ends the compiling of a grammar whose client has left.
var errGivenUp = errors.New("compiling was given up")

// turn is a compilation's place in a lane. One goroutine has it.
type turn struct {
	ctx   context.Context
	lanes *compileLanes
	lane  chan struct{} // nil = it is in none
}

// pause makes way for others, and changes the lane when there was much to do.
func (t *turn) pause(spent int) error {
	want := t.lanes.middle
	if spent >= longCompile {
		want = t.lanes.long
	}
	switch {
	case t.ctx.Err() != nil:
		return errGivenUp
	case want == t.lane:
		runtime.Gosched() // steps and other requests want the core too
		return nil
	}
	t.leave()
	if want == t.lanes.long {
		defer t.lanes.waiting.Add(-1)
		if t.lanes.waiting.Add(1) > maxLongWaiting {
			return &infer.Error{
				Code: infer.CodeOverloaded, Message: "The server compiles too many large grammars and schemas at the moment; try again", RetryAfter: longRetryAfter,
			}
		}
	}
	select {
	case want <- struct{}{}:
		t.lane = want
		return nil
	case <-t.ctx.Done():
		return errGivenUp
	}
}

// leave makes room for the next one.
func (t *turn) leave() {
	if t.lane != nil {
		<-t.lane
		t.lane = nil
	}
}
