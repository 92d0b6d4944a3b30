//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
)

// breakdownParts are the parts of the wall time, in their order.
var breakdownParts = []string{"accept_ms", "grammar_compile_ms", "queue_ms", "prefill_ms", "stalled_by_prefill_ms", "decode_ms", "masking_ms", "preempted_ms", "recovering_ms", "finish_ms"}

// breakdownOf returns the breakdown of a metrics object, whose parts must be numbers that
// add up to the wall time and agree with the five values.
func breakdownOf(t require.TestingT, metrics any) map[string]float64 {
	m, ok := metrics.(obj)
	require.True(t, ok, "no metrics object: %v", metrics)
	parts, ok := m["breakdown"].(obj)
	require.True(t, ok, "no breakdown: %v", m)
	b := map[string]float64{}
	for name, v := range parts {
		if v != nil {
			b[name] = v.(float64)
		}
	}
	sum := 0.0
	for _, name := range breakdownParts {
		require.Contains(t, b, name)
		require.GreaterOrEqual(t, b[name], 0.0, "%s of %v", name, b)
		sum += b[name]
	}
	const rounding = 1e-5 // of sums of floats, in ms
	require.InDelta(t, b["wall_ms"], sum, rounding)
	require.Equal(t, m["queue_time_ms"], b["queue_ms"])
	service := m["time_to_first_token_ms"].(float64) + m["generation_time_ms"].(float64)
	require.InDelta(t, service, b["prefill_ms"]+b["stalled_by_prefill_ms"]+b["decode_ms"]+b["masking_ms"]+b["preempted_ms"]+b["recovering_ms"], rounding)
	return b
}

// TestO05NoDarkTimeWithASchema: the time that a schema takes is in a field of its own,
// and all that the client waits is in some field: cold, warm, and eight at once.
func TestO05NoDarkTimeWithASchema(t *testing.T) {
	s := serve(t, roomy(t), "--served-model-name", "understudy", "--enable-per-request-metrics", "--enable-metrics-breakdown", "--max-num-seqs", "8")
	item := obj{"type": "object", "properties": obj{"k": obj{"type": "string", "pattern": "^[a-z]{1,40}$"}, "v": obj{"type": "number"}},
		"required": []string{"k", "v"}, "additionalProperties": false}
	asked := func(try int) obj { // a schema and a prompt that no other try has
		name := fmt.Sprint("a", try)
		return obj{"model": "understudy", "messages": user(strings.Repeat("word ", 1500)), "max_tokens": 4, "temperature": 0, "cache_salt": name,
			"response_format": obj{"type": "json_schema", "json_schema": obj{"name": "f", "strict": true, "schema": obj{
				"type": "object", "properties": obj{name: obj{"type": "array", "items": item, "maxItems": 50}}, "required": []string{name}, "additionalProperties": false}}}}
	}
	// unaccounted returns the wait that is in no part, beyond five percent, in ms.
	unaccounted := func(req obj) (gap float64, b map[string]float64) {
		r := s.do("POST", "/v1/chat/completions", body(req))
		require.Equal(t, 200, r.Status, "%s", r.Body)
		b = breakdownOf(t, s.parse(r.Body)["metrics"])
		wall := r.Wall.Seconds() * 1000
		require.LessOrEqual(t, b["receive_ms"]+b["wall_ms"], wall)
		require.Positive(t, b["receive_ms"])
		return 0.95*wall - b["wall_ms"], b
	}
	try := 0
	onceIn(t, 5, func() bool {
		req := asked(try)
		try++
		cold, first := unaccounted(req)
		warm, second := unaccounted(req)
		require.Positive(t, first["grammar_compile_ms"])
		require.Zero(t, first["cached_prompt_tokens"])
		require.Greater(t, second["cached_prompt_tokens"], second["computed_prompt_tokens"])
		var all sync.WaitGroup
		crowd := make([]float64, 8)
		for i := range crowd {
			all.Go(func() { crowd[i], _ = unaccounted(req) })
		}
		all.Wait()
		t.Logf("in no part: cold %.1f ms, warm %.1f ms, eight at once %.1f ms at most; the schema took %.2f ms cold, %.2f ms warm",
			cold, warm, slices.Max(crowd), first["grammar_compile_ms"], second["grammar_compile_ms"])
		return max(cold, warm, slices.Max(crowd)) < 50
	}, "less than 50 ms and 5 % are in no part")
}

// TestBreakdownOfAFailure: what a failure costs is told apart, and the answer is the same.
func TestBreakdownOfAFailure(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--enable-metrics-breakdown", "--enable-fault-injection", "--admin-api-key", adminKey)
	req := obj{"model": "understudy", "messages": user("Tell me a long story."), "max_tokens": 900, "temperature": 0, "ignore_eos": true,
		"stream_options": obj{"include_usage": true}}
	quiet := s.stream("/v1/chat/completions", req)
	b := breakdownOf(t, quiet.last()["metrics"])
	require.Zero(t, b["recovering_ms"])
	require.Zero(t, b["num_recoveries"])
	require.Positive(t, b["decode_ms"])

	reached, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		<-reached
		s.fault("panic", 0)
	}()
	got, err := s.tryStream(context.Background(), "/v1/chat/completions", req, func(n int, _ obj) bool {
		if n == 20 {
			close(reached)
			<-gone
		}
		return true
	})
	require.NoError(t, err)
	require.Equal(t, quiet.text(0), got.text(0))
	b = breakdownOf(t, got.last()["metrics"])
	if b["num_recoveries"] > 0 { // else the answer had been computed before the fault came
		require.Positive(t, b["recovering_ms"])
		require.Positive(t, b["recomputed_tokens"])
		require.GreaterOrEqual(t, b["max_gap_ms"], b["recovering_ms"])
	}
}

// TestMetricsOfEachChoice: with a flag, in every place where the answer as a whole has null.
func TestMetricsOfEachChoice(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--enable-metrics-breakdown", "--enable-per-choice-metrics", "--metrics-spelling", "vllm,llama-server,groq")
	req := obj{"model": "understudy", "prompt": []string{"Hello", "The fox"}, "n": 2, "max_tokens": 12, "ignore_eos": true, "seed": 1}
	o, _ := s.complete(req)
	require.Nil(t, o["metrics"])
	require.Nil(t, o["timings"])
	require.Len(t, o["choices"], 4)
	for i := range 4 {
		breakdownOf(t, choice(o, i)["metrics"])
	}
	last := s.stream("/v1/completions", with(req, obj{"stream_options": obj{"include_usage": true}})).last()
	require.Nil(t, last["metrics"])
	list, ok := last["choices_metrics"].([]any)
	require.True(t, ok, "%v", last)
	require.Len(t, list, 4)
	for _, m := range list {
		breakdownOf(t, m)
	}

	one, _ := s.complete(obj{"model": "understudy", "prompt": "Hello", "max_tokens": 12, "ignore_eos": true})
	require.NotContains(t, choice(one, 0), "metrics")
	m, timings, bill := one["metrics"].(obj), one["timings"].(obj), one["usage"].(obj)
	require.Equal(t, m["time_to_first_token_ms"], timings["prompt_ms"])
	require.Equal(t, m["generation_time_ms"], timings["predicted_ms"])
	require.EqualValues(t, usage(one, "prompt_tokens"), timings["prompt_n"].(float64)+timings["cache_n"].(float64))
	require.EqualValues(t, 12, timings["predicted_n"])
	require.InDelta(t, m["queue_time_ms"].(float64)/1000, bill["queue_time"].(float64), 1e-9)
	require.InDelta(t, bill["total_time"].(float64), bill["prompt_time"].(float64)+bill["completion_time"].(float64), 1e-9)
}

// TestClientsWithEveryKindOfMetrics: SDKs read answers with fields that they do not know,
// and the numbers reach who asks for them.
func TestClientsWithEveryKindOfMetrics(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--enable-metrics-breakdown", "--enable-per-choice-metrics", "--metrics-spelling", "vllm,llama-server,groq",
		"--spec-method", "ngram", "--per-request-spec-decode-metrics", "detailed", "--enable-prompt-tokens-details")
	cmd := exec.Command("node", "metrics.mjs")
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "TROUPE_URL="+s.URL)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ok\n", string(out))

	c := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
	stream := c.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: "understudy", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")}, N: openai.Int(2), MaxTokens: openai.Int(8),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	acc := openai.ChatCompletionAccumulator{}
	var last openai.ChatCompletionChunk
	for stream.Next() {
		last = stream.Current()
		require.True(t, acc.AddChunk(last))
	}
	require.NoError(t, stream.Err())
	require.Len(t, acc.Choices, 2)
	var list []obj
	require.NoError(t, json.Unmarshal([]byte(last.JSON.ExtraFields["choices_metrics"].Raw()), &list))
	require.Len(t, list, 2)
	for _, m := range list {
		breakdownOf(t, m)
	}
}

// TestMetricsByHeader: a client may ask for metrics where an answer would have none.
func TestMetricsByHeader(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	ask := obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 8}
	r := s.do("POST", "/v1/chat/completions", body(ask), "X-Troupe-Metrics", "header")
	require.Regexp(t, `^time_to_first_token;dur=[0-9.]+, generation_time;dur=[0-9.]+, queue_time;dur=[0-9.]+, `, r.Header.Get("Server-Timing"))
	stream := body(with(ask, obj{"stream": true}))
	require.NotContains(t, string(s.do("POST", "/v1/chat/completions", stream).Body), "metrics")
	require.Contains(t, string(s.do("POST", "/v1/chat/completions", stream, "X-Troupe-Metrics", "comment").Body), "\n\n: {\"metrics\":{\"time_to_first_token_ms\":")
	require.Contains(t, string(s.do("POST", "/v1/chat/completions", stream, "X-Troupe-Metrics", "chunk").Body), `"choices":[],"metrics":{"time_to_first_token_ms":`)
	r = s.do("POST", "/v1/chat/completions", stream, "X-Troupe-Metrics", "footer")
	require.Equal(t, 400, r.Status)
	require.Contains(t, string(r.Body), `X-Troupe-Metrics: must be \"header\", \"comment\" or \"chunk\"`)
}
