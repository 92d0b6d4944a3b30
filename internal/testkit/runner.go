package testkit

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/troupe-llm/troupe/infer"
)

// DeviceOptions describe a scripted device. Zero fields get the value in brackets.
type DeviceOptions struct {
	NumBlocks   int // KV blocks [64]
	BlockSize   int // tokens per block [4]
	VocabSize   int // [NumTokens]
	MaxModelLen int // [128]
	// NumSpecTokens is how many draft tokens runners propose for a sequence and
	// step; some of them are wrong.
	NumSpecTokens int

	// Next draws the token after a history. It must be a pure function of its
	// arguments, or no two runs can be compared. [NextToken]
	Next func(history []int32, params *infer.SamplingParams) int32
	// Fault is asked before each step, with the number of the step among all of
	// the device's runners, from 1. nil = no fault; Panic, RowFault and
	// BrokenResult have effects of their own, any other error fails the step, one
	// with an *infer.SequenceFault in its chain by name.
	Fault func(step int, plan *infer.StepPlan) error
	// Defer says of a sequence that it has to wait for its mask. [never]
	Defer func(seq *infer.ScheduledSequence) bool
	// OpenFault is asked before each NewRunner, numbered from 1.
	OpenFault func(attempt int) error
	// Inline says per step that done is called before Launch returns. [never]
	Inline func(step int) bool
	// Overlap allows a runner to be opened before the last one is closed, as
	// happens after an abandoned one.
	Overlap bool
	// Manual steps wait for Runner.Finish.
	Manual bool
}

// Panic is a fault that panics inside Launch, on the batcher's thread.
type Panic struct{ Value string }

// Error implements error.
func (p Panic) Error() string { return p.Value }

// RowFault is a fault of one sequence's row: the step succeeds for the others.
type RowFault struct {
	SeqID infer.SeqID
	Err   error
}

// Error implements error.
func (f RowFault) Error() string { return f.Err.Error() }

// BrokenResult is a fault of a runner that answers something else than what it
// was asked for.
type BrokenResult struct{ Kind Garbage }

// Garbage is a kind of broken result.
type Garbage int

// The kinds of broken results.
const (
	OtherStep    Garbage = iota // the result of another step
	NoResult                    // neither a result nor an error
	LostRow                     // one sequence too few
	WrongToken                  // a token that the vocabulary does not have
	HugeToken                   // the same beyond its end
	SpareToken                  // a token that nobody asked for
	LostLogprobs                // none where some were asked for, or one too many
	NotANumber                  // for a logprob
	WrongLogprob                // of a token that the vocabulary does not have
	NumGarbage   = int(iota)
)

// Error implements error.
func (BrokenResult) Error() string { return "a broken result" }

// spoil makes garbage of a step's result.
func (b BrokenResult) spoil(result *infer.StepResult) *infer.StepResult {
	last := &result.Sequences[len(result.Sequences)-1]
	switch b.Kind {
	case OtherStep:
		result.StepID++
	case NoResult:
		return nil
	case LostRow:
		result.Sequences = result.Sequences[1:]
	case WrongToken:
		last.NewTokenIDs = []int32{-1}
	case HugeToken:
		last.NewTokenIDs = []int32{1 << 30}
	case SpareToken:
		last.NewTokenIDs = append(last.NewTokenIDs, 'a', 'b')
	case LostLogprobs:
		if len(last.Logprobs) == 0 {
			last.Logprobs = append(last.Logprobs, infer.TokenLogprobs{}, infer.TokenLogprobs{})
		}
		last.Logprobs = last.Logprobs[1:]
	case NotANumber:
		spoilLogprob(last, infer.TokenLogprob{Logprob: float32(math.NaN())})
	case WrongLogprob:
		spoilLogprob(last, infer.TokenLogprob{TokenID: NumTokens})
	}
	return result
}

// spoilLogprob makes one of a sequence's logprobs bad; of one that has none, the
// token.
func spoilLogprob(res *infer.SequenceResult, bad infer.TokenLogprob) {
	switch {
	case len(res.PromptLogprobs) > 0:
		res.PromptLogprobs[0].Token = bad
	case len(res.Logprobs) > 0 && len(res.Logprobs[0].Top) > 0:
		res.Logprobs[0].Top[0] = bad
	case len(res.Logprobs) > 0:
		res.Logprobs[0].Token = bad
	default:
		res.NewTokenIDs = []int32{-1}
	}
}

// Stall is a fault that lets a step not end before Device.Release, and then well.
type Stall struct {
	InLaunch bool            // Launch does not return either
	Until    <-chan struct{} // instead of Release; nil = none
}

// Error implements error.
func (Stall) Error() string { return "the step was released" }

// Device makes runners, one at a time, as the engine's NewRunner does. Each has
// an empty cache. Safe for concurrent use.
type Device struct {
	options DeviceOptions

	mu         sync.Mutex
	open       *Runner       // the latest, nil once closed
	release    chan struct{} // closed by Release
	attempts   int
	steps      int
	violations []error
}

// NewDevice returns a device.
func NewDevice(o DeviceOptions) *Device {
	orDefault := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	orDefault(&o.NumBlocks, 64)
	orDefault(&o.BlockSize, 4)
	orDefault(&o.VocabSize, NumTokens)
	orDefault(&o.MaxModelLen, 128)
	if o.Next == nil {
		o.Next = NextToken
	}
	return &Device{options: o, release: make(chan struct{})}
}

// NewRunner opens the device. It is one batcher's, so that the number says nothing.
func (d *Device) NewRunner(int) (infer.Runner, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts++
	if f := d.options.OpenFault; f != nil {
		if err := f(d.attempts); err != nil {
			return nil, err
		}
	}
	if d.open != nil && !d.open.hangs && !d.options.Overlap {
		d.violate(errors.New("a runner was opened before the last one was closed"))
	}
	d.open = newRunner(d)
	return d.open, nil
}

// Runner returns the open runner, nil if there is none.
func (d *Device) Runner() *Runner {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// Release ends the steps that stall.
func (d *Device) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.release)
	d.release = make(chan struct{})
}

// stall lets the engine open another runner, as it does when one hangs, and
// returns what the step waits for.
func (d *Device) stall(r *Runner) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.hangs = true
	return d.release
}

// NumOpened counts calls of NewRunner, failed ones included.
func (d *Device) NumOpened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts
}

// NumSteps counts launched steps of all runners.
func (d *Device) NumSteps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps
}

// Check returns the broken rules of the Runner interface and of the plans seen so
// far, joined; nil if all went well.
func (d *Device) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.violations...)
}

// violate records a broken rule; the caller holds d.mu.
func (d *Device) violate(err error) { d.violations = append(d.violations, err) }

// Runner is an infer.Runner whose tokens are a pure function of the history. Its
// cache holds, for each slot, a hash of the history up to there, so that a plan
// with a wrong block table, a stale block or a skipped token is found out.
type Runner struct {
	device *Device
	cache  []uint64 // by slot; 0 = never written
	work   chan func()
	ended  chan struct{} // the worker's goroutine has
	hangs  bool          // its last step did, so that it may be abandoned; guarded by device.mu

	mu      sync.Mutex
	pending func() // a manual step in flight
	busy    bool   // a step is in flight
}

var _ infer.Runner = (*Runner)(nil)

func newRunner(d *Device) *Runner {
	r := &Runner{
		device: d,
		cache:  make([]uint64, d.options.NumBlocks*d.options.BlockSize),
		work:   make(chan func(), 1),
		ended:  make(chan struct{}),
	}
	go func() {
		defer close(r.ended)
		for f := range r.work {
			f()
		}
	}()
	return r
}

// Spec implements infer.Runner.
func (r *Runner) Spec() infer.RunnerSpec {
	o := &r.device.options
	return infer.RunnerSpec{NumBlocks: o.NumBlocks, BlockSize: o.BlockSize, VocabSize: o.VocabSize,
		MaxModelLen: o.MaxModelLen, NumSpecTokens: o.NumSpecTokens, Device: "scripted", DType: "none"}
}

// Launch implements infer.Runner.
func (r *Runner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	step, fault := r.begin(plan)
	var p Panic
	if errors.As(fault, &p) {
		r.end()
		panic(p.Value)
	}
	finish := func() {
		result, err := r.compute(plan, fault)
		r.end()
		done(result, err)
	}
	var stall Stall
	switch {
	case errors.As(fault, &stall):
		fault = nil
		r.hang(stall, finish)
	case r.device.options.Manual:
		r.mu.Lock()
		r.pending = finish
		r.mu.Unlock()
	case r.device.options.Inline != nil && r.device.options.Inline(step):
		finish()
	default:
		r.work <- finish
	}
}

// hang ends a step when the device says so.
func (r *Runner) hang(s Stall, finish func()) {
	released := r.device.stall(r)
	if s.Until != nil {
		released = s.Until
	}
	if s.InLaunch {
		<-released
		finish()
		return
	}
	r.work <- func() {
		<-released
		finish()
	}
}

// Finish ends a manual step. It reports false if none is in flight.
func (r *Runner) Finish() bool {
	r.mu.Lock()
	finish := r.pending
	r.pending = nil
	r.mu.Unlock()
	if finish == nil {
		return false
	}
	finish()
	return true
}

// Close implements infer.Runner.
func (r *Runner) Close() error {
	r.device.mu.Lock()
	if r.isBusy() {
		r.device.violate(errors.New("the runner was closed with a step in flight"))
	}
	if r.device.open == r {
		r.device.open = nil
	}
	r.device.mu.Unlock()
	close(r.work)
	<-r.ended
	return nil
}

func (r *Runner) isBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

func (r *Runner) begin(plan *infer.StepPlan) (step int, fault error) {
	d := r.device
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps++
	r.hangs = false
	if r.isBusy() {
		d.violate(fmt.Errorf("step %d was launched while another was in flight", d.steps))
	}
	if d.open != r {
		d.violate(fmt.Errorf("step %d was launched on a closed runner", d.steps))
	}
	r.mu.Lock()
	r.busy = true
	r.mu.Unlock()
	if d.options.Fault != nil {
		fault = d.options.Fault(d.steps, plan)
	}
	return d.steps, fault
}

func (r *Runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
}

// compute runs the plan, unless the fault ends the step.
func (r *Runner) compute(plan *infer.StepPlan, fault error) (*infer.StepResult, error) {
	var row RowFault
	var broken BrokenResult
	isBroken := errors.As(fault, &broken)
	if fault != nil && !isBroken && !errors.As(fault, &row) {
		return nil, fault
	}
	result := &infer.StepResult{StepID: plan.StepID, Sequences: make([]infer.SequenceResult, len(plan.Sequences))}
	for i := range plan.Sequences {
		seq, res := &plan.Sequences[i], &result.Sequences[i]
		if err := r.fillCache(seq); err != nil {
			r.device.mu.Lock()
			r.device.violate(err)
			r.device.mu.Unlock()
			return nil, err
		}
		if fault != nil && row.SeqID == seq.SeqID {
			res.Err = row.Err
			continue
		}
		r.sample(seq, res)
	}
	if isBroken {
		return broken.spoil(result), nil
	}
	return result, nil
}
