package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

// device is what one batcher owns and what goes with it: a runner with its KV
// cache, the scheduler of that cache, the batcher's OS thread and, where steps
// have a time limit, a goroutine that calls the runner in the batcher's place.
type device struct {
	runner    infer.Runner
	scheduler *scheduler.Scheduler
	thread    *pinnedDispatcher // the batcher's
	launcher  *launcher         // nil if steps have no time limit
	run       func(func())      // calls the runner: on the launcher, or else at once
	clock     func() int64
	vocabSize int
	// idle holds a token while no step is in flight. It makes "at most one step"
	// and "done exactly once" facts instead of hopes, and lets close wait.
	idle chan struct{}
	// stalled: a step did not end in time, so that nobody may wait for the next
	// one to. Set before the batcher stops.
	stalled atomic.Bool
	worked  atomic.Bool // a step has ended well
	spec    infer.RunnerSpec
	// freeBlocks and blocked are as after the last pass of the scheduler; see
	// admission.blocked.
	freeBlocks atomic.Int64
	blocked    atomic.Bool
	prefixes   prefixes // of prompts, lately computed here; empty outside a cluster
	// orphans counts the sequences that its dead batcher left to the next one.
	orphans atomic.Int64
}

// openDevice opens the runner of a batcher and sizes a scheduler for it. It may
// take as long as allocating a KV cache does: call it from a goroutine that may
// block.
func openDevice(c *Config, batcher int) (d *device, err error) {
	defer func() {
		if r := recover(); r != nil {
			d, err = nil, panicError(r)
		}
	}()
	runner, err := c.NewRunner(batcher)
	if err != nil {
		return nil, fmt.Errorf("opening the runner: %w", err)
	}
	if c.faults != nil {
		runner = &faultyRunner{Runner: runner, faults: c.faults, batcher: batcher, abandoned: make(chan struct{})}
	}
	config := c.Scheduler
	spec := runner.Spec()
	config.NumBlocks, config.BlockSize = spec.NumBlocks, spec.BlockSize
	config.NumSpecTokens, config.NumLookaheadSlots = spec.NumSpecTokens, spec.NumLookaheadSlots
	sched, err := scheduler.New(config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sizing the scheduler: %w", err), runner.Close())
	}
	d = &device{runner: runner, scheduler: sched, thread: newPinnedDispatcher(), run: func(f func()) { f() }, clock: c.Clock,
		vocabSize: spec.VocabSize, spec: spec, idle: make(chan struct{}, 1)}
	d.freeBlocks.Store(int64(spec.NumBlocks))
	if c.StepTimeout > 0 { // a Launch that hangs must not take the batcher with it
		d.launcher = newLauncher()
		d.run = d.launcher.run
	}
	d.idle <- struct{}{}
	return d, nil
}

// launch starts a step and returns without waiting for it; report is called once
// with its end, from any goroutine. A panic in Launch itself ends the step like
// any other failure.
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
	d.run(func() {
		defer func() {
			if r := recover(); r != nil {
				done(nil, panicError(r))
			}
		}()
		d.runner.Launch(plan, done)
	})
}

// checkResult returns what of a result does not answer its plan. A runner that
// says such things is not to be believed in anything: the step has failed.
func checkResult(plan *infer.StepPlan, result *infer.StepResult, vocabSize int) error {
	switch {
	case result == nil:
		return errors.New("the runner gave neither a result nor an error")
	case result.StepID != plan.StepID || len(result.Sequences) != len(plan.Sequences):
		return fmt.Errorf("the runner answered step %d with %d sequences, asked for was step %d with %d",
			result.StepID, len(result.Sequences), plan.StepID, len(plan.Sequences))
	}
	for i := range result.Sequences {
		if result.Sequences[i].Err != nil {
			continue // of that sequence alone
		}
		if err := checkSequence(&plan.Sequences[i], &result.Sequences[i], vocabSize); err != nil {
			return fmt.Errorf("sequence %d: %w", plan.Sequences[i].SeqID, err)
		}
	}
	return nil
}

// checkSequence does so for one sequence.
func checkSequence(seq *infer.ScheduledSequence, res *infer.SequenceResult, vocabSize int) error {
	low, high, wantLogprobs, wantPromptLogprobs := 0, 0, 0, 0
	if seq.Sample {
		low, high = 1, 1+seq.NumDraftTokens
		if res.Deferred {
			low, high = 0, 0
		}
		if seq.Params.NumLogprobs >= 0 {
			wantLogprobs = len(res.NewTokenIDs)
		}
	}
	if seq.Params.NumPromptLogprobs >= 0 {
		wantPromptLogprobs = max(min(len(seq.TokenIDs), len(seq.PromptTokenIDs)-1-seq.StartPos), 0)
	}
	n := len(res.NewTokenIDs)
	if n < low || n > high || len(res.Logprobs) != wantLogprobs || len(res.PromptLogprobs) != wantPromptLogprobs {
		return fmt.Errorf("the runner gave %d tokens, %d logprobs and %d of the prompt, wanted %d to %d, %d and %d",
			n, len(res.Logprobs), len(res.PromptLogprobs), low, high, wantLogprobs, wantPromptLogprobs)
	}
	drafts := seq.OutputTokenIDs[len(seq.OutputTokenIDs)-seq.NumDraftTokens:]
	if accepted := max(n-1, 0); !slices.Equal(drafts[:accepted], res.NewTokenIDs[:accepted]) {
		return errors.New("the runner accepted draft tokens that are not those it was given")
	}
	if len(res.DraftTokenIDs) > seq.NumProposals {
		return fmt.Errorf("the runner proposed %d tokens, wanted up to %d", len(res.DraftTokenIDs), seq.NumProposals)
	}
	for _, ids := range [][]int32{res.NewTokenIDs, res.DraftTokenIDs} {
		for _, id := range ids {
			if id < 0 || int(id) >= vocabSize {
				return fmt.Errorf("the runner gave token %d, the vocabulary has %d", id, vocabSize)
			}
		}
	}
	if err := checkLogprobs(res.Logprobs, vocabSize); err != nil {
		return err
	}
	return checkLogprobs(res.PromptLogprobs, vocabSize)
}

// checkLogprobs accepts minus infinity, the logprob of what cannot be drawn.
func checkLogprobs(logprobs []infer.TokenLogprobs, vocabSize int) error {
	for i := range logprobs {
		if err := checkLogprob(&logprobs[i].Token, vocabSize); err != nil {
			return err
		}
		for j := range logprobs[i].Top {
			if err := checkLogprob(&logprobs[i].Top[j], vocabSize); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkLogprob(l *infer.TokenLogprob, vocabSize int) error {
	if l.TokenID < 0 || int(l.TokenID) >= vocabSize || math.IsNaN(float64(l.Logprob)) || math.IsInf(float64(l.Logprob), 1) {
		return fmt.Errorf("the runner gave token %d the logprob %v, the vocabulary has %d tokens", l.TokenID, l.Logprob, vocabSize)
	}
	return nil
}

// close waits for the step in flight, then frees the runner and the thread. The
// batcher must have terminated.
func (d *device) close() error {
	d.thread.Close()
	if d.launcher != nil {
		d.launcher.close()
	}
	<-d.idle
	return d.runner.Close()
}

// abandonment is what became of devices whose step would not end.
type abandonment struct {
	after func(time.Duration, func()) timer
	log   *slog.Logger
	count atomic.Int64 // devices abandoned and not freed yet
}

func newAbandonment(after func(time.Duration, func()) timer, log *slog.Logger) *abandonment {
	return &abandonment{after: after, log: log}
}

// maxAbandoned bounds the devices whose memory is lost to steps that never end.
const maxAbandoned = 4

// ErrDeviceAbandoned is the error of an Engine.Close that had to leave a device
// behind, whose step does not end and may still use the model's memory.
var ErrDeviceAbandoned = errors.New("actors: a device was abandoned, it did not answer in time")

// closeDevice closes a device. It waits for a step in flight, but with a limit
// above 0 no longer than that, and not at all once a step has stalled: the device
// is then left to a goroutine that frees it should the step ever end.
func (a *abandonment) closeDevice(d *device, limit time.Duration) error {
	closed := make(chan error, 1)
	var mu sync.Mutex // the device is either closed in time or abandoned
	var isClosed, isAbandoned bool
	go func() {
		err := d.close()
		mu.Lock()
		isClosed = true
		late := isAbandoned
		mu.Unlock()
		closed <- err
		if late {
			a.log.Warn("the step of an abandoned device has ended: the device is freed",
				"abandoned", a.count.Add(-1), "error", err)
		}
	}()
	if !d.stalled.Load() {
		if limit <= 0 {
			return <-closed
		}
		expired := make(chan struct{})
		t := a.after(limit, func() { close(expired) })
		select {
		case err := <-closed:
			t.Stop()
			return err
		case <-expired:
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if isClosed {
		return <-closed
	}
	isAbandoned = true
	if r, ok := d.runner.(*faultyRunner); ok {
		close(r.abandoned)
	}
	a.log.Error("a device is abandoned: its step has not ended", "abandoned", a.count.Add(1))
	return ErrDeviceAbandoned
}

// closeOpening closes a device that is still being opened, which may hang as a
// step may: past the limit it is left to a goroutine.
func (a *abandonment) closeOpening(opening <-chan *device, limit time.Duration) error {
	closeOpened := func(d *device) error {
		if d == nil {
			return nil
		}
		return a.closeDevice(d, limit)
	}
	if limit <= 0 {
		return closeOpened(<-opening)
	}
	expired := make(chan struct{})
	t := a.after(limit, func() { close(expired) })
	defer t.Stop()
	select {
	case d := <-opening:
		return closeOpened(d)
	case <-expired:
	}
	a.log.Error("a device is abandoned: it could not be opened in time", "abandoned", a.count.Add(1))
	go func() {
		err := closeOpened(<-opening)
		a.log.Warn("an abandoned device has been opened after all and is freed", "abandoned", a.count.Add(-1), "error", err)
	}()
	return ErrDeviceAbandoned
}

// full reports that no more devices may be abandoned, and so none opened.
func (a *abandonment) full() error {
	if n := a.count.Load(); n >= maxAbandoned {
		return fmt.Errorf("%d abandoned devices have not been freed: their steps do not end", n)
	}
	return nil
}

func panicError(recovered any) error {
	return fmt.Errorf("panic: %v\n%s", recovered, debug.Stack())
}
