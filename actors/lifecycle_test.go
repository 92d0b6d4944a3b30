package actors_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/metrics"
)

// held is a device whose steps wait for a permit each.
type held struct {
	*testkit.Device
	permits chan struct{}
}

func newHeld(o testkit.DeviceOptions) *held {
	h := &held{permits: make(chan struct{})}
	o.Next = func(history []int32, p *infer.SamplingParams) int32 {
		<-h.permits
		return testkit.NextToken(history, p)
	}
	h.Device = testkit.NewDevice(o)
	return h
}

func endless(maxTokens int) *infer.Request {
	req := testkit.Completion("hello", maxTokens)
	req.Sampling.IgnoreEOS = true
	return req
}

func TestQueueLimit(t *testing.T) {
	h := newHeld(testkit.DeviceOptions{})
	reg := prometheus.NewRegistry()
	e := startEngine(t, h.Device, func(c *actors.Config) {
		c.Scheduler.MaxNumSeqs, c.MaxQueuedReqs = 1, 4
		c.Metrics = []*metrics.Engine{metrics.NewEngine(reg, metrics.EngineOptions{ModelName: "m", Engine: "0", MaxModelLen: 128})}
	})
	var streams []infer.Stream
	refused := 0
	for range 20 {
		s, err := e.Generate(context.Background(), endless(2))
		if err != nil {
			refused++
			require.GreaterOrEqual(t, requireError(t, err, infer.CodeOverloaded, "limit is 4").RetryAfter, time.Second)
			continue
		}
		streams = append(streams, s)
	}
	require.Len(t, streams, 5)
	unsound := endless(2)
	unsound.Prompts[0].Text = ""
	_, err := e.Generate(context.Background(), unsound)
	requireError(t, err, infer.CodeOverloaded, "limit is 4") // before anything is spent on it
	refused++
	close(h.permits)
	for _, s := range streams {
		a, err := read(s)
		require.NoError(t, err)
		require.Nil(t, a.final.Err)
	}
	require.EqualValues(t, refused, counter(t, reg, "vllm:admission_rejections_total"))
	require.Nil(t, generate(t, e, endless(2)).final.Err, "there is room again as soon as a client has its answer")
}

// counter sums a family's counters and the counts of its histograms.
func counter(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// histogramSum returns the sum of a histogram's samples.
func histogramSum(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			sum += f.Metric[0].GetHistogram().GetSampleSum()
		}
	}
	return sum
}

func TestDrainWaits(t *testing.T) {
	h := newHeld(testkit.DeviceOptions{})
	e := startEngine(t, h.Device, nil)
	s, err := e.Generate(context.Background(), endless(4))
	require.NoError(t, err)
	require.NoError(t, e.Health())
	drained := make(chan error)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { drained <- e.Drain(ctx) }()
	for e.Health() == nil { // until Drain has begun
	}
	_, err = e.Generate(context.Background(), endless(4))
	require.Positive(t, requireError(t, err, infer.CodeUnavailable, "shutting down").RetryAfter)
	close(h.permits)
	a, err := read(s)
	require.NoError(t, err)
	require.Nil(t, a.final.Err, "what runs is finished")
	require.Len(t, a.choices[0].tokenIDs, 4)
	require.NoError(t, <-drained)
}

func TestDrainGivesUp(t *testing.T) {
	h := newHeld(testkit.DeviceOptions{})
	e := startEngine(t, h.Device, nil)
	s, err := e.Generate(context.Background(), endless(4))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, e.Drain(ctx), context.Canceled)
	a, err := read(s)
	require.NoError(t, err)
	requireError(t, a.final.Err, infer.CodeUnavailable, "shutting down")
	close(h.permits)
}

func TestDrainOfNothingNeedsNoTime(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		e := newScripted(t, nil)
		require.NoError(t, e.Drain(ctx))
	}
}

func TestCloseTwiceAndAfter(t *testing.T) {
	d := testkit.NewDevice(testkit.DeviceOptions{})
	e := startEngine(t, d, nil)
	s, err := e.Generate(context.Background(), endless(100))
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	_, err = read(s)
	require.NoError(t, err, "the stream has its end")
	_, err = e.Generate(context.Background(), endless(4))
	requireError(t, err, infer.CodeUnavailable, "shutting down")
	require.Error(t, e.Health())
	require.Nil(t, d.Runner())
}

func TestDeviceThatStaysDead(t *testing.T) {
	d := testkit.NewDevice(testkit.DeviceOptions{
		Fault: func(int, *infer.StepPlan) error { return errors.New("device lost") },
		OpenFault: func(attempt int) error {
			if attempt > 1 {
				return errors.New("device lost")
			}
			return nil
		},
	})
	e := startEngine(t, d, func(c *actors.Config) { c.RecoveryTimeout = time.Millisecond })
	a := generate(t, e, endless(4))
	requireError(t, a.final.Err, infer.CodeUnavailable, "No inference device")
	require.Error(t, e.Health())
	_, err := e.Generate(context.Background(), endless(4))
	require.Positive(t, requireError(t, err, infer.CodeUnavailable, "No inference device").RetryAfter)
}

// The books: what the series say is what the clients saw, aborts, failures and
// restarts included.
func TestBooks(t *testing.T) {
	reg := prometheus.NewRegistry()
	s, gate := &script{}, make(chan struct{})
	d := testkit.NewDevice(testkit.DeviceOptions{Fault: s.ask, Next: func(history []int32, p *infer.SamplingParams) int32 {
		if string(history[:4]) == "gone" && len(history) == 4+3 {
			<-gate // three tokens, then silence until the client has left
		}
		return testkit.NextToken(history, p)
	}})
	e := startEngine(t, d, func(c *actors.Config) {
		c.Metrics = []*metrics.Engine{metrics.NewEngine(reg, metrics.EngineOptions{ModelName: "m", Engine: "0", MaxModelLen: 128})}
	})
	s.play(d, func(step int, plan *infer.StepPlan) error {
		if step == 7 {
			return errors.New("scripted failure")
		}
		for _, seq := range plan.Sequences {
			if string(seq.PromptTokenIDs) == "poison" && len(seq.OutputTokenIDs) == 2 {
				return &infer.SequenceFault{SeqID: seq.SeqID, Err: errors.New("scripted culprit")}
			}
		}
		return nil
	})
	var requests []*infer.Request
	for i := range 6 {
		req := endless(5 + i)
		req.N = 1 + i%2
		requests = append(requests, req)
	}
	culprit := endless(8)
	culprit.Prompts[0].Text = "poison"
	answers := runAll(t, e, append(requests, culprit), nil)
	require.NotNil(t, answers[6].final.Err)
	answers = append(answers, leaveAfter(t, e, "gone", 3))
	close(gate)

	var prompt, generated int
	for _, a := range answers {
		prompt += a.final.Usage.NumPromptTokens
		generated += a.final.Usage.NumCompletionTokens
	}
	const sequences, ended = 11, 9 // the culprit and the one that left did not come to their own end
	for name, want := range map[string]int{
		"vllm:request_success_total":             8,
		"vllm:e2e_request_latency_seconds":       6, // of those that came to their own end
		"vllm:request_prompt_tokens":             8,
		"vllm:request_params_n":                  8,
		"vllm:request_generation_tokens":         sequences,
		"vllm:time_to_first_token_seconds":       sequences,
		"vllm:inter_token_latency_seconds":       generated - sequences,
		"vllm:request_queue_time_seconds":        ended,
		"vllm:request_prefill_time_seconds":      ended,
		"vllm:request_decode_time_seconds":       ended,
		"vllm:prompt_tokens_total":               prompt,
		"vllm:generation_tokens_total":           generated,
		"troupe:batcher_restarts_total":          2,
		"troupe:unknown_messages_total":          0,
		"vllm:request_num_preemptions":           sequences,
		"vllm:request_max_num_generation_tokens": 8,
	} {
		require.EqualValues(t, want, counter(t, reg, name), name)
	}
	require.EqualValues(t, generated, histogramSum(t, reg, "vllm:request_generation_tokens"))
	require.EqualValues(t, prompt, histogramSum(t, reg, "vllm:request_prompt_tokens"))
}

// The batcher runs ahead here, so it draws tokens behind some stop strings: they
// are work of its steps, and of no client's bill.
func TestBooksLeaveOutWhatAStopStringCutOff(t *testing.T) {
	reg := prometheus.NewRegistry()
	d := testkit.NewDevice(testkit.DeviceOptions{
		Inline: func(int) bool { return true },
		Next:   func([]int32, *infer.SamplingParams) int32 { return 'a' },
	})
	e := startEngine(t, d, func(c *actors.Config) {
		c.Scheduler.EnablePrefixCaching = false
		c.Metrics = []*metrics.Engine{metrics.NewEngine(reg, metrics.EngineOptions{ModelName: "m", Engine: "0", MaxModelLen: 128})}
	})
	billed, prompts := 0, 0
	drawn := func() float64 { return histogramSum(t, reg, "vllm:iteration_tokens_total") }
	for i := 0; i < 4 || drawn() <= float64(prompts+billed); i++ {
		n := 1 + i%4
		req := endless(100)
		req.Sampling.Stop = []string{strings.Repeat("a", n)}
		a := generate(t, e, req)
		require.Equal(t, n, a.final.Usage.NumCompletionTokens)
		billed += n
		prompts += a.final.Usage.NumPromptTokens
	}
	require.EqualValues(t, billed, counter(t, reg, "vllm:generation_tokens_total"))
	require.EqualValues(t, billed, histogramSum(t, reg, "vllm:request_generation_tokens"))
}

// leaveAfter reads n tokens of an endless answer, cancels it and reads its end.
func leaveAfter(t testing.TB, e *actors.Engine, text string, n int) *answer {
	req := endless(100)
	req.Prompts[0].Text = text
	s, err := e.Generate(context.Background(), req)
	require.NoError(t, err)
	for read := 0; read < n; {
		<-s.Ready()
		for _, event := range s.Drain(nil) {
			read += len(event.Delta.TokenIDs)
		}
	}
	s.Cancel(infer.CancelClientGone)
	a, err := read(s)
	require.NoError(t, err)
	require.Nil(t, a.final.Err)
	return a
}

// Clients that come, read a little and go, while the device fails now and then:
// everything that was opened is closed and every place given back.
func TestNothingIsLeftBehind(t *testing.T) {
	s := &script{}
	d := testkit.NewDevice(testkit.DeviceOptions{Fault: s.ask})
	e := startEngine(t, d, func(c *actors.Config) { c.MaxQueuedReqs = 64 })
	s.play(d, func(step int, plan *infer.StepPlan) error {
		if step%11 == 0 && len(plan.Sequences) > 1 {
			return testkit.Panic{Value: "scripted panic"}
		}
		return nil
	})
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			for i := range 12 {
				stream, err := e.Generate(context.Background(), endless(10))
				if err != nil {
					continue
				}
				if (client+i)%3 == 0 {
					stream = &cancelling{Stream: stream, after: 1 + i%3}
				}
				_, err = read(stream)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Nil(t, generate(t, e, endless(10)).final.Err)
	require.NoError(t, e.Drain(context.Background()))
}
