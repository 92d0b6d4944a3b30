package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

// paced is a scheduler whose steps take what cost says.
type paced struct {
	s    *scheduler.Scheduler
	cost func(numPrefill, numDecodes int) int64
	took int64 // by the last step
}

// step runs one step and returns what it held.
func (p *paced) step(t *testing.T) (numPrefill, numDecodes int) {
	plan := p.s.Schedule()
	require.NotNil(t, plan)
	for i := range plan.Sequences {
		if n := len(plan.Sequences[i].TokenIDs); n > 1 {
			numPrefill += n
		} else {
			numDecodes++
		}
	}
	p.took = p.cost(numPrefill, numDecodes)
	p.s.ObserveStep(p.took)
	p.s.Commit(answer(plan, 1))
	return numPrefill, numDecodes
}

func newPaced(t *testing.T, target int64, cost func(numPrefill, numDecodes int) int64) *paced {
	s := newScheduler(t, scheduler.Config{
		MaxNumSeqs: 8, MaxNumBatchedTokens: 2048, MaxModelLen: 1 << 16, EnableChunkedPrefill: true,
		NumBlocks: 1 << 14, BlockSize: 16, ITLTarget: target,
	})
	return &paced{s: s, cost: cost}
}

const millisecond = int64(1e6)

// affine is a device that reads its weights in 10 ms.
func affine(numPrefill, numDecodes int) int64 {
	return 10*millisecond + int64(numDecodes)*millisecond/5 + int64(numPrefill)*millisecond/4
}

// TestStepsStayUnderTheTarget: a long prompt that comes while others decode is cut
// into chunks that fit, and that are not smaller than they need be.
func TestStepsStayUnderTheTarget(t *testing.T) {
	const target = 60 * millisecond
	p := newPaced(t, target, affine)
	for id := range 4 {
		require.NoError(t, p.s.Add(newSequence(infer.SeqID(id+1), 200, infer.SamplingParams{MaxTokens: 5000, NumPromptLogprobs: -1})))
	}
	n, _ := p.step(t)
	require.Equal(t, 800, n, "nobody decodes yet: nobody waits")
	for range 3 {
		p.step(t)
	}
	require.NoError(t, p.s.Add(newSequence(9, 20000, infer.SamplingParams{MaxTokens: 10, NumPromptLogprobs: -1})))
	steps, late := 0, 0
	for left := 20000; left > 0; steps++ {
		n, decodes := p.step(t)
		require.Equal(t, 4, decodes, "those who decode are in every step")
		require.Positive(t, n)
		if p.took > target+target/20 {
			late++
		}
		left -= n
	}
	require.Zero(t, late)
	require.Less(t, steps, 20000/150, "of the 196 tokens that fit, most are used")
}

// TestTargetFollowsTheDevice: when tokens become dearer the chunks become smaller
// within a few steps, and larger again; one step that took long for another reason is
// forgotten.
func TestTargetFollowsTheDevice(t *testing.T) {
	const target = 50 * millisecond
	factor, extra := int64(1), int64(0)
	p := newPaced(t, target, func(numPrefill, numDecodes int) int64 {
		return 10*millisecond + factor*int64(numPrefill)*millisecond/10 + extra
	})
	require.NoError(t, p.s.Add(newSequence(1, 20, infer.SamplingParams{MaxTokens: 5000, NumPromptLogprobs: -1})))
	p.step(t)
	p.step(t)
	require.NoError(t, p.s.Add(newSequence(2, 60000, infer.SamplingParams{MaxTokens: 10, NumPromptLogprobs: -1})))
	settle := func(steps int) (n int) {
		for range steps {
			n, _ = p.step(t)
		}
		return n
	}
	require.InDelta(t, 400, settle(12), 20)
	factor = 4
	require.InDelta(t, 100, settle(12), 10)
	factor = 1
	require.InDelta(t, 400, settle(25), 30)
	extra = 500 * millisecond
	p.step(t)
	extra = 0
	require.InDelta(t, 400, settle(25), 30)
}

// TestPrefillsNeverStop: with a target that decodes alone exceed, prompts still come
// to their end.
func TestPrefillsNeverStop(t *testing.T) {
	p := newPaced(t, 1, affine)
	require.NoError(t, p.s.Add(newSequence(1, 1, infer.SamplingParams{MaxTokens: 500, NumPromptLogprobs: -1})))
	p.step(t)
	require.NoError(t, p.s.Add(newSequence(2, 160, infer.SamplingParams{MaxTokens: 5, NumPromptLogprobs: -1})))
	for range 10 {
		n, decodes := p.step(t)
		require.Equal(t, []int{16, 1}, []int{n, decodes})
	}
	n, decodes := p.step(t)
	require.Equal(t, []int{0, 2}, []int{n, decodes})
}

// TestNoTargetChangesNothing: without one, durations are not looked at.
func TestNoTargetChangesNothing(t *testing.T) {
	p := newPaced(t, 0, affine)
	require.NoError(t, p.s.Add(newSequence(1, 1, infer.SamplingParams{MaxTokens: 500, NumPromptLogprobs: -1})))
	p.step(t)
	require.NoError(t, p.s.Add(newSequence(2, 5000, infer.SamplingParams{MaxTokens: 5, NumPromptLogprobs: -1})))
	n, _ := p.step(t)
	require.Equal(t, 2047, n)
}
