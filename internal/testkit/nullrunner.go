package testkit

import "github.com/troupe-llm/troupe/infer"

// NullRunner is a runner whose tokens cost nothing: always "a". It measures what
// surrounds a model.
type NullRunner struct{ NumBlocks, BlockSize, MaxModelLen int }

var _ infer.Runner = (*NullRunner)(nil)

// Spec implements infer.Runner.
func (r *NullRunner) Spec() infer.RunnerSpec {
	return infer.RunnerSpec{NumBlocks: r.NumBlocks, BlockSize: r.BlockSize, VocabSize: NumTokens, MaxModelLen: r.MaxModelLen}
}

// Launch implements infer.Runner.
func (r *NullRunner) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	n := len(plan.Sequences)
	result := &infer.StepResult{StepID: plan.StepID, Sequences: make([]infer.SequenceResult, n)}
	tokens := make([]int32, n)
	for i := range plan.Sequences {
		if plan.Sequences[i].Sample {
			tokens[i] = 'a'
			result.Sequences[i].NewTokenIDs = tokens[i : i+1 : i+1]
		}
	}
	done(result, nil)
}

// Close implements infer.Runner.
func (r *NullRunner) Close() error { return nil }
