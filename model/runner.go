package model

import (
	"errors"
	"sync"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/infer"
)

// Runner executes steps of one model on its own goroutine. It implements
// [infer.Runner]. Runners of one model share its weights and nothing else.
type Runner struct {
	spec      infer.RunnerSpec
	maxTokens int // of a step

	mu     sync.Mutex // guards closed against a Launch on another goroutine
	closed bool
	jobs   chan job // one place: at most one step is in flight
	done   chan struct{}
	err    error // of freeing the memory; set before done is closed
}

var _ infer.Runner = (*Runner)(nil)

// job is one step to execute and whom to tell.
type job struct {
	plan *infer.StepPlan
	done func(*infer.StepResult, error)
}

var (
	errClosed = errors.New("model: the runner is closed")
	errBusy   = errors.New("model: a step is in flight already")
)

func newRunner(m *Model, own *room, p proposer) *Runner {
	r := &Runner{spec: m.Spec(), maxTokens: m.maxTokens, jobs: make(chan job, 1), done: make(chan struct{})}
	go r.loop(&step{pass: pass{model: m, room: own}, sampler: m.newSampler(), guide: newGuide(), proposer: p})
	return r
}

// loop is the runner's goroutine. It ends when jobs is closed.
func (r *Runner) loop(s *step) {
	defer close(r.done)
	release := s.bind()
	for j := range r.jobs {
		j.done(s.execute(j.plan))
	}
	release()
	r.err = s.room.close()
}

// Launch implements [infer.Runner]. A step that is launched while another is in
// flight, or after Close, ends at once with an error.
func (r *Runner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	if err := r.post(job{plan, done}); err != nil {
		done(nil, err)
	}
}

func (r *Runner) post(j job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	select {
	case r.jobs <- j:
		return nil
	default:
		return errBusy
	}
}

// Spec implements [infer.Runner].
func (r *Runner) Spec() infer.RunnerSpec { return r.spec }

// Close implements [infer.Runner]: it waits for a step in flight, then frees all
// but the weights, so it must not be called from a step's done. A second call
// waits, too, and gives the same answer.
func (r *Runner) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.jobs)
	}
	r.mu.Unlock()
	<-r.done
	return r.err
}

// bind gives the step's backend to the calling goroutine. One that cannot be had now,
// since its device is lost, says so at the first step.
func (s *step) bind() (release func()) {
	b, ok := s.room.backend.(compute.Binder)
	if !ok || b.Bind() != nil {
		return func() {}
	}
	return b.Unbind
}
