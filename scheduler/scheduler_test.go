package scheduler_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

func defaultConfig() scheduler.Config {
	return scheduler.Config{
		MaxNumSeqs: 4, MaxNumBatchedTokens: 64, MaxModelLen: 64,
		EnableChunkedPrefill: true, EnablePrefixCaching: true, NumBlocks: 16, BlockSize: 4,
	}
}

func newScheduler(t testing.TB, c scheduler.Config) *scheduler.Scheduler {
	s, err := scheduler.New(c)
	require.NoError(t, err)
	return s
}

func newSequence(id infer.SeqID, numPrompt int, p infer.SamplingParams) *scheduler.Sequence {
	return scheduler.NewSequence(scheduler.SequenceOptions{ID: id, Prompt: make([]int32, numPrompt), Params: &p})
}

// answer draws token for every sequence that asks for one.
func answer(plan *infer.StepPlan, token int32) *infer.StepResult {
	res := &infer.StepResult{StepID: plan.StepID, Sequences: make([]infer.SequenceResult, len(plan.Sequences))}
	for i := range plan.Sequences {
		if plan.Sequences[i].Sample {
			res.Sequences[i].NewTokenIDs = []int32{token}
		}
	}
	return res
}

func TestNewRefusesBadLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*scheduler.Config)
		param  string
		says   string
	}{
		"no seats":            {func(c *scheduler.Config) { c.MaxNumSeqs = 0 }, "max_num_seqs", "at least 1, got 0"},
		"no context":          {func(c *scheduler.Config) { c.MaxModelLen = 0 }, "max_model_len", "at least 1, got 0"},
		"no budget":           {func(c *scheduler.Config) { c.MaxNumBatchedTokens = 0 }, "max_num_batched_tokens", "at least 1, got 0"},
		"negative threshold":  {func(c *scheduler.Config) { c.LongPrefillTokenThreshold = -1 }, "long_prefill_token_threshold", "got -1"},
		"budget below seats":  {func(c *scheduler.Config) { c.MaxNumBatchedTokens = 3 }, "max_num_batched_tokens", "(3) must be at least max_num_seqs (4)"},
		"unchunked too small": {func(c *scheduler.Config) { c.EnableChunkedPrefill, c.MaxModelLen = false, 65 }, "max_num_batched_tokens", "(64) must be at least max_model_len (65)"},
		"negative target":     {func(c *scheduler.Config) { c.ITLTarget = -1 }, "itl_target_ms", "got -1"},
		"target unchunked":    {func(c *scheduler.Config) { c.ITLTarget, c.EnableChunkedPrefill = 5, false }, "itl_target_ms", "without chunked prefill"},
		"no blocks":           {func(c *scheduler.Config) { c.NumBlocks = 0 }, "num_blocks", "got 0"},
		"no block size":       {func(c *scheduler.Config) { c.BlockSize = 0 }, "block_size", "got 0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := defaultConfig()
			tc.change(&c)
			_, err := scheduler.New(c)
			var coded *infer.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, infer.CodeInvalid, coded.Code)
			require.Equal(t, tc.param, coded.Param)
			require.Contains(t, coded.Message, tc.says)
		})
	}
}

func TestPolicyNames(t *testing.T) {
	for _, p := range []scheduler.Policy{scheduler.FCFS, scheduler.Priority} {
		parsed, err := scheduler.ParsePolicy(p.String())
		require.NoError(t, err)
		require.Equal(t, p, parsed)
	}
	_, err := scheduler.ParsePolicy("sjf")
	require.ErrorContains(t, err, `got "sjf"`)
}

func TestAddRefusesMisuse(t *testing.T) {
	s := newScheduler(t, defaultConfig())
	seq := newSequence(1, 4, infer.SamplingParams{MaxTokens: 4})
	require.NoError(t, s.Add(seq))
	require.ErrorContains(t, s.Add(seq), "added before")
	require.ErrorContains(t, s.Add(newSequence(1, 4, infer.SamplingParams{MaxTokens: 4})), "added before")
	require.ErrorContains(t, s.Add(scheduler.NewSequence(scheduler.SequenceOptions{ID: 2, Prompt: []int32{1}})), "no sampling parameters")
	require.NoError(t, s.CheckInvariants())
	require.Equal(t, 1, s.Stats().NumWaiting, "what was refused is not there")
}

// Choices share their prompt, and a caller goes on to append to the output that it
// resumed with: neither memory is written to, whatever room there is behind it.
func TestSequencesKeepOffTheCallersTokens(t *testing.T) {
	s := newScheduler(t, defaultConfig())
	prompt, output := make([]int32, 3, 16), make([]int32, 1, 16)
	for id, given := range [][]int32{nil, output, nil} {
		require.NoError(t, s.Add(scheduler.NewSequence(scheduler.SequenceOptions{
			ID: infer.SeqID(id + 1), Prompt: prompt, Output: given, Params: &infer.SamplingParams{MaxTokens: 9, NumPromptLogprobs: -1},
		})))
	}
	for token := int32(100); ; token++ {
		plan := s.Schedule()
		if plan == nil {
			break
		}
		s.Commit(answer(plan, token))
	}
	require.Equal(t, make([]int32, 16), prompt[:16])
	require.Equal(t, make([]int32, 16), output[:16])
}

// A request of many choices waits with one copy of its prompt.
func TestWaitingSequencesShareTheirPrompt(t *testing.T) {
	prompt := make([]int32, 8)
	seq := scheduler.NewSequence(scheduler.SequenceOptions{ID: 1, Prompt: prompt, Params: &infer.SamplingParams{MaxTokens: 9}})
	s := newScheduler(t, defaultConfig())
	require.NoError(t, s.Add(seq))
	require.Same(t, &prompt[0], &seq.Tokens()[0])
	s.Schedule()
	require.NotSame(t, &prompt[0], &seq.Tokens()[0], "one that runs has room for output")
}

// The tokens of an output are passed between actors, so later steps must not
// change them.
func TestOutputsStayUnchanged(t *testing.T) {
	s := newScheduler(t, defaultConfig())
	require.NoError(t, s.Add(newSequence(1, 3, infer.SamplingParams{MaxTokens: 20, NumPromptLogprobs: -1})))
	var kept [][]int32
	for i := range int32(20) {
		outs := s.Commit(answer(s.Schedule(), 100+i))
		require.Len(t, outs, 1)
		kept = append(kept, outs[0].NewTokenIDs)
	}
	for i, ids := range kept {
		require.Equal(t, []int32{100 + int32(i)}, ids)
		require.Equal(t, 1, cap(ids), "appending to an output would write into the sequence")
	}
	require.Nil(t, s.Schedule())
}

// What breaks the runner's contract fails the sequence alone, never silently.
func TestCommitChecksTheResult(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*infer.SequenceResult)
		says  string
	}{
		"no token":             {func(r *infer.SequenceResult) { r.NewTokenIDs = nil }, "got 0 tokens from a step, wanted 1"},
		"two tokens":           {func(r *infer.SequenceResult) { r.NewTokenIDs = []int32{1, 2} }, "got 2 tokens from a step, wanted 1"},
		"no prompt logprobs":   {func(r *infer.SequenceResult) { r.PromptLogprobs = nil }, "got 0 prompt logprobs from a step, wanted 3"},
		"its own error":        {func(r *infer.SequenceResult) { r.Err = errors.New("not finite") }, "not finite"},
		"its own, half filled": {func(r *infer.SequenceResult) { *r = infer.SequenceResult{Err: errors.New("not finite")} }, "not finite"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScheduler(t, defaultConfig())
			require.NoError(t, s.Add(newSequence(1, 4, infer.SamplingParams{MaxTokens: 4})))
			require.NoError(t, s.Add(newSequence(2, 5, infer.SamplingParams{MaxTokens: 4, NumPromptLogprobs: -1})))
			plan := s.Schedule()
			res := answer(plan, 7)
			res.Sequences[0].PromptLogprobs = make([]infer.TokenLogprobs, 3)
			tc.spoil(&res.Sequences[0])
			outs := s.Commit(res)
			require.Len(t, outs, 2)
			require.Equal(t, infer.FinishError, outs[0].FinishReason)
			require.ErrorContains(t, outs[0].Err, tc.says)
			require.Empty(t, outs[0].NewTokenIDs)
			require.Empty(t, outs[0].PromptLogprobs)
			require.Equal(t, []int32{7}, outs[1].NewTokenIDs)
			require.NoError(t, outs[1].Err)
			require.NoError(t, s.CheckInvariants())
		})
	}
}

func TestCommitOfAnotherStepPanics(t *testing.T) {
	s := newScheduler(t, defaultConfig())
	require.Panics(t, func() { s.Commit(&infer.StepResult{}) }, "no plan is outstanding")
	require.NoError(t, s.Add(newSequence(1, 4, infer.SamplingParams{MaxTokens: 4, NumPromptLogprobs: -1})))
	res := answer(s.Schedule(), 7)
	require.Panics(t, func() { s.Commit(&infer.StepResult{StepID: res.StepID + 1, Sequences: res.Sequences}) })
	require.Panics(t, func() { s.Commit(&infer.StepResult{StepID: res.StepID}) })
	require.Len(t, s.Commit(res), 1)
	require.Panics(t, func() { s.Commit(res) }, "committed twice")
}

// With one seat the second sequence is selected only when the first has ended.
func TestScheduledNamesEachSequenceOnce(t *testing.T) {
	c := defaultConfig()
	c.MaxNumSeqs = 1
	s := newScheduler(t, c)
	a := newSequence(1, 4, infer.SamplingParams{MaxTokens: 2, NumPromptLogprobs: -1})
	b := newSequence(2, 4, infer.SamplingParams{MaxTokens: 1, NumPromptLogprobs: -1})
	require.NoError(t, s.Add(a))
	require.NoError(t, s.Add(b))
	for _, want := range [][]*scheduler.Sequence{{a}, {}, {b}} {
		plan := s.Schedule()
		require.Equal(t, want, append([]*scheduler.Sequence{}, s.Scheduled()...))
		s.Commit(answer(plan, 7))
	}
	require.Nil(t, s.Schedule())
	require.Empty(t, s.Scheduled())
}

// decoding returns a scheduler with numSeqs sequences that decode, and a result
// to answer its plans with.
func decoding(t testing.TB, numSeqs int) (*scheduler.Scheduler, *infer.StepResult) {
	s := newScheduler(t, scheduler.Config{
		MaxNumSeqs: numSeqs, MaxNumBatchedTokens: 2048, MaxModelLen: 1 << 20, EnableChunkedPrefill: true,
		EnablePrefixCaching: true, NumBlocks: 1 << 17, BlockSize: 16,
	})
	for i := range numSeqs {
		require.NoError(t, s.Add(newSequence(infer.SeqID(i+1), 100+i%7, infer.SamplingParams{
			MaxTokens: 4000, NumLogprobs: -1, NumPromptLogprobs: -1, EOSTokenIDs: []int32{1},
		})))
	}
	res := &infer.StepResult{}
	for len(res.Sequences) < numSeqs || s.Stats().NumWaiting > 0 {
		res = answer(s.Schedule(), 7)
		s.Commit(res)
	}
	res = answer(s.Schedule(), 7)
	s.Commit(res)
	require.Len(t, res.Sequences, numSeqs)
	return s, res
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	s, res := decoding(t, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		res.StepID = s.Schedule().StepID
		s.Commit(res)
	}))
}

func BenchmarkScheduleCommit(b *testing.B) {
	s, res := decoding(b, 256)
	left := 3000
	b.ReportAllocs()
	for b.Loop() {
		if left--; left == 0 {
			b.StopTimer()
			s, res = decoding(b, 256)
			left = 3000
			b.StartTimer()
		}
		res.StepID = s.Schedule().StepID
		s.Commit(res)
	}
	b.ReportMetric(256, "sequences/op")
}
