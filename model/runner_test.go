package model_test

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/sampling"
)

// threeSequences are three prompts whose first step samples all of them.
func threeSequences(small *modelkit.Llama) []*sequence {
	var seqs []*sequence
	for n := range 3 {
		p := greedy(2)
		p.NumPromptLogprobs = 1
		seqs = append(seqs, &sequence{prompt: prompt(6+n, small.Vocab), params: p, max: 5})
	}
	return seqs
}

func TestPanicWhileSamplingNamesTheSequence(t *testing.T) {
	small := modelkit.Small(1)
	m := load(t, small.Write(t, "F32", 1), options(t))
	quiet := threeSequences(small)
	(&driver{runner: newRunner(t, m)}).run(t, quiet...)

	broken := true
	model.InjectSamplingFault(m, func(r sampling.Row) bool { return broken && len(r.Prompt) == 7 })
	d := &driver{runner: newRunner(t, m)}
	seqs := threeSequences(small)
	plan, _ := d.plan(seqs)
	res, err := launch(d.runner, plan)
	require.Nil(t, res)
	var fault *infer.SequenceFault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, plan.Sequences[1].SeqID, fault.SeqID)
	require.ErrorContains(t, err, "injected sampling fault")
	require.ErrorContains(t, err, "step.go", "the stack is for the log")

	// The runner survives, and so does a new one over the same weights.
	broken = false
	d.run(t, seqs...)
	again := threeSequences(small)
	(&driver{runner: newRunner(t, m)}).run(t, again...)
	for i := range quiet {
		require.Equal(t, quiet[i].output, seqs[i].output)
		require.Equal(t, quiet[i].output, again[i].output)
		require.Equal(t, bitsOf(quiet[i].logprobs), bitsOf(again[i].logprobs))
	}
}

func TestPanicInTheForwardPassIsAnError(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	m := load(t, small.Write(t, "F32", 1), o)
	o.Backend.(*tapped).onEmbed = func() { panic("injected device fault") }
	d := &driver{runner: newRunner(t, m)}
	seqs := threeSequences(small)
	plan, _ := d.plan(seqs)
	_, err := launch(d.runner, plan)
	require.ErrorContains(t, err, "injected device fault")
	require.ErrorContains(t, err, "step.go", "the stack is for the log")
	var fault *infer.SequenceFault
	require.False(t, errors.As(err, &fault), "nobody is to blame")

	o.Backend.(*tapped).onEmbed = nil
	(&driver{runner: newRunner(t, m)}).run(t, seqs...)
	require.Len(t, seqs[0].output, 5)
}

func TestDeviceErrorEndsTheStep(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	m := load(t, small.Write(t, "F32", 1), o)
	lost := errors.New("device lost")
	o.Backend.(*tapped).onSync = func() error { return lost }
	d := &driver{runner: newRunner(t, m)}
	plan, _ := d.plan([]*sequence{{prompt: prompt(9, small.Vocab), params: greedy(-1), max: 1, chunk: 4}})
	_, err := launch(d.runner, plan) // a chunk that reads no logits learns of it too
	require.ErrorIs(t, err, lost)
	plan, _ = d.plan(threeSequences(small))
	_, err = launch(d.runner, plan)
	require.ErrorIs(t, err, lost)
}

func TestLogitsThatAreNotFiniteFailOneSequence(t *testing.T) {
	for name, poison := range map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1))} {
		t.Run(name, func(t *testing.T) {
			small, o := modelkit.Small(1), options(t)
			m := load(t, small.Write(t, "F32", 1), o)
			quiet := threeSequences(small)
			(&driver{runner: newRunner(t, m)}).run(t, quiet...)
			// The first step's rows: 5 + 1 of the first sequence, 6 + 1 of the second, 7 + 1.
			for row, bad := range map[int]int{5: 0, 8: 1, 20: 2} {
				o.Backend.(*tapped).onHost = func(values []float32) {
					if len(values) == 21*small.Vocab {
						values[row*small.Vocab+13] = poison
					}
				}
				seqs := threeSequences(small)
				(&driver{runner: newRunner(t, m)}).run(t, seqs...)
				for i := range seqs {
					if i == bad {
						require.ErrorContains(t, seqs[i].err, "not finite")
						require.Empty(t, seqs[i].output)
						continue
					}
					require.NoError(t, seqs[i].err)
					require.Equal(t, quiet[i].output, seqs[i].output)
					require.Equal(t, bitsOf(quiet[i].promptLogprobs), bitsOf(seqs[i].promptLogprobs))
				}
			}
		})
	}
}

func TestTokenOutsideTheVocabularyFailsOneSequence(t *testing.T) {
	small := modelkit.Small(1)
	m := load(t, small.Write(t, "F32", 1), options(t))
	for _, id := range []int32{-1, int32(small.Vocab), math.MaxInt32} {
		seqs := threeSequences(small)
		seqs[1].prompt[3] = id
		(&driver{runner: newRunner(t, m)}).run(t, seqs...)
		require.ErrorContains(t, seqs[1].err, "outside the vocabulary of 67 tokens")
		require.Len(t, seqs[0].output, 5)
		require.Len(t, seqs[2].output, 5)
	}
}

func TestPlansThatBreakTheLimitsAreErrors(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	o.MaxNumBatchedTokens, o.NumBlocksOverride = 16, 6
	m := load(t, small.Write(t, "F32", 1), o)
	r := newRunner(t, m)
	share := func(n, start int, blocks ...int32) infer.ScheduledSequence {
		return infer.ScheduledSequence{SeqID: 5, TokenIDs: make([]int32, n), StartPos: start, BlockTable: blocks,
			Params: greedy(-1), PromptTokenIDs: make([]int32, n), Sample: true}
	}
	for message, plan := range map[string][]infer.ScheduledSequence{
		"more than max_num_batched_tokens 16":             {share(9, 0, 0), share(8, 0, 1)},
		"positions 90 to 97 are outside the context":      {share(8, 90, 0, 1, 2, 3, 4, 5, 0)},
		"1 blocks of 16 tokens do not hold 17 tokens":     {share(1, 16, 0)},
		"block 6 is not one of the 6":                     {share(3, 0, 6)},
		"block -1 is not one of the 6":                    {share(3, 0, -1)},
		"positions -2 to 0 are outside the context of 96": {share(3, -2, 0)},
	} {
		_, err := launch(r, &infer.StepPlan{Sequences: plan})
		require.ErrorContains(t, err, message)
	}
	res, err := launch(r, &infer.StepPlan{StepID: 9, Sequences: []infer.ScheduledSequence{share(0, 0)}})
	require.NoError(t, err, "a plan without tokens is an empty step")
	require.Len(t, res.Sequences, 1)
	res, err = launch(r, &infer.StepPlan{Sequences: []infer.ScheduledSequence{share(16, 80, 0, 1, 2, 3, 4, 5)}})
	require.NoError(t, err, "the last position of the context is usable")
	require.Len(t, res.Sequences[0].NewTokenIDs, 1)
}

func TestPromptLogprobsStopAtThePromptsEnd(t *testing.T) {
	small := modelkit.Small(1)
	m := load(t, small.Write(t, "F32", 1), options(t))
	s := &sequence{prompt: prompt(5, small.Vocab), params: greedy(-1), max: 4}
	s.params.NumPromptLogprobs = 0
	(&driver{runner: newRunner(t, m)}).run(t, s)
	require.Len(t, s.promptLogprobs, 4)
	require.Empty(t, s.logprobs)
	for i, lp := range s.promptLogprobs {
		require.Equal(t, s.prompt[i+1], lp.Token.TokenID)
		require.Empty(t, lp.Top)
	}
}

func TestLaunchIsRefusedWhileBusyAndAfterClose(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	m := load(t, small.Write(t, "F32", 1), o)
	entered, proceed := make(chan struct{}), make(chan struct{})
	o.Backend.(*tapped).onEmbed = func() { entered <- struct{}{}; <-proceed }
	r := newRunner(t, m)
	d := &driver{runner: r}
	plan, _ := d.plan(threeSequences(small))

	var calls atomic.Int32
	answers := make(chan error, 3)
	done := func(_ *infer.StepResult, err error) { calls.Add(1); answers <- err }
	r.Launch(plan, done)
	<-entered
	// One place is free once the runner has taken the first step; the third is one too many.
	r.Launch(plan, done)
	r.Launch(plan, done)
	require.ErrorContains(t, <-answers, "in flight")
	proceed <- struct{}{}
	require.NoError(t, <-answers)
	<-entered
	proceed <- struct{}{}
	require.NoError(t, <-answers)

	require.NoError(t, r.Close())
	require.NoError(t, r.Close(), "a second call does nothing")
	r.Launch(plan, done)
	require.ErrorContains(t, <-answers, "closed")
	require.EqualValues(t, 4, calls.Load())
}

// TestRunnersAreIndependent hangs a step of one runner: others open, work and
// close meanwhile over the same weights, and it ends well once it can.
func TestRunnersAreIndependent(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
	small, o := modelkit.Small(1), options(t)
	m := load(t, small.Write(t, "F32", 1), o)
	taps := o.Backend.(*tapped).taps
	quiet := threeSequences(small)
	(&driver{runner: newRunner(t, m)}).run(t, quiet...)

	entered, proceed := make(chan struct{}), make(chan struct{})
	taps.onEmbed = func() { close(entered); <-proceed }
	hung := newRunner(t, m)
	plan, _ := (&driver{runner: hung}).plan(threeSequences(small))
	answer := make(chan error, 1)
	hung.Launch(plan, func(_ *infer.StepResult, err error) { answer <- err })
	<-entered
	taps.onEmbed = nil

	before := taps.forks.Load()
	for range 3 {
		r := newRunner(t, m)
		require.Equal(t, m.Spec(), r.Spec())
		seqs := threeSequences(small)
		(&driver{runner: r}).run(t, seqs...)
		for i := range seqs {
			require.Equal(t, quiet[i].output, seqs[i].output)
			require.Equal(t, bitsOf(quiet[i].logprobs), bitsOf(seqs[i].logprobs))
		}
		require.NoError(t, r.Close())
		require.NoError(t, r.Close(), "a second call does nothing")
	}
	require.Equal(t, before, taps.forks.Load(), "what closed runners had is freed")

	closed := make(chan error, 1)
	go func() { closed <- hung.Close() }()
	close(proceed)
	require.NoError(t, <-answer)
	require.NoError(t, <-closed)
	require.Equal(t, before-1, taps.forks.Load(), "the hung one is freed when its step has ended")
	require.EqualValues(t, 5, taps.caches.Load(), "a cache for each")
}

// TestRunnersTogether runs steps of several runners at the same time.
func TestRunnersTogether(t *testing.T) {
	small := modelkit.Small(1)
	m := load(t, small.Write(t, "F32", 1), options(t))
	var seqs [4][]*sequence
	var running sync.WaitGroup
	for i := range seqs {
		r := newRunner(t, m)
		seqs[i] = threeSequences(small)
		running.Go(func() { (&driver{runner: r}).run(t, seqs[i]...) })
	}
	running.Wait()
	for _, s := range seqs[1:] {
		for i := range s {
			require.Equal(t, seqs[0][i].output, s[i].output)
			require.Equal(t, bitsOf(seqs[0][i].logprobs), bitsOf(s[i].logprobs))
		}
	}
	require.Equal(t, 67, m.Spec().VocabSize)
	require.Equal(t, 96, m.Spec().MaxModelLen)
	require.Equal(t, "float32", m.Spec().DType)
}

// TestRunnerOutlivesItsBackend: the weights stay while a runner reads them, and
// no new one gets at them.
func TestRunnerOutlivesItsBackend(t *testing.T) {
	small, o := modelkit.Small(1), options(t)
	b, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	o.Backend = b
	m := load(t, small.Write(t, "F32", 1), o)
	r := newRunner(t, m)
	require.NoError(t, b.Close())
	seqs := threeSequences(small)
	(&driver{runner: r}).run(t, seqs...)
	require.Len(t, seqs[0].output, 5)
	_, err = m.NewRunner()
	require.ErrorContains(t, err, "closed")
}

// A decode step's allocations are those of its result: they must not grow with
// the number of sequences.
func TestStepAllocatesOnlyItsResult(t *testing.T) {
	small := modelkit.Small(1)
	m := load(t, small.Write(t, "F32", 1), options(t))
	measure := func(n int) float64 {
		d := &driver{runner: newRunner(t, m)}
		seqs := make([]*sequence, n)
		for i := range seqs {
			seqs[i] = &sequence{prompt: prompt(3, small.Vocab), params: greedy(-1), max: 1}
		}
		plan, _ := d.plan(seqs)
		answer := make(chan error, 1)
		done := func(_ *infer.StepResult, err error) { answer <- err }
		return testing.AllocsPerRun(20, func() {
			d.runner.Launch(plan, done)
			if err := <-answer; err != nil {
				panic(err)
			}
		})
	}
	one := measure(1)
	require.LessOrEqual(t, one, 4.0)
	require.Equal(t, one, measure(50))
}
