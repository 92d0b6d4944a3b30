//go:build faultinject

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
	"github.com/troupe-llm/troupe/infer"
)

// withFaults lets requests break the engine, for tests of what happens then:
// vllm_xargs {"troupe_fault": KIND, "troupe_fault_after": N} makes the step fail
// that would give the request's token N (0 = the first).
func withFaults(r infer.Runner) infer.Runner { return &faultRunner{r} }

// The kinds of faults.
const (
	faultInSampling  = "panic-in-sampling" // the culprit is known at once
	faultInStep      = "panic-in-step"     // anybody aboard may have done it
	faultErrorInStep = "error-in-step"
)

type faultRunner struct{ infer.Runner }

// Launch implements infer.Runner.
func (r *faultRunner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	for i := range plan.Sequences {
		if s := &plan.Sequences[i]; isDue(s) {
			go func() { done(nil, provoke(s.SeqID, argument(s, "troupe_fault"))) }()
			return
		}
	}
	r.Runner.Launch(plan, done)
}

func isDue(s *infer.ScheduledSequence) bool {
	if !s.Sample || argument(s, "troupe_fault") == "" {
		return false
	}
	after, err := strconv.Atoi(argument(s, "troupe_fault_after"))
	return err != nil || len(s.OutputTokenIDs) >= after
}

// argument returns a vllm_xargs value without JSON's quotes.
func argument(s *infer.ScheduledSequence, name string) string {
	return strings.Trim(s.Params.ExtraArgs[name], `"`)
}

// provoke panics or fails as a runner would and returns what it would report.
func provoke(id infer.SeqID, kind string) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
		if kind == faultInSampling {
			err = &infer.SequenceFault{SeqID: id, Err: err}
		}
	}()
	if kind == faultErrorInStep {
		return errors.New("injected error")
	}
	panic("injected " + kind)
}

// withDeviceFault has the simulated device 0 lose its context at the kernel launch whose
// number $TROUPE_FAULT_LAUNCH is.
func withDeviceFault(o ptxsim.Options, getenv func(string) string) ptxsim.Options {
	if nth, err := strconv.Atoi(getenv("TROUPE_FAULT_LAUNCH")); err == nil {
		o.Inject = append(o.Inject, ptxsim.Injection{Point: ptxsim.OnLaunch, Nth: nth, Code: gpu.IllegalAddress})
	}
	return o
}

// faultInHandler panics on the goroutine of the call, faultInWriter on that which writes
// the answer.
const (
	faultInHandler = "panic-in-handler"
	faultInWriter  = "panic-in-writer"
)

// withCallFaults does the same to calls.
func withCallFaults(g infer.Generator) infer.Generator { return faultGenerator{g} }

type faultGenerator struct{ infer.Generator }

// Generate implements infer.Generator.
func (g faultGenerator) Generate(ctx context.Context, req *infer.Request) (infer.Stream, error) {
	kind := strings.Trim(req.Sampling.ExtraArgs["troupe_fault"], `"`)
	if kind == faultInHandler {
		panic("injected " + kind)
	}
	if kind == faultInWriter {
		req.Sampling.ExtraArgs = nil // its steps go well
	}
	stream, err := g.Generator.Generate(ctx, req)
	if err == nil && kind == faultInWriter {
		stream = faultStream{stream}
	}
	return stream, err
}

type faultStream struct{ infer.Stream }

// Drain implements infer.Stream.
func (faultStream) Drain([]infer.Event) []infer.Event { panic("injected " + faultInWriter) }
