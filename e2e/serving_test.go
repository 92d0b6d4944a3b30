//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestO49LongPrefillDoesNotFreezeOthers(t *testing.T) {
	const chunk = 192 // tokens per step
	s := serve(t, roomy(t), "--served-model-name", "understudy", "--enable-per-request-metrics",
		"--max-num-batched-tokens", fmt.Sprint(chunk), "--max-num-seqs", "8", "--no-enable-prefix-caching")
	long := obj{"model": "understudy", "messages": user(strings.Repeat("word ", 3000)), "max_tokens": 2, "stream_options": obj{"include_usage": true}}
	onceIn(t, 3, func() bool {
		alone := s.stream("/v1/chat/completions", long)
		prefill := readTimes(t, alone.last()).ttft
		chunkMs := prefill / math.Ceil(float64(usage(alone.last(), "prompt_tokens"))/chunk)
		var longest, beside []float64
		for range 3 {
			gap, took := longestGapBesideAPrefill(t, s, long)
			longest, beside = append(longest, gap), append(beside, took)
		}
		slices.Sort(longest)
		slices.Sort(beside)
		t.Logf("a prefill chunk takes %.1f ms, the whole prefill %.1f ms, %.1f ms beside others; longest gaps of the decoding streams: %.1f ms", chunkMs, prefill, beside, longest)
		return longest[1] < 3*chunkMs+10 && beside[1] < prefill/0.7 // medians of three
	}, "the others stand still for at most three chunks, and the long prefill loses less than 30 %")
}

// longestGapBesideAPrefill runs two decoding streams, then a long prompt, then a
// short one, whose first token must come before the long one's. It returns the
// longest gap of the decoding streams and how long the long prefill took.
func longestGapBesideAPrefill(t *testing.T, s *server, long obj) (ms, prefill float64) {
	t.Helper()
	// Every token of the decoding streams must show, end-of-turn tokens too.
	decode := obj{"model": "understudy", "messages": user("Count to 200."), "max_tokens": 700, "ignore_eos": true, "skip_special_tokens": false}
	short := obj{"model": "understudy", "messages": user("Hi"), "max_tokens": 4}
	started, running := make(chan struct{}, 2), make(chan *sse, 2)
	for range 2 {
		go func() {
			e, _ := s.tryStream(context.Background(), "/v1/chat/completions", decode, func(n int, _ obj) bool {
				if n == 3 {
					started <- struct{}{}
				}
				return true
			})
			running <- e
		}()
	}
	<-started
	<-started
	type start struct {
		at   time.Time // of the first token
		ttft float64   // ms, if it was asked for
	}
	firstToken := func(req obj) start {
		e, err := s.tryStream(context.Background(), "/v1/chat/completions", req, nil)
		if err != nil || len(e.At) < 2 {
			return start{}
		}
		return start{e.At[1], readTimes2(e.last()).ttft}
	}
	longFirst := make(chan start, 1)
	go func() { longFirst <- firstToken(long) }()
	require.Eventually(t, func() bool { // the long one is in the queue or in the batch
		m := s.scrape()
		return sum(m, "vllm:num_requests_running")+sum(m, "vllm:num_requests_waiting") >= 3
	}, 10*time.Second, time.Millisecond)
	first := firstToken(short)
	late := <-longFirst
	prefill = late.ttft
	require.Positive(t, prefill)
	behind := late.at.Sub(first.at)
	require.Positive(t, behind, "the short one's first token comes before the long one's")
	for range 2 {
		e := <-running
		require.NotNil(t, e)
		for i := 1; i < len(e.At); i++ {
			ms = max(ms, e.At[i].Sub(e.At[i-1]).Seconds()*1000)
		}
	}
	return ms, prefill
}

func TestO51HealthStaysQuick(t *testing.T) {
	s := roomyServer(t, "--max-num-seqs", "2", "--max-num-queued-reqs", "16", "--no-enable-prefix-caching", "--disable-uvicorn-access-log")
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 24 { // one very long prefill after the other, and a full queue
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.tryStream(ctx, "/v1/chat/completions", obj{"model": "understudy", "messages": user(strings.Repeat("word ", 4000)), "max_tokens": 50, "ignore_eos": true}, nil)
				<-time.After(20 * time.Millisecond) // of those that are refused
			}
		})
	}
	s.eventually(func() bool {
		m := s.scrape()
		return sum(m, "vllm:num_requests_waiting") >= 8 && sum(m, "vllm:admission_rejections_total") > 0
	}, "the server is full")
	for _, path := range []string{"/health", "/metrics", "/v1/models", "/ping", "/version", "/load"} {
		onceIn(t, 5, func() bool {
			var walls []time.Duration
			for range 100 {
				r := s.do("GET", path, "")
				require.Equal(t, 200, r.Status, path)
				walls = append(walls, r.Wall)
			}
			slices.Sort(walls)
			t.Logf("%s: median %v, p99 %v", path, walls[50], walls[98])
			return walls[98] < 100*time.Millisecond
		}, path+" answers within 100 ms, 99 times in 100")
	}
	require.Positive(t, sum(s.scrape(), "vllm:num_requests_waiting"), "it was full to the end")
}

func TestO54AbortsAreCounted(t *testing.T) {
	s := serve(t)
	before := s.scrape()
	for range 5 {
		s.chat(obj{"messages": user("Say hello."), "max_tokens": 4})
	}
	for range 3 {
		s.refused(400, "/v1/chat/completions", `{"messages":[],"max_tokens":4}`)
	}
	long := obj{"messages": user("Count."), "max_tokens": 900, "ignore_eos": true}
	_, err := s.tryStream(context.Background(), "/v1/chat/completions", long, func(n int, _ obj) bool { return n < 5 })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background()) // a client that waits for the whole answer, then leaves
	gone := make(chan error, 1)
	go func() {
		_, err := s.try(ctx, "POST", "/v1/chat/completions", body(long))
		gone <- err
	}()
	require.Eventually(t, func() bool { return sum(s.scrape(), "vllm:num_requests_running") >= 1 }, 10*time.Second, time.Millisecond)
	cancel()
	require.Error(t, <-gone)
	s.do("POST", "/v1/chat/completions", body(with(long, obj{"vllm_xargs": obj{"troupe_fault": "panic-in-sampling"}})))
	requireIdle(t, s)
	after := s.scrape()
	const series = "vllm:request_success_total"
	grew := func(reasons ...string) (n float64) {
		for _, r := range reasons {
			label := fmt.Sprintf("finished_reason=%q", r)
			n += sum(after, series, label) - sum(before, series, label)
		}
		return n
	}
	require.EqualValues(t, 5, grew("stop", "length"))
	require.EqualValues(t, 2, grew("abort"))
	require.EqualValues(t, 1, grew("error"))
	require.EqualValues(t, 3, sum(after, "http_requests_total", `status="4xx"`)-sum(before, "http_requests_total", `status="4xx"`))
	require.EqualValues(t, 11, sum(after, "troupe:requests_received_total"))
	require.EqualValues(t, 11, sum(after, "troupe:requests_finished_total"), "received = stop + length + abort + error + refused")
	require.EqualValues(t, 3, finished(after, "refused"))
	for h, population := range map[string]float64{
		"request_prompt_tokens": 8, "request_generation_tokens": 8, "e2e_request_latency_seconds": 5, "request_inference_time_seconds": 5,
	} {
		require.EqualValues(t, population, sum(after, "vllm:"+h+"_count")-sum(before, "vllm:"+h+"_count"), h)
	}
}

func TestO55TwoChoicesAreOneRequest(t *testing.T) {
	s := serve(t)
	before := s.scrape()
	o, _ := s.chat(obj{"messages": user("Name a tree."), "n": 2, "max_tokens": 8, "temperature": 1})
	after := s.scrape()
	grew := func(name string) float64 { return sum(after, "vllm:"+name) - sum(before, "vllm:"+name) }
	require.EqualValues(t, 1, grew("request_success_total"))
	require.EqualValues(t, 1, grew("e2e_request_latency_seconds_count"))
	require.EqualValues(t, usage(o, "prompt_tokens"), grew("prompt_tokens_total"))
	require.EqualValues(t, usage(o, "completion_tokens"), grew("generation_tokens_total"))
	require.EqualValues(t, 2, grew("time_to_first_token_seconds_count"), "per sequence, as documented")
	require.EqualValues(t, 1, grew("request_params_n_count"))
	require.EqualValues(t, 2, grew("request_params_n_sum"))
}

// answer is what must not depend on company, chunking, preemption or cache.
func answer(t *testing.T, s *server, req obj) (string, any) {
	t.Helper()
	o, _ := s.chat(req)
	return content(o, 0), choice(o, 0)["logprobs"]
}

func TestSameAnswerHoweverItIsComputed(t *testing.T) {
	req := obj{"messages": user(strings.Repeat("The river runs past the old mill. ", 20) + "Summarise."), "max_tokens": 48, "temperature": 0,
		"ignore_eos": true, "logprobs": true, "top_logprobs": 3}
	sampled := with(req, obj{"temperature": 1.1, "seed": 99})
	alone := serve(t, "--no-enable-prefix-caching")
	text, logprobs := answer(t, alone, req)
	sampledText, _ := answer(t, alone, sampled)
	same := func(s *server, how string) {
		t.Helper()
		gotText, gotLogprobs := answer(t, s, req)
		require.Equal(t, text, gotText, how)
		require.Equal(t, logprobs, gotLogprobs, how)
		gotText, _ = answer(t, s, sampled)
		require.Equal(t, sampledText, gotText, how)
	}
	same(alone, "again")
	same(serve(t, "--no-enable-prefix-caching", "--max-num-batched-tokens", "16", "--max-num-seqs", "4"), "chunked")
	cached := serve(t)
	same(cached, "cold")
	same(cached, "from the prefix cache")
	for i := range 50 { // fill and evict
		cached.chat(obj{"messages": user(fmt.Sprint(i, strings.Repeat(" word", 300))), "max_tokens": 1})
	}
	same(cached, "after other requests")

	// 32 blocks of 16: about one and a half of these requests fit, so several at once preempt each other.
	tiny := serve(t, "--num-gpu-blocks-override", "64", "--block-size", "16")
	before := tiny.scrape()
	var wg sync.WaitGroup
	type got struct {
		text     string
		logprobs any
	}
	results := make([]got, 32)
	for i := range results {
		wg.Go(func() {
			if i%4 == 0 {
				results[i].text, results[i].logprobs = answer(t, tiny, req)
			} else {
				tiny.chat(obj{"messages": user(fmt.Sprint("Tell me a story about ", i)), "max_tokens": 150 + i, "ignore_eos": true})
			}
		})
	}
	wg.Wait()
	for i := 0; i < len(results); i += 4 {
		require.Equal(t, text, results[i].text, "beside 31 others, preempted")
		require.Equal(t, logprobs, results[i].logprobs)
	}
	requireIdle(t, tiny)
	after := tiny.scrape()
	require.Positive(t, sum(after, "vllm:num_preemptions_total")-sum(before, "vllm:num_preemptions_total"))
}

func TestO58BlockEdges(t *testing.T) {
	cold, warm := serve(t, "--no-enable-prefix-caching"), serve(t, "--enable-prompt-tokens-details")
	ids := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = 100 + (i*37)%1500
		}
		return out
	}
	for _, n := range []int{1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 160} {
		req := obj{"prompt": ids(n), "max_tokens": 8, "temperature": 0, "logprobs": 2, "ignore_eos": true}
		want, _ := cold.complete(req)
		for range 2 {
			o, _ := warm.complete(req)
			require.Equal(t, choice(want, 0)["logprobs"], choice(o, 0)["logprobs"], "%d tokens", n)
			details := o["usage"].(obj)["prompt_tokens_details"].(obj)
			require.Less(t, int(details["cached_tokens"].(float64)), n)
		}
	}
	salted, _ := warm.complete(obj{"prompt": ids(160), "max_tokens": 1, "cache_salt": "tenant-b"})
	require.Zero(t, salted["usage"].(obj)["prompt_tokens_details"].(obj)["cached_tokens"])
}

// TestO58Company: prompts that share their beginning, at the same time, and blocks
// that an aborted or failed request has left half filled.
func TestO58Company(t *testing.T) {
	cold := serve(t, "--no-enable-prefix-caching")
	warm := serve(t, "--enable-prompt-tokens-details", "--admin-api-key", adminKey, "--max-num-batched-tokens", "32")
	shared := strings.Repeat("The river runs past the old mill. ", 40)
	var reqs []obj
	for _, text := range []string{shared + "Summarise.", shared + "What runs?", shared[:len(shared)/2] + "Summarise.", shared[:len(shared)/2] + "And then?"} {
		reqs = append(reqs, obj{"messages": user(text), "max_tokens": 32, "temperature": 0, "logprobs": true, "ignore_eos": true})
	}
	// Those who leave in the prefill and in the decode, and those who fail, have written blocks.
	for i, r := range reqs {
		for events := range 3 {
			w := warm.dial()
			w.chat(with(r, obj{"stream": true}))
			if events > 0 {
				w.readEvents(events * (2 + i))
			}
			require.NoError(t, w.Close())
		}
		failed := warm.do("POST", "/v1/chat/completions", body(with(r, obj{"vllm_xargs": obj{"troupe_fault": "panic-in-sampling", "troupe_fault_after": 5 + i}})))
		require.Equal(t, 500, failed.Status)
	}
	requireIdle(t, warm)
	var all sync.WaitGroup
	got := make([]obj, 2*len(reqs))
	for i := range got {
		all.Go(func() { got[i], _ = warm.chat(reqs[i/2]) })
	}
	all.Wait()
	for i, o := range got {
		text, logprobs := answer(t, cold, reqs[i/2])
		require.Equal(t, text, content(o, 0), "request %d", i/2)
		require.Equal(t, logprobs, choice(o, 0)["logprobs"], "request %d", i/2)
		cached := o["usage"].(obj)["prompt_tokens_details"].(obj)["cached_tokens"].(float64)
		require.Less(t, int(cached), usage(o, "prompt_tokens"))
	}
	requireIdle(t, warm)
}

func TestSmallEndpoints(t *testing.T) {
	s := serve(t, "--served-model-name", "first", "second", "--enable-request-id-headers", "--enable-server-load-tracking")
	list := s.parse(s.do("GET", "/v1/models", "").Body)
	require.Len(t, list["data"], 2)
	one := s.parse(s.do("GET", "/v1/models/second", "").Body)
	require.Equal(t, "second", one["id"])
	require.EqualValues(t, 1024, one["max_model_len"])
	require.Equal(t, 404, s.do("GET", "/v1/models/nope", "").Status)
	o, r := s.chat(obj{"model": "second", "messages": user("Say hello."), "max_tokens": 2})
	require.Equal(t, "first", o["model"])
	require.NotEmpty(t, r.Header.Get("X-Request-Id"))
	r = s.do("POST", "/v1/chat/completions", body(obj{"messages": user("hi"), "max_tokens": 1}), "X-Request-Id", "abc-1")
	require.Equal(t, "chatcmpl-abc-1", s.parse(r.Body)["id"])
	require.Equal(t, "abc-1", r.Header.Get("X-Request-Id"))
	require.Empty(t, s.do("GET", "/health", "").Body)
	require.Contains(t, s.parse(s.do("GET", "/version", "").Body), "version")
	require.EqualValues(t, 0, s.parse(s.do("GET", "/load", "").Body)["server_load"])
	require.Equal(t, 404, s.do("GET", "/nope", "").Status)
	require.Equal(t, 405, s.do("GET", "/v1/chat/completions", "").Status)
	tok := s.parse(s.do("POST", "/tokenize", body(obj{"messages": user("hi"), "return_token_strs": true})).Body)
	require.Len(t, tok["token_strs"], int(tok["count"].(float64)))
}

func TestKeys(t *testing.T) {
	s := serveEnv(t, []string{"VLLM_API_KEY=from-env"}, "--api-key", "one", "two")
	_ = s
	for _, key := range []string{"", "Bearer", "Bearer three", "Basic one", "Bearer from-env"} {
		r := s.do("GET", "/v1/models", "", "Authorization", key)
		require.Equal(t, 401, r.Status, "%q", key)
		require.JSONEq(t, `{"error":"Unauthorized"}`, string(r.Body))
	}
	for _, key := range []string{"Bearer one", "bearer two"} {
		require.Equal(t, 200, s.do("GET", "/v1/models", "", "Authorization", key).Status)
	}
	require.Equal(t, 200, s.do("GET", "/metrics", "").Status)
	require.Equal(t, 200, s.do("POST", "/tokenize", `{"prompt":"a"}`).Status)
}
