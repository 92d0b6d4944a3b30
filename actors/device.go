package actors

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

// device is what one batcher owns and what goes with it: a runner with its KV
// cache, the scheduler of that cache, and an OS thread.
type device struct {
	runner    infer.Runner
	scheduler *scheduler.Scheduler
	thread    *pinnedDispatcher
	clock     func() int64
	// idle holds a token while no step is in flight. It makes "at most one step"
	// and "done exactly once" facts instead of hopes, and lets close wait.
	idle chan struct{}
}

// openDevice opens the runner and sizes a scheduler for it. It may take as long
// as allocating a KV cache does: call it from a goroutine that may block.
func openDevice(c *Config) (d *device, err error) {
	defer func() {
		if r := recover(); r != nil {
			d, err = nil, panicError(r)
		}
	}()
	runner, err := c.NewRunner()
	if err != nil {
		return nil, fmt.Errorf("opening the runner: %w", err)
	}
	config := c.Scheduler
	config.NumBlocks, config.BlockSize = runner.Spec().NumBlocks, runner.Spec().BlockSize
	sched, err := scheduler.New(config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sizing the scheduler: %w", err), runner.Close())
	}
	d = &device{runner: runner, scheduler: sched, thread: newPinnedDispatcher(), clock: c.Clock, idle: make(chan struct{}, 1)}
	d.idle <- struct{}{}
	return d, nil
}

// launch starts a step; report is called once with its end, from any goroutine.
// A panic in Launch itself ends the step like any other failure.
func (d *device) launch(plan *infer.StepPlan, report func(*StepDone)) {
	select {
	case <-d.idle:
	default:
		panic("actors: a step is already in flight")
	}
	done := func(result *infer.StepResult, err error) {
		endedAt := d.clock()
		select {
		case d.idle <- struct{}{}:
			report(&StepDone{Result: result, Err: err, EndedAt: endedAt})
		default: // the step has already ended: a runner's second call has no meaning
		}
	}
	defer func() {
		if r := recover(); r != nil {
			done(nil, panicError(r))
		}
	}()
	d.runner.Launch(plan, done)
}

// close waits for the step in flight, then frees the runner and the thread. The
// batcher must have terminated.
func (d *device) close() error {
	d.thread.Close()
	<-d.idle
	return d.runner.Close()
}

func panicError(recovered any) error {
	return fmt.Errorf("panic: %v\n%s", recovered, debug.Stack())
}
