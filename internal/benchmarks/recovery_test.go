package benchmarks_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/scheduler"
	"github.com/troupe-llm/troupe/tokenizer"
)

// A stream of this benchmark: its prompt, the tokens it has when the batcher is
// killed, and those it gets in all.
const (
	recoveryPrompt = 32
	recoveryAt     = 64
	recoveryTokens = 96
)

// BenchmarkRecovery kills the batcher under N running streams of the embedded
// model with an injected panic. The pause is the greatest gap between two tokens
// of a stream. Beside it stands what it cannot be shorter than: the time that the
// model itself takes to compute the stream's tokens again, from the first step of
// the new batcher to the one that gives the stream its next token. All are medians
// over streams, in the run with the median ratio. Goal: pause <= 5 steps + re-prefill.
func BenchmarkRecovery(b *testing.B) {
	for _, streams := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			bench := newRecoveryBench(b, streams)
			var ratios, pauses, steps, prefills []float64
			for range max(rounds/(1+streams/128), 3) * b.N { // many streams take long
				r := bench.run(b)
				ratios, pauses = append(ratios, r.pause/(5*r.step+r.prefill)), append(pauses, r.pause)
				steps, prefills = append(steps, r.step), append(prefills, r.prefill)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(pauses), "ms-pause")
			b.ReportMetric(median(steps), "ms-step")
			b.ReportMetric(median(prefills), "ms-re-prefill")
		})
	}
}

// recoveryBench is an engine whose runner is watched.
type recoveryBench struct {
	streams int
	engine  *actors.Engine
	watch   *watch
}

// watch notes the steps of all runners, one at a time.
type watch struct {
	mu     sync.Mutex
	opened int // runners
	killed int // value of opened when the fault was armed; 0 = not yet
	arm    func()
	before []time.Duration               // of steps in which all decode, launch to launch
	launch time.Time                     // of the last such step
	busy   time.Duration                 // of the model since the failure
	again  map[infer.SeqID]time.Duration // busy when a sequence had its next token
}

// watched is a runner with a watch.
type watched struct {
	infer.Runner
	streams int
	watch   *watch
}

// Launch implements infer.Runner.
func (r *watched) Launch(plan *infer.StepPlan, done func(*infer.StepResult, error)) {
	start := time.Now()
	r.watch.begin(plan, r.streams, start)
	r.Runner.Launch(plan, func(res *infer.StepResult, err error) {
		r.watch.end(plan, time.Since(start))
		done(res, err)
	})
}

func (w *watch) begin(plan *infer.StepPlan, streams int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killed > 0 || plan.NumTokens != streams || len(plan.Sequences) != streams {
		w.launch = time.Time{}
		return
	}
	if !w.launch.IsZero() {
		w.before = append(w.before, now.Sub(w.launch))
	}
	w.launch = now
	for i := range plan.Sequences {
		if len(plan.Sequences[i].OutputTokenIDs) < recoveryAt {
			return
		}
	}
	w.killed = w.opened
	w.arm() // the next step fails
}

func (w *watch) end(plan *infer.StepPlan, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killed == 0 || w.opened == w.killed {
		return
	}
	w.busy += took
	for i := range plan.Sequences {
		if s := &plan.Sequences[i]; s.Sample && w.again[s.SeqID] == 0 {
			w.again[s.SeqID] = w.busy
		}
	}
}

func newRecoveryBench(b *testing.B, streams int) *recoveryBench {
	b.Helper()
	const maxLen, maxTokens = 1024, 2048 // of the serve command
	seats := max(streams, 256)
	backend, err := cpu.New(cpu.Options{})
	require.NoError(b, err)
	folder := understudy.Embedded()
	m, err := model.Load(folder, model.Options{Backend: backend, DType: "auto", KVCacheDType: "auto", MaxModelLen: maxLen,
		MaxNumSeqs: seats, MaxNumBatchedTokens: maxTokens, GenerationConfig: "vllm"})
	require.NoError(b, err)
	raw, err := folder.File("tokenizer.json")
	require.NoError(b, err)
	tok, err := tokenizer.New(raw, tokenizer.Config{})
	require.NoError(b, err)
	r := &recoveryBench{streams: streams, watch: &watch{}}
	r.engine, err = actors.NewEngine(actors.Config{
		Tokenizer: tok, FaultInjection: true,
		NewRunner: func(int) (infer.Runner, error) {
			runner, err := m.NewRunner()
			r.watch.mu.Lock()
			r.watch.opened++
			r.watch.mu.Unlock()
			return &watched{Runner: runner, streams: streams, watch: r.watch}, err
		},
		Scheduler: scheduler.Config{MaxNumSeqs: seats, MaxNumBatchedTokens: maxTokens, MaxModelLen: maxLen,
			EnableChunkedPrefill: true, EnablePrefixCaching: true},
		Model: infer.ModelInfo{ServedNames: []string{"understudy"}, MaxModelLen: maxLen, VocabSize: tok.VocabSize()},
	})
	require.NoError(b, err)
	r.watch.arm = func() { _ = r.engine.InjectFault("panic", 0) }
	b.Cleanup(func() {
		require.NoError(b, r.engine.Close())
		require.NoError(b, backend.Close())
	})
	return r
}

// recovery is what one run gave, in milliseconds.
type recovery struct{ pause, step, prefill float64 }

func (r *recoveryBench) run(b *testing.B) recovery {
	b.Helper()
	w := r.watch
	w.mu.Lock()
	w.killed, w.before, w.busy, w.again, w.launch = 0, nil, 0, map[infer.SeqID]time.Duration{}, time.Time{}
	w.mu.Unlock()
	pauses, errs := make([]float64, r.streams), make([]error, r.streams)
	var wg sync.WaitGroup
	for i := range r.streams {
		stream, err := r.engine.Generate(context.Background(), recoveryRequest(i))
		require.NoError(b, err)
		wg.Go(func() { pauses[i], errs[i] = greatestGap(stream) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(b, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(b, w.again, r.streams, "all were aboard")
	var steps, prefills []float64
	for _, d := range w.before {
		steps = append(steps, milliseconds(d))
	}
	for _, d := range w.again {
		prefills = append(prefills, milliseconds(d))
	}
	return recovery{median(pauses), median(steps), median(prefills)}
}

// recoveryRequest makes prompts that share no prefix.
func recoveryRequest(i int) *infer.Request {
	prompt := make([]int32, recoveryPrompt)
	for j := range prompt {
		prompt[j] = int32(300 + (i*37+j*11)%1000)
	}
	tokens := recoveryTokens
	return &infer.Request{
		ID: fmt.Sprint("bench-", i), Arrival: infer.Now(), Prompts: []infer.Prompt{{TokenIDs: prompt}}, N: 1, MaxTokens: &tokens, SeedGiven: true,
		Sampling: infer.SamplingParams{Temperature: 1, TopP: 1, RepetitionPenalty: 1, Seed: uint64(i), IgnoreEOS: true, NumLogprobs: -1, NumPromptLogprobs: -1},
	}
}

// greatestGap reads a stream to its end and returns the greatest time between two
// tokens, in milliseconds.
func greatestGap(stream infer.Stream) (float64, error) {
	var last time.Time
	var greatest time.Duration
	var events []infer.Event
	for range stream.Ready() {
		events = stream.Drain(events[:0])
		now := time.Now()
		for i := range events {
			if f := events[i].Final; f != nil && f.Err != nil {
				return 0, f.Err
			} else if f != nil {
				return milliseconds(greatest), nil
			}
		}
		if !last.IsZero() {
			greatest = max(greatest, now.Sub(last))
		}
		last = now
	}
	return 0, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
