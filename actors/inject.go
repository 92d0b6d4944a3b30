package actors

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-llm/troupe/infer"
)

// The kinds of faults that can be injected.
const (
	faultPanic = "panic" // in Launch
	faultError = "error" // the step ends with an error
	faultStall = "stall" // the step ends when its device has been abandoned
)

var faultKinds = []string{faultPanic, faultError, faultStall}

// faultInjector holds the faults that wait for a step.
type faultInjector struct {
	armed []atomic.Pointer[string] // kinds, by batcher; the last one is for whoever comes first
}

func newFaultInjector(numBatchers int) *faultInjector {
	return &faultInjector{armed: make([]atomic.Pointer[string], numBatchers+1)}
}

// take returns the kind of fault that a batcher's next step is to have; "" = none.
func (f *faultInjector) take(batcher int) string {
	for _, i := range []int{batcher, len(f.armed) - 1} {
		if kind := f.armed[i].Swap(nil); kind != nil {
			return *kind
		}
	}
	return ""
}

// InjectFault implements infer.Inspector. The fault comes with the batcher's next
// step, for -1 with the next step of any.
func (e *Engine) InjectFault(kind string, batcher int) error {
	faults := e.config.faults
	switch {
	case faults == nil:
		return infer.Errorf(infer.CodeNotFound, "", "Fault injection is not enabled (--enable-fault-injection).")
	case !slices.Contains(faultKinds, kind):
		return infer.Errorf(infer.CodeInvalid, "kind", "kind must be one of %s, got %q", strings.Join(faultKinds, ", "), kind)
	case kind == faultStall && e.config.StepTimeout == 0:
		return infer.Errorf(infer.CodeInvalid, "kind", "A stall would never end: no step timeout is set (--step-timeout).")
	case batcher < -1 || batcher >= e.config.DataParallelSize:
		return infer.Errorf(infer.CodeInvalid, "batcher", "batcher must be between -1 and %d, got %d", e.config.DataParallelSize-1, batcher)
	}
	if batcher == -1 {
		batcher = e.config.DataParallelSize
	}
	faults.armed[batcher].Store(&kind)
	return nil
}

// faultyRunner is a runner with injected faults.
type faultyRunner struct {
	infer.Runner
	faults    *faultInjector
	batcher   int
	abandoned chan struct{} // closed when nobody waits for the runner any more
}

// Launch implements infer.Runner.
func (r *faultyRunner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	switch r.faults.take(r.batcher) {
	case faultPanic:
		panic("injected panic")
	case faultError:
		done(nil, errors.New("injected error"))
	case faultStall:
		go func() {
			<-r.abandoned
			done(nil, errors.New("injected stall"))
		}()
	default:
		r.Runner.Launch(plan, done)
	}
}
