//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestSeedRequest(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	req := obj{"model": "understudy", "messages": user("What is the capital of France?")}
	o, _ := s.chat(req)
	require.Contains(t, content(o, 0), "Paris")
	requireIdentities(t, readTimes(t, o), usage(o, "completion_tokens"))

	e := s.stream("/v1/chat/completions", with(req, obj{"stream_options": obj{"include_usage": true}}))
	require.True(t, e.Done)
	require.Contains(t, e.text(0), "Paris")
	requireChunkOrder(t, e, 1)
	requireIdentities(t, readTimes(t, e.last()), usage(e.last(), "completion_tokens"))
}

// requireChunkOrder checks the order of a chat stream with a usage chunk: one
// role chunk per choice, content, a finish chunk per choice, then usage.
func requireChunkOrder(t *testing.T, e *sse, choices int) {
	t.Helper()
	n := len(e.Chunks)
	roles, finished := map[int]bool{}, map[int]bool{}
	for i, c := range e.Chunks {
		for _, k := range []string{"id", "created", "model", "object"} {
			require.Equal(t, e.Chunks[0][k], c[k], k)
		}
		require.Equal(t, "chat.completion.chunk", c["object"])
		if i == n-1 {
			require.Empty(t, c["choices"])
			require.NotNil(t, c["usage"])
			continue
		}
		require.Nil(t, c["usage"])
		require.Len(t, c["choices"], 1)
		ch := choice(c, 0)
		index := int(ch["index"].(float64))
		delta := ch["delta"].(obj)
		if !roles[index] {
			require.Less(t, i, choices, "role chunks come first")
			require.Equal(t, "assistant", delta["role"])
			require.Equal(t, "", delta["content"])
			roles[index] = true
		} else {
			require.NotContains(t, delta, "role")
		}
		require.False(t, finished[index], "a chunk after the finish chunk")
		finished[index] = ch["finish_reason"] != nil
		if finished[index] {
			require.Contains(t, []string{"stop", "length"}, ch["finish_reason"])
		}
	}
	for i := range choices {
		require.True(t, roles[i])
		require.True(t, finished[i])
	}
}

func TestO14UsageChunk(t *testing.T) {
	s := serve(t)
	for path, req := range map[string]obj{
		"/v1/chat/completions": {"model": "understudy", "messages": user("Say hello."), "max_tokens": 8, "temperature": 0},
		"/v1/completions":      {"model": "understudy", "prompt": "Hello", "max_tokens": 8, "temperature": 0},
	} {
		whole, _ := s.post(path, req)
		e := s.stream(path, with(req, obj{"stream_options": obj{"include_usage": true}}))
		require.True(t, e.Done)
		for i, c := range e.Chunks {
			last := i == len(e.Chunks)-1
			require.Equal(t, last, c["usage"] != nil)
			require.Equal(t, last, len(c["choices"].([]any)) == 0)
			for _, k := range []string{"id", "created", "model", "object"} {
				require.Equal(t, e.Chunks[0][k], c[k])
			}
		}
		for _, k := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
			require.Equal(t, usage(whole, k), usage(e.last(), k))
		}
		require.Equal(t, content(whole, 0), e.text(0))
	}
}

func TestO15NoChunkWithoutChoices(t *testing.T) {
	s := serve(t)
	for _, options := range []any{nil, obj{}, obj{"include_usage": false}, obj{"continuous_usage_stats": true}} {
		e := s.stream("/v1/chat/completions", obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 8, "stream_options": options})
		require.True(t, e.Done)
		require.NotEmpty(t, e.Chunks)
		for _, c := range e.Chunks {
			require.NotEmpty(t, c["choices"])
			require.Nil(t, c["usage"])
		}
		text := s.stream("/v1/completions", obj{"model": "understudy", "prompt": "Hello", "max_tokens": 8, "stream_options": options})
		require.True(t, text.Done)
		for _, c := range text.Chunks {
			require.NotEmpty(t, c["choices"])
			require.Nil(t, c["usage"])
		}
	}
}

func TestContinuousUsage(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--enable-prompt-tokens-details")
	e := s.stream("/v1/chat/completions", obj{"model": "understudy", "messages": user("Count to ten."), "max_tokens": 20, "temperature": 0,
		"stream_options": obj{"include_usage": true, "continuous_usage_stats": true}})
	running := 0
	for _, c := range e.Chunks[:len(e.Chunks)-1] {
		require.NotContains(t, c, "metrics")
		require.Nil(t, c["usage"].(obj)["prompt_tokens_details"])
		require.GreaterOrEqual(t, usage(c, "completion_tokens"), running)
		running = usage(c, "completion_tokens")
	}
	require.Equal(t, running, usage(e.last(), "completion_tokens"))
}

func TestO17CountsEqualStreamingOrNot(t *testing.T) {
	s := serve(t)
	for _, limit := range []int{1, 7, 100} {
		req := obj{"model": "understudy", "messages": user("Count to forty in digits."), "max_tokens": limit, "temperature": 0, "seed": 1, "logprobs": true}
		o, _ := s.chat(req)
		e := s.stream("/v1/chat/completions", with(req, obj{"stream_options": obj{"include_usage": true}}))
		n := usage(o, "completion_tokens")
		require.Equal(t, n, usage(e.last(), "completion_tokens"))
		require.LessOrEqual(t, n, limit)
		if choice(o, 0)["finish_reason"] == "length" {
			require.Equal(t, limit, n)
		}
		require.Len(t, choice(o, 0)["logprobs"].(obj)["content"], n)
		require.Len(t, streamLogprobs(e), n)
	}
}

// streamLogprobs joins the chat logprobs entries of choice 0.
func streamLogprobs(e *sse) []any {
	var all []any
	for _, c := range e.Chunks {
		if len(c["choices"].([]any)) == 0 {
			continue
		}
		if lp, ok := choice(c, 0)["logprobs"].(obj); ok {
			all = append(all, lp["content"].([]any)...)
		}
	}
	return all
}

func TestO18SeveralChoicesPromptOnce(t *testing.T) {
	s := serve(t)
	req := obj{"model": "understudy", "messages": user("Name a city."), "max_tokens": 10, "temperature": 1, "ignore_eos": true}
	one, _ := s.chat(req)
	three, _ := s.chat(with(req, obj{"n": 3}))
	require.Equal(t, usage(one, "prompt_tokens"), usage(three, "prompt_tokens"))
	require.Equal(t, 30, usage(three, "completion_tokens"))
	e := s.stream("/v1/chat/completions", with(req, obj{"n": 3, "stream_options": obj{"include_usage": true}}))
	requireChunkOrder(t, e, 3)
	require.Equal(t, 30, usage(e.last(), "completion_tokens"))
	require.Equal(t, usage(one, "prompt_tokens"), usage(e.last(), "prompt_tokens"))
}

func TestO20FirstDeltaHasTheRole(t *testing.T) {
	s := serve(t)
	e := s.stream("/v1/chat/completions", obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 8, "n": 2, "temperature": 1,
		"stream_options": obj{"include_usage": true}})
	requireChunkOrder(t, e, 2)
	require.True(t, strings.HasPrefix(e.Header.Get("Content-Type"), "text/event-stream"))
	for _, event := range strings.Split(strings.TrimSuffix(e.Raw, "\n\n"), "\n\n") {
		require.True(t, strings.HasPrefix(event, "data: "), "%q", event)
		require.NotContains(t, event, "\n")
	}
	text := s.stream("/v1/completions", obj{"model": "understudy", "prompt": "Hello", "max_tokens": 8, "n": 2, "temperature": 1})
	require.NotContains(t, text.Raw, `"role"`)
	for _, c := range text.Chunks {
		require.Equal(t, "text_completion", c["object"])
		for _, k := range []string{"id", "created", "model"} {
			require.Equal(t, text.Chunks[0][k], c[k], k)
		}
	}
	require.NotEmpty(t, text.finish(0))
	require.NotEmpty(t, text.finish(1))
}

// twins checks that a request gives the same text streaming or not, and returns it.
func twins(t *testing.T, s *server, path string, req obj) string {
	t.Helper()
	o, _ := s.post(path, req)
	e := s.stream(path, with(req, obj{"stream_options": obj{"include_usage": true}}))
	require.Equal(t, content(o, 0), e.text(0))
	require.Equal(t, choice(o, 0)["finish_reason"], e.finish(0))
	for _, k := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
		require.Equal(t, usage(o, k), usage(e.last(), k))
	}
	require.True(t, utf8.ValidString(content(o, 0)))
	return content(o, 0)
}

func TestO21WhiteSpaceSurvives(t *testing.T) {
	s := serve(t)
	for _, prompt := range []string{"def f(x):\n    if x:\n        return 1\n    else:\n", "1.  a\n2.  b\n", "\tx\n\n\n\ty\n"} {
		twins(t, s, "/v1/completions", obj{"model": "understudy", "prompt": prompt, "max_tokens": 24, "temperature": 0})
	}
	list := twins(t, s, "/v1/chat/completions", obj{"model": "understudy", "messages": user("List 4 birds."), "max_tokens": 40, "temperature": 0})
	require.Contains(t, list, "\n")
	require.Contains(t, list, ". ")
}

func TestO22CharactersOfSeveralTokens(t *testing.T) {
	s := serve(t)
	got := twins(t, s, "/v1/completions", obj{"model": "understudy", "prompt": "😀🚀😀🚀😀🚀😀🚀😀🚀", "max_tokens": 16, "temperature": 0})
	require.NotContains(t, got, "\uFFFD")
	for _, text := range []string{"😀 naïve 漢字 ✓ 🧑🏽‍🚀", "Brasília", "日本"} {
		ids, _ := s.post("/tokenize", obj{"model": "understudy", "prompt": text})
		back, _ := s.post("/detokenize", obj{"model": "understudy", "tokens": ids["tokens"]})
		require.Equal(t, text, back["prompt"])
		echoed, _ := s.complete(obj{"model": "understudy", "prompt": text, "echo": true, "max_tokens": 0})
		require.Equal(t, text, content(echoed, 0))
	}
	// Random walks over the bytes of emoji: whatever comes out, both forms agree and are valid UTF-8.
	for seed := range 8 {
		walk := twins(t, s, "/v1/completions", obj{"model": "understudy", "prompt": "x", "max_tokens": 40, "temperature": 2, "seed": seed,
			"ignore_eos": true, "allowed_token_ids": idsOf(s, "😀🚀漢é a")})
		require.NotContains(t, walk, "\uFFFD")
	}
}

func TestO23CutInsideACharacter(t *testing.T) {
	s := serve(t)
	// The model copies what it is told to; every cut of the copy must agree with its twin.
	for limit := 1; limit <= 12; limit++ {
		req := obj{"model": "understudy", "messages": user("Repeat: 🧿🪬🫠🦩🪗🫧"), "max_tokens": limit, "temperature": 0, "ignore_eos": true,
			"allowed_token_ids": idsOf(s, "🧿🪬🫠🦩🪗🫧")}
		text := twins(t, s, "/v1/chat/completions", req)
		o, _ := s.chat(req)
		require.Equal(t, "length", choice(o, 0)["finish_reason"])
		require.Equal(t, limit, usage(o, "completion_tokens"))
		require.True(t, utf8.ValidString(text))
		for seed := range 4 { // other characters, cut anywhere
			raw := obj{"model": "understudy", "prompt": "x", "max_tokens": limit, "temperature": 2, "seed": seed, "ignore_eos": true, "allowed_token_ids": idsOf(s, "漢字é😀")}
			require.NotContains(t, twins(t, s, "/v1/completions", raw), "\uFFFD")
		}
	}
}

// idsOf returns the distinct token ids of a text.
func idsOf(s *server, text string) []any {
	o, _ := s.post("/tokenize", obj{"model": "understudy", "prompt": text})
	seen := map[any]bool{}
	var ids []any
	for _, id := range o["tokens"].([]any) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

func TestO24ErrorsBeforeAndAfterTheFirstByte(t *testing.T) {
	s := serve(t)
	s.refused(400, "/v1/chat/completions", `{"model":"understudy","messages":[],"stream":true}`)
	s.refused(400, "/v1/chat/completions", `{"model":"understudy","messages":[{"role":"user","content":"Hi"}],"temperature":-3,"stream":true}`)

	fault := obj{"model": "understudy", "messages": user("Count to forty."), "max_tokens": 60, "temperature": 0,
		"stream_options": obj{"include_usage": true}, "vllm_xargs": obj{"troupe_fault": "panic-in-sampling", "troupe_fault_after": 3}}
	var e *sse
	var before, after map[string]float64
	neighbour(t, s, func() {
		before = s.scrape()
		e = s.stream("/v1/chat/completions", fault)
		after = s.scrape()
	})
	require.True(t, e.Done, "the stream ends with [DONE] after an error too: %s", e.Raw)
	errObj, ok := e.last()["error"].(obj)
	require.True(t, ok, "%s", e.Raw)
	require.EqualValues(t, 500, errObj["code"])
	require.Equal(t, "Internal server error", errObj["message"])
	require.Equal(t, e.Chunks[0]["id"], errObj["request_id"])
	require.Empty(t, e.finish(0))
	require.NotEmpty(t, e.text(0))
	const series = "vllm:request_success_total"
	require.EqualValues(t, 1, sum(after, series, `finished_reason="error"`)-sum(before, series, `finished_reason="error"`))
	require.EqualValues(t, 3, sum(after, "vllm:request_generation_tokens_sum")-sum(before, "vllm:request_generation_tokens_sum"),
		"the failed request is booked with its tokens so far")

	whole := s.do("POST", "/v1/chat/completions", body(with(fault, obj{"stream_options": nil})), "X-Request-Id", "failed-1")
	require.Equal(t, 500, whole.Status)
	errObj = s.parse(whole.Body)["error"].(obj)
	require.Equal(t, "failed-1", errObj["request_id"])
	text := s.do("POST", "/v1/completions", body(obj{"model": "understudy", "prompt": "x", "vllm_xargs": obj{"troupe_fault": "panic-in-sampling"}}))
	require.Equal(t, 500, text.Status)
	require.NotEmpty(t, s.parse(text.Body)["error"].(obj)["request_id"], "without an id of the client's too")
	alive(t, s)
}
