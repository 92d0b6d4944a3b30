package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// stepOverdue is sent by the watchdog of a step.
type stepOverdue struct{ step uint64 }

// watchdog is a timer that is set anew for every step.
type watchdog struct {
	timer timer
	step  atomic.Uint64 // the step it was set for last
}

// watch sets the watchdog of a step that was just launched.
func (b *BatcherActor) watch(step uint64) {
	switch w := b.watchdog; {
	case b.env.stepTimeout == 0:
	case w != nil:
		w.step.Store(step)
		w.timer.Reset(b.env.stepTimeout)
	default:
		w = &watchdog{}
		w.step.Store(step)
		root, self := b.env.root, b.self
		w.timer = b.env.after(b.env.stepTimeout, func() { root.Send(self, &stepOverdue{step: w.step.Load()}) })
		b.watchdog = w
	}
}

// unwatch stops the watchdog. One that could not be stopped is about to say which
// step it was set for: it is not set for another one.
func (b *BatcherActor) unwatch() {
	if b.watchdog != nil && !b.watchdog.timer.Stop() {
		b.watchdog = nil
	}
}

// stepOverdue ends a step that does not end: a failure like any other, except
// that nobody may wait for its device. A StepDone that comes later finds nobody.
func (b *BatcherActor) stepOverdue(c actor.Context, step uint64) {
	if b.inFlight == nil || b.inFlight.StepID != step {
		return // it ended while the watchdog's message was on its way
	}
	b.device.stalled.Store(true)
	b.fail(c, fmt.Errorf("the step has stalled: it did not end within %v", b.env.stepTimeout))
}
