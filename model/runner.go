package model

import "github.com/troupe-llm/troupe/infer"

// Runner executes steps of one model on its own goroutine.
type Runner struct{}

var _ infer.Runner = (*Runner)(nil)

// Launch implements [infer.Runner].
func (r *Runner) Launch(_ *infer.StepPlan, done func(*infer.StepResult, error)) {
	done(nil, infer.Errorf(infer.CodeNotImplemented, "", "the runner is not available"))
}

// Spec implements [infer.Runner].
func (r *Runner) Spec() infer.RunnerSpec { return infer.RunnerSpec{} }

// Close implements [infer.Runner].
func (r *Runner) Close() error { return nil }
