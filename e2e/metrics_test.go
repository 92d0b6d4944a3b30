//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fields of the metrics object, in the contract's order.
var metricFields = []string{"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second"}

// times is a metrics object with no null in it.
type times struct{ ttft, generation, queue, itl, tps float64 }

func readTimes(t *testing.T, o obj) times {
	t.Helper()
	m, ok := o["metrics"].(obj)
	require.True(t, ok, "no metrics object: %v", o)
	require.Len(t, m, len(metricFields))
	var v [5]float64
	for i, f := range metricFields {
		n, ok := m[f].(float64)
		require.True(t, ok, "%s is not a number: %v", f, m)
		require.False(t, math.IsInf(n, 0) || math.IsNaN(n) || n < 0, "%s = %v", f, n)
		v[i] = n
	}
	return times{v[0], v[1], v[2], v[3], v[4]}
}

func (m times) total() float64   { return m.queue + m.ttft + m.generation }
func (m times) service() float64 { return m.ttft + m.generation }

// requireIdentities checks that five values and a token count can be true together.
func requireIdentities(t *testing.T, m times, tokens int) {
	t.Helper()
	require.Greater(t, tokens, 1)
	require.InDelta(t, m.generation, m.itl*float64(tokens-1), math.Max(0.1, m.generation*0.01))
	require.InEpsilon(t, float64(tokens)*1000/m.service(), m.tps, 0.01)
}

func TestO01FieldsAgree(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	req := obj{"model": "understudy", "messages": user("Count from one to fifty in words."), "max_tokens": 64, "temperature": 0, "ignore_eos": true}
	seen := map[times]bool{}
	var gaps []float64
	for range 50 {
		o, r := s.chat(req)
		m := readTimes(t, o)
		requireIdentities(t, m, usage(o, "completion_tokens"))
		wall := r.Wall.Seconds() * 1000
		require.LessOrEqual(t, m.total(), wall)
		gaps = append(gaps, wall-m.total()-wall*0.05)
		seen[m] = true
	}
	require.Len(t, seen, 50, "a metrics object came twice")
	slices.Sort(gaps)
	require.Less(t, gaps[25], 20.0, "time that belongs to no field, ms (median)")

	for n := 2; n < 200; n *= 3 { // other endpoints, lengths and forms
		text := obj{"model": "understudy", "prompt": "Once upon a time", "max_tokens": n, "ignore_eos": true, "seed": n}
		o, _ := s.complete(text)
		requireIdentities(t, readTimes(t, o), n)
		for path, fields := range map[string]obj{"/v1/completions": text, "/v1/chat/completions": with(req, obj{"max_tokens": n})} {
			e := s.stream(path, with(fields, obj{"stream_options": obj{"include_usage": true}}))
			m := readTimes(t, e.last())
			requireIdentities(t, m, n)
			require.LessOrEqual(t, m.total(), e.Wall.Seconds()*1000)
		}
	}
}

func TestO02SeveralChoicesHaveNoMetrics(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	req := obj{"model": "understudy", "messages": user("Name a colour."), "n": 2, "max_tokens": 16, "temperature": 1}
	one, _ := s.chat(with(req, obj{"n": 1}))
	o, _ := s.chat(req)
	require.Contains(t, o, "metrics")
	require.Nil(t, o["metrics"])
	require.Len(t, o["choices"], 2)
	for i := range 2 {
		require.EqualValues(t, i, choice(o, i)["index"])
		require.NotEmpty(t, choice(o, i)["finish_reason"])
	}
	require.Equal(t, usage(one, "prompt_tokens"), usage(o, "prompt_tokens"))
	require.Equal(t, usage(o, "total_tokens"), usage(o, "prompt_tokens")+usage(o, "completion_tokens"))
	counted, _ := s.chat(with(req, obj{"logprobs": true}))
	entries := 0
	for i := range 2 {
		entries += len(choice(counted, i)["logprobs"].(obj)["content"].([]any))
	}
	require.Equal(t, entries, usage(counted, "completion_tokens"), "the sum over the choices")

	e := s.stream("/v1/chat/completions", with(req, obj{"stream_options": obj{"include_usage": true}}))
	require.True(t, e.Done)
	require.Nil(t, e.last()["metrics"])
	require.NotEmpty(t, e.finish(0))
	require.NotEmpty(t, e.finish(1))
	require.Equal(t, usage(one, "prompt_tokens"), usage(e.last(), "prompt_tokens"))
	fixed := s.stream("/v1/chat/completions", with(req, obj{"ignore_eos": true, "stream_options": obj{"include_usage": true}}))
	require.Equal(t, 2*16, usage(fixed.last(), "completion_tokens"), "the sum over the choices")

	text := obj{"model": "understudy", "prompt": "A colour is", "n": 3, "max_tokens": 5, "temperature": 1, "ignore_eos": true}
	three, _ := s.complete(text)
	require.Nil(t, three["metrics"])
	require.Equal(t, 3*5, usage(three, "completion_tokens"))
	e = s.stream("/v1/completions", with(text, obj{"stream_options": obj{"include_usage": true}}))
	require.Nil(t, e.last()["metrics"])
	require.Equal(t, 3*5, usage(e.last(), "completion_tokens"))
	require.Equal(t, usage(three, "prompt_tokens"), usage(e.last(), "prompt_tokens"))
}

func TestO03SeveralPrompts(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	prompts := []string{"One plus one is", "The sky is"}
	req := obj{"model": "understudy", "max_tokens": 8, "temperature": 0}
	var sum [2]int
	var texts []string
	for _, p := range prompts {
		o, _ := s.complete(with(req, obj{"prompt": []string{p}}))
		readTimes(t, o) // a list of one prompt is one stream
		sum[0] += usage(o, "prompt_tokens")
		sum[1] += usage(o, "completion_tokens")
		texts = append(texts, content(o, 0))
	}
	o, _ := s.complete(with(req, obj{"prompt": prompts}))
	require.Contains(t, o, "metrics")
	require.Nil(t, o["metrics"])
	require.Len(t, o["choices"], 2)
	for i := range 2 {
		require.EqualValues(t, i, choice(o, i)["index"])
		require.Equal(t, texts[i], content(o, i))
	}
	require.Equal(t, sum, [2]int{usage(o, "prompt_tokens"), usage(o, "completion_tokens")})

	e := s.stream("/v1/completions", with(req, obj{"prompt": prompts, "stream_options": obj{"include_usage": true}}))
	require.Equal(t, sum, [2]int{usage(e.last(), "prompt_tokens"), usage(e.last(), "completion_tokens")})
	require.Nil(t, e.last()["metrics"])
	var ids []any
	for i, p := range prompts {
		require.Equal(t, texts[i], e.text(i))
		tokens, _ := s.post("/tokenize", obj{"model": "understudy", "prompt": p})
		ids = append(ids, tokens["tokens"])
	}
	byID, _ := s.complete(with(req, obj{"prompt": ids}))
	require.Equal(t, o["choices"], byID["choices"])
	single, _ := s.complete(with(req, obj{"prompt": ids[:1]}))
	readTimes(t, single)
}

// requireOnlyLast checks that metrics ride on exactly one chunk: the usage chunk before [DONE].
func requireOnlyLast(t *testing.T, e *sse) {
	t.Helper()
	require.True(t, e.Done)
	for i, c := range e.Chunks {
		if i < len(e.Chunks)-1 {
			require.NotContains(t, c, "metrics")
		}
	}
	require.Empty(t, e.last()["choices"])
	require.NotNil(t, e.last()["usage"])
	readTimes(t, e.last())
}

func TestO04MetricsOnTheUsageChunkOnly(t *testing.T) {
	req := obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 12}
	s := serve(t, "--enable-per-request-metrics")
	requireOnlyLast(t, s.stream("/v1/chat/completions", with(req, obj{"stream_options": obj{"include_usage": true}})))
	plain := s.stream("/v1/chat/completions", req)
	require.NotContains(t, plain.Raw, "metrics")
	require.NotContains(t, plain.Raw, "usage")

	text := obj{"model": "understudy", "prompt": "Hello", "max_tokens": 12}
	requireOnlyLast(t, s.stream("/v1/completions", with(text, obj{"stream_options": obj{"include_usage": true}})))
	require.NotContains(t, s.stream("/v1/completions", text).Raw, "metrics")

	forced := serve(t, "--enable-per-request-metrics", "--enable-force-include-usage")
	requireOnlyLast(t, forced.stream("/v1/chat/completions", req))
	requireOnlyLast(t, forced.stream("/v1/chat/completions", with(req, obj{"stream_options": obj{"include_usage": false}})))
	requireOnlyLast(t, forced.stream("/v1/completions", with(text, obj{"stream_options": obj{"include_usage": false}})))
}

func TestO06QueueTimeWithOneSlot(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--max-num-seqs", "1")
	req := obj{"model": "understudy", "messages": user("Tell me about rivers."), "max_tokens": 400, "temperature": 0, "ignore_eos": true}
	s.chat(req) // warm: the three are then alike
	before := s.scrape()
	var wg sync.WaitGroup
	got := make([]times, 3)
	for i := range got {
		wg.Go(func() {
			o, _ := s.chat(req)
			got[i] = readTimes(t, o)
		})
	}
	wg.Wait()
	slices.SortFunc(got, func(a, b times) int { return int(math.Copysign(1, a.queue-b.queue)) })
	first := got[0].service()
	const spread = 30 // ms within which three clients of a busy machine send "at once"
	require.Less(t, got[0].queue, 0.05*first+1)
	require.InDelta(t, first, got[1].queue, 0.15*first+spread)
	require.InDelta(t, first+got[1].service(), got[2].queue, 0.15*2*first+spread)
	for _, m := range got {
		require.InDelta(t, got[0].ttft, m.ttft, 0.3*got[0].ttft+spread/2, "the wait is inside the time to first token")
	}
	after := s.scrape()
	const series = "vllm:request_queue_time_seconds_sum"
	require.InEpsilon(t, (got[0].queue+got[1].queue+got[2].queue)/1000, sum(after, series)-sum(before, series), 0.01)
}

func TestO07CachedPromptStillCounts(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--enable-prompt-tokens-details")
	cached := func(o obj) float64 { return o["usage"].(obj)["prompt_tokens_details"].(obj)["cached_tokens"].(float64) }
	text := strings.Repeat("The quick brown fox. ", 60) + "Reply OK."
	for path, req := range map[string]obj{
		"/v1/chat/completions": {"model": "understudy", "messages": user(text), "max_tokens": 4, "temperature": 0},
		"/v1/completions":      {"model": "understudy", "prompt": "A: " + text, "max_tokens": 4, "temperature": 0},
	} {
		var first, second []float64
		for i := range 5 {
			req["cache_salt"] = fmt.Sprint(i) // cold again
			cold, _ := s.post(path, req)
			warm, _ := s.post(path, req)
			require.Equal(t, usage(cold, "prompt_tokens"), usage(warm, "prompt_tokens"))
			require.Zero(t, cached(cold))
			require.Positive(t, cached(warm))
			require.Less(t, cached(warm), float64(usage(warm, "prompt_tokens")))
			for _, o := range []obj{cold, warm} {
				require.Equal(t, usage(o, "total_tokens"), usage(o, "prompt_tokens")+usage(o, "completion_tokens"))
			}
			require.Equal(t, content(cold, 0), content(warm, 0))
			first, second = append(first, readTimes(t, cold).ttft), append(second, readTimes(t, warm).ttft)
		}
		slices.Sort(first)
		slices.Sort(second)
		require.Less(t, second[2], first[2], "time to first token, medians")
	}
}

func TestO09SubMillisecondValues(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	fractional := 0
	for range 20 {
		o, r := s.chat(obj{"model": "understudy", "messages": user("Count to thirty."), "max_tokens": 48, "temperature": 0})
		m := readTimes(t, o)
		if m.itl != math.Trunc(m.itl) {
			fractional++
		}
		_, rest, _ := strings.Cut(string(r.Body), `"metrics":`)
		require.NotRegexp(t, `\d[eE][+-]?\d`, rest)
	}
	require.Positive(t, fractional)
}

func TestO10FlagOffChangesNothing(t *testing.T) {
	s := serve(t)
	req := obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 8, "include_metrics": true}
	_, r := s.chat(req)
	require.NotContains(t, string(r.Body), "metrics")
	e := s.stream("/v1/chat/completions", with(req, obj{"stream_options": obj{"include_usage": true}}))
	require.NotContains(t, e.Raw, "metrics")
	text := obj{"model": "understudy", "prompt": "Hello", "max_tokens": 8}
	_, r = s.complete(text)
	require.NotContains(t, string(r.Body), "metrics")
	require.NotContains(t, s.stream("/v1/completions", with(text, obj{"stream_options": obj{"include_usage": true}})).Raw, "metrics")

	code, stderr := run(t, "serve", "--enable-per-request-metrics", "--disable-log-stats")
	require.Equal(t, 1, code)
	require.True(t, strings.HasPrefix(stderr, "Error: --enable-per-request-metrics requires"), "%q", stderr)
	require.Contains(t, stderr, "--disable-log-stats")
	require.Equal(t, 1, strings.Count(stderr, "\n"))
}

func TestO13ZeroIsAValue(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	e := s.stream("/v1/chat/completions", obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 4,
		"logprobs": true, "top_logprobs": 1, "stream_options": obj{"include_usage": true}})
	for _, c := range e.Chunks[:len(e.Chunks)-1] {
		require.Equal(t, 0.0, choice(c, 0)["index"])
	}
	require.Contains(t, e.last()["usage"], "completion_tokens")
	m := e.last()["metrics"].(obj)
	require.NotNil(t, m["queue_time_ms"])

	one := s.stream("/v1/chat/completions", obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 1,
		"stream_options": obj{"include_usage": true}})
	m = one.last()["metrics"].(obj)
	require.Contains(t, m, "mean_itl_ms")
	require.Nil(t, m["mean_itl_ms"], "unknown is null")
	require.Equal(t, 0.0, m["generation_time_ms"], "measured zero is 0")

	text := s.stream("/v1/completions", obj{"model": "understudy", "prompt": "Hello", "max_tokens": 4, "logprobs": 1})
	for _, c := range text.Chunks {
		require.Equal(t, 0.0, choice(c, 0)["index"])
	}
	require.Equal(t, 0.0, choice(text.Chunks[0], 0)["logprobs"].(obj)["text_offset"].([]any)[0])

	scored, _ := s.complete(obj{"model": "understudy", "prompt": "Paris", "echo": true, "max_tokens": 0})
	require.Equal(t, 0, usage(scored, "completion_tokens"))
}

// TestBooks compares what clients saw with what Prometheus says, for a mixed load.
func TestBooks(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	before := s.scrape()
	var mu sync.Mutex
	var m times
	var prompt, generated int
	var wg sync.WaitGroup
	const requests = 24
	for i := range requests {
		wg.Go(func() {
			o, _ := s.chat(obj{"model": "understudy", "messages": user(fmt.Sprintf("What is %d + 3?", i)), "max_tokens": 20, "temperature": 0})
			got := readTimes2(o)
			mu.Lock()
			defer mu.Unlock()
			m.queue, m.ttft, m.generation = m.queue+got.queue, m.ttft+got.ttft, m.generation+got.generation
			prompt += usage(o, "prompt_tokens")
			generated += usage(o, "completion_tokens")
		})
	}
	wg.Wait()
	after := s.scrape()
	grew := func(name string, labels ...string) float64 {
		return sum(after, "vllm:"+name, labels...) - sum(before, "vllm:"+name, labels...)
	}
	require.EqualValues(t, requests, grew("request_success_total"))
	require.EqualValues(t, prompt, grew("prompt_tokens_total"))
	require.EqualValues(t, prompt, grew("prompt_tokens_by_source_total"))
	require.EqualValues(t, generated, grew("generation_tokens_total"))
	require.EqualValues(t, generated, grew("request_generation_tokens_sum"))
	require.InEpsilon(t, m.ttft/1000, grew("request_prefill_time_seconds_sum"), 1e-6)
	require.InEpsilon(t, m.generation/1000, grew("request_decode_time_seconds_sum"), 1e-6)
	require.InDelta(t, m.queue/1000, grew("request_queue_time_seconds_sum"), 1e-6)
	for _, h := range []string{"time_to_first_token_seconds", "e2e_request_latency_seconds", "request_inference_time_seconds",
		"request_time_per_output_token_seconds", "request_prompt_tokens", "request_params_n", "request_params_max_tokens"} {
		require.EqualValues(t, requests, grew(h+"_count"), h)
	}
	require.EqualValues(t, generated-requests, grew("inter_token_latency_seconds_count"))
	require.Zero(t, sum(after, "vllm:num_requests_running"))
	require.Zero(t, sum(after, "vllm:num_requests_waiting"))
}

// readTimes2 is readTimes for goroutines other than the test's: a null reads as 0.
func readTimes2(o obj) times {
	m, _ := o["metrics"].(obj)
	get := func(k string) float64 { v, _ := m[k].(float64); return v }
	return times{get("time_to_first_token_ms"), get("generation_time_ms"), get("queue_time_ms"), get("mean_itl_ms"), get("tokens_per_second")}
}
