package actors_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// metricsOf returns what a request says of each of its sequences.
func metricsOf(f *infer.Final) []infer.RequestMetrics {
	if f.Metrics != nil {
		return []infer.RequestMetrics{*f.Metrics}
	}
	return f.ChoiceMetrics
}

// requireAddsUp asserts that a breakdown has nothing below 0, adds up to the wall time,
// and says the same as the five values.
func requireAddsUp(t testing.TB, m *infer.RequestMetrics, message string) {
	t.Helper()
	b := m.Breakdown
	require.NotNil(t, b, message)
	parts := []int64{b.Accept, b.GrammarCompile, b.Queue, b.Prefill, b.StalledByPrefill, b.Decode, b.Masking, b.Preempted, b.Recovering, b.Finish()}
	sum := int64(0)
	for i, part := range parts {
		require.GreaterOrEqual(t, part, int64(0), "%s: part %d of %+v", message, i, b)
		sum += part
	}
	require.Equal(t, b.Wall(), sum, message)
	const ms = 1e6
	require.InDelta(t, m.QueueTimeMs.Value, float64(b.Queue)/ms, 1e-9, message)
	service := b.Prefill + b.StalledByPrefill + b.Decode + b.Masking + b.Preempted + b.Recovering
	require.InDelta(t, m.TimeToFirstTokenMs.Value+m.GenerationTimeMs.Value, float64(service)/ms, 1e-6, message)
	require.LessOrEqual(t, b.P99Gap, b.MaxGap, message)
	require.LessOrEqual(t, float64(b.MaxGap)/ms, m.GenerationTimeMs.Value+1e-9, message)
}

// TestBreakdownAddsUp: prompts in chunks, preemptions, drafts, late masks, failures, several choices
// and prompts, at random.
func TestBreakdownAddsUp(t *testing.T) {
	var s script
	var drawn atomic.Int64
	d := testkit.NewDevice(testkit.DeviceOptions{NumBlocks: 32, NumSpecTokens: 3, Fault: s.ask, Inline: func(step int) bool { return step%3 == 0 },
		Defer: func(*infer.ScheduledSequence) bool { return drawn.Add(1)%7 == 0 }})
	e := startEngine(t, d, func(c *actors.Config) { c.MetricsBreakdown, c.PerChoiceMetrics = true, true })
	var total infer.Breakdown
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		requests := randomRequests(rng, 6)
		for _, req := range requests {
			req.Arrival = infer.Now()
		}
		s.play(d, func(step int, plan *infer.StepPlan) error {
			if len(plan.Sequences) > 1 && (uint64(step)*2654435761+seed)>>7%9 == 0 {
				return errors.New("scripted failure")
			}
			return nil
		})
		for i, a := range runAll(t, e, requests, nil) {
			message := fmt.Sprintf("seed %d, request %d", seed, i)
			require.Nil(t, a.final.Err, message)
			a.final.StampWritten(infer.Now())
			all := metricsOf(a.final)
			require.Len(t, all, len(requests[i].Prompts)*requests[i].N, message)
			require.Equal(t, len(all) > 1, a.final.Metrics == nil, message)
			for k := range all {
				requireAddsUp(t, &all[k], message)
				b := all[k].Breakdown
				prompt := len(requests[i].Prompts[k/requests[i].N].TokenIDs)
				require.Equal(t, prompt, b.NumComputedPromptTokens+b.NumCachedPromptTokens, message)
				if b.NumRecoveries == 0 { // a failure that found it in the queue is part of that
					require.Zero(t, b.Recovering, message)
				}
				if b.NumPreemptions == 0 {
					require.Zero(t, b.Preempted, message)
				}
				total.StalledByPrefill += b.StalledByPrefill
				total.Masking += b.Masking
				total.Preempted += b.Preempted
				total.NumPreemptions += b.NumPreemptions
				total.Recovering += b.Recovering
				total.NumRecomputedTokens += b.NumRecomputedTokens
			}
		}
	}
	require.Positive(t, total.Recovering)
	require.Positive(t, total.NumPreemptions)
	require.Positive(t, total.Preempted)
	require.Positive(t, total.Masking)
	require.Positive(t, total.StalledByPrefill)
	require.Positive(t, total.NumRecomputedTokens)
}

func TestBreakdownOnlyIfSwitchedOn(t *testing.T) {
	d := testkit.NewDevice(testkit.DeviceOptions{})
	req := testkit.Completion("hello", 4)
	req.N = 2
	f := generate(t, startEngine(t, d, nil), req).final
	require.Nil(t, f.Metrics)
	require.Nil(t, f.ChoiceMetrics)
	req.N = 1
	require.Nil(t, generate(t, startEngine(t, testkit.NewDevice(testkit.DeviceOptions{}), nil), req).final.Metrics.Breakdown)
}

func TestBreakdownTellsAGrammarApart(t *testing.T) {
	e := startEngine(t, testkit.NewDevice(testkit.DeviceOptions{}), func(c *actors.Config) { c.MetricsBreakdown = true })
	req := testkit.Completion("hello", 4)
	f := generate(t, e, req).final
	require.Zero(t, f.Metrics.Breakdown.GrammarCompile)

	req.Arrival = infer.Now()
	req.Structured = &infer.StructuredOutput{Param: "structured_outputs", Regex: "[a-z]{1,40}"}
	stream, err := e.Generate(context.Background(), req)
	require.NoError(t, err)
	a, err := read(stream)
	require.NoError(t, err)
	require.NotNil(t, a.final.Metrics, a.final.Err)
	a.final.StampWritten(infer.Now())
	require.Positive(t, a.final.Metrics.Breakdown.GrammarCompile)
	requireAddsUp(t, a.final.Metrics, "with a grammar")
}

// TestBreakdownIsFreePerToken compares the allocations of long answers: beside what a
// request costs there must be nothing, however many tokens it has.
func TestBreakdownIsFreePerToken(t *testing.T) {
	const short, long = 100, 4100
	perToken := func(on bool) float64 {
		e := nullEngine(t, func(c *actors.Config) {
			c.PerRequestMetrics, c.MetricsBreakdown, c.PerChoiceMetrics = true, on, on
		})
		run := func(numTokens int) float64 {
			return testing.AllocsPerRun(3, func() {
				req := testkit.Completion("hello", numTokens)
				req.Sampling.IgnoreEOS = true
				stream, err := e.Generate(context.Background(), req)
				require.NoError(t, err)
				drain(stream)
			})
		}
		return (run(long) - run(short)) / (long - short)
	}
	runtime.GC()
	off, on := perToken(false), perToken(true)
	t.Logf("allocations per token: %.3f without, %.3f with", off, on)
	require.InDelta(t, off, on, 0.05)
}
