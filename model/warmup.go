package model

import "github.com/troupe-llm/troupe/infer"

// warmUpTokens is the length of the longer of the two prompts of a warm-up.
const warmUpTokens = 32

// WarmUp runs one step of a single token and one of a short prompt, so that the
// first request does not pay for what happens once: memory that the system hands
// out when it is first touched, threads that wake up, code that is paged in. It
// belongs before the first plan: the steps write to the first blocks of the KV
// cache, which hold nothing yet, and leave nothing else behind. The runner must be
// idle.
func (r *Runner) WarmUp() error {
	for _, n := range []int{1, warmUpTokens} {
		plan := r.warmUpPlan(n)
		if plan == nil {
			return nil
		}
		ended := make(chan error, 1)
		r.Launch(plan, func(_ *infer.StepResult, err error) { ended <- err })
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// warmUpPlan returns a step over a prompt of n tokens that samples greedily, nil if
// the runner has no room for it.
func (r *Runner) warmUpPlan(n int) *infer.StepPlan {
	blocks := blocksFor(n, r.spec.BlockSize)
	if n > r.maxTokens || n > r.spec.MaxModelLen || blocks > r.spec.NumBlocks {
		return nil
	}
	table := make([]int32, blocks)
	for i := range table {
		table[i] = int32(i)
	}
	prompt := make([]int32, n)
	for i := range prompt {
		prompt[i] = int32(i % r.spec.VocabSize)
	}
	params := &infer.SamplingParams{MaxTokens: 1, TopP: 1, RepetitionPenalty: 1, NumLogprobs: -1, NumPromptLogprobs: -1}
	return &infer.StepPlan{NumTokens: n, Sequences: []infer.ScheduledSequence{{
		TokenIDs: prompt, BlockTable: table, Sample: true, Params: params, PromptTokenIDs: prompt,
	}}}
}
