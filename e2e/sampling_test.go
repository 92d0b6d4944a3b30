//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// alphabet is a request whose greedy answer is a long enough text for stop strings.
func alphabet(t *testing.T, s *server) (req obj, answer string) {
	req = obj{"model": "understudy", "messages": user("Count from 1 to 15."), "max_tokens": 60, "temperature": 0}
	o, _ := s.chat(req)
	answer = content(o, 0)
	require.Greater(t, len(answer), 30, "%q", answer)
	return req, answer
}

func TestO26StopStringAcrossTokens(t *testing.T) {
	s := serve(t)
	req, answer := alphabet(t, s)
	full, _ := s.chat(with(req, obj{"logprobs": true}))
	// tokensUpTo counts the tokens that the first numBytes of the answer take.
	tokensUpTo := func(numBytes int) int {
		for i, e := range choice(full, 0)["logprobs"].(obj)["content"].([]any) {
			if numBytes -= len(e.(obj)["token"].(string)); numBytes <= 0 {
				return i + 1
			}
		}
		return usage(full, "completion_tokens")
	}
	for k := 1; k <= len(answer)-6; k++ {
		for _, n := range []int{1, 2, 5} {
			stop := answer[k : k+n]
			if !utf8.ValidString(stop) {
				continue
			}
			want := answer[:strings.Index(answer, stop)]
			r := with(req, obj{"stop": []string{stop}})
			require.Equal(t, want, twins(t, s, "/v1/chat/completions", r), "stop %q", stop)
			o, _ := s.chat(r)
			require.Equal(t, "stop", choice(o, 0)["finish_reason"])
			require.Equal(t, stop, choice(o, 0)["stop_reason"])
			require.Equal(t, tokensUpTo(len(want+stop)), usage(o, "completion_tokens"), "nothing is generated after the stop %q", stop)
			kept, _ := s.chat(with(r, obj{"include_stop_str_in_output": true}))
			require.Equal(t, want+stop, content(kept, 0))
		}
	}
}

func TestO27SeveralStops(t *testing.T) {
	s := serve(t)
	req, answer := alphabet(t, s)
	s1, s2 := answer[20:24], answer[12:17]
	first := min(strings.Index(answer, s1), strings.Index(answer, s2))
	got := twins(t, s, "/v1/chat/completions", with(req, obj{"stop": []string{s1, s2, "never-there"}}))
	require.Equal(t, answer[:first], got)
	stopped, _ := s.chat(with(req, obj{"stop": []string{s1, s2, "never-there"}}))
	require.Equal(t, "stop", choice(stopped, 0)["finish_reason"])
	for _, ok := range []any{nil, "zzz", []string{"a1", "b1", "c1", "d1"}} {
		s.chat(with(req, obj{"stop": ok}))
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("stop", i)
	}
	for _, bad := range []any{"", []string{"a", ""}, many, 7, []any{1}, obj{}} {
		e := s.refused(400, "/v1/chat/completions", body(with(req, obj{"stop": bad})))
		require.Contains(t, fmt.Sprint(e["param"], e["message"]), "stop")
	}
}

func TestO29MaxCompletionTokens(t *testing.T) {
	s := serve(t)
	for _, limits := range []obj{{"max_completion_tokens": 5}, {"max_completion_tokens": 5, "max_tokens": 9}} {
		o, _ := s.chat(with(obj{"model": "understudy", "messages": user("Write a story."), "ignore_eos": true}, limits))
		require.Equal(t, 5, usage(o, "completion_tokens"))
		require.Equal(t, "length", choice(o, 0)["finish_reason"])
		twins(t, s, "/v1/chat/completions", with(obj{"model": "understudy", "messages": user("Count to ten."), "temperature": 0}, limits))
	}
}

func TestO30EveryChoiceIsItsOwn(t *testing.T) {
	s := serve(t)
	texts := func(o obj) (out []string) {
		for i := range o["choices"].([]any) {
			out = append(out, content(o, i))
		}
		return out
	}
	req := obj{"model": "understudy", "messages": user("Write a story about a fox."), "n": 3, "temperature": 1.5, "max_tokens": 24, "top_k": 0, "top_p": 1}
	o, _ := s.chat(req)
	require.Len(t, o["choices"], 3)
	different := 0
	for range 5 {
		o, _ := s.chat(with(req, obj{"messages": user("Give a random word."), "max_tokens": 8}))
		if x := texts(o); x[0] != x[1] || x[1] != x[2] {
			different++
		}
	}
	require.Positive(t, different, "three equal choices in each of five tries")
	seeded := with(req, obj{"seed": 7})
	a, _ := s.chat(seeded)
	b, _ := s.chat(seeded)
	require.Equal(t, texts(a), texts(b))
	require.NotEqual(t, texts(a)[0], texts(a)[1])
	require.NotEqual(t, texts(a)[1], texts(a)[2])

	words := obj{"model": "understudy", "prompt": "A", "n": 3, "max_tokens": 4, "temperature": 1}
	e := s.refused(400, "/v1/completions", body(with(words, obj{"best_of": 5})))
	require.Equal(t, "best_of", e["param"])
	c, _ := s.complete(with(words, obj{"best_of": 3}))
	require.Len(t, c["choices"], 3)
	s.refused(400, "/v1/chat/completions", body(with(req, obj{"temperature": 0})))
	for _, n := range []any{0, -1, 100000, 1e12, 1.5, "3"} {
		e := s.refused(400, "/v1/chat/completions", body(with(req, obj{"n": n})))
		require.Contains(t, fmt.Sprint(e["param"], e["message"]), "n")
	}
}

func TestO31SameSeedSameText(t *testing.T) {
	s := serve(t)
	req := obj{"model": "understudy", "messages": user("Tell me a story about a bear."), "temperature": 1.2, "max_tokens": 40, "top_p": 0.95, "presence_penalty": 0.5}
	seeded := with(req, obj{"seed": 1234})
	want := twins(t, s, "/v1/chat/completions", seeded)
	random := map[string]bool{}
	for range 5 {
		o, _ := s.chat(req)
		random[content(o, 0)] = true
		o, _ = s.chat(seeded)
		require.Equal(t, want, content(o, 0))
	}
	require.Greater(t, len(random), 1)
	other, _ := s.chat(with(req, obj{"seed": 4321}))
	require.NotEqual(t, want, content(other, 0))
	require.Contains(t, other, "system_fingerprint")
	again := serve(t)
	o, _ := again.chat(seeded)
	require.Equal(t, want, content(o, 0), "a seed holds across restarts")
}

func TestO32LogprobsEqualStreamingOrNot(t *testing.T) {
	s := serve(t)
	req := obj{"model": "understudy", "messages": user("Say hello."), "logprobs": true, "top_logprobs": 3, "max_tokens": 8, "temperature": 0}
	o, _ := s.chat(req)
	whole := choice(o, 0)["logprobs"].(obj)["content"].([]any)
	require.Equal(t, whole, streamLogprobs(s.stream("/v1/chat/completions", req)))
	require.Len(t, whole, usage(o, "completion_tokens"))
	for _, e := range whole {
		e := e.(obj)
		top := e["top_logprobs"].([]any)
		require.Len(t, top, 3)
		require.Equal(t, e["token"], top[0].(obj)["token"])
		previous, total := 0.0, 0.0
		for _, alt := range top {
			lp := alt.(obj)["logprob"].(float64)
			require.LessOrEqual(t, lp, previous)
			previous = lp
			total += math.Exp(lp)
		}
		require.LessOrEqual(t, total, 1+1e-6)
		require.Contains(t, e, "bytes")
	}
	text := obj{"model": "understudy", "prompt": "The capital of France is", "logprobs": 2, "max_tokens": 12, "temperature": 0}
	c, _ := s.complete(text)
	joined := obj{}
	for _, chunk := range s.stream("/v1/completions", text).Chunks {
		for k, v := range choice(chunk, 0)["logprobs"].(obj) {
			list, _ := joined[k].([]any)
			joined[k] = append(list, v.([]any)...)
		}
	}
	require.Equal(t, choice(c, 0)["logprobs"], any(joined))
}

func TestO33NoInfinityInJSON(t *testing.T) {
	s := serve(t)
	req := obj{"model": "understudy", "messages": user("Hi"), "logit_bias": obj{"0": -100}, "top_k": 1, "logprobs": true, "top_logprobs": 5, "max_tokens": 3}
	s.chat(req) // parsing is the check
	require.True(t, s.stream("/v1/chat/completions", req).Done)
	one := with(req, obj{"allowed_token_ids": []int{40}, "logit_bias": nil})
	o, _ := s.chat(one)
	for _, e := range choice(o, 0)["logprobs"].(obj)["content"].([]any) {
		require.Equal(t, "I", e.(obj)["token"])
	}
	require.True(t, s.stream("/v1/chat/completions", one).Done)
}

func TestO34EchoWithLogprobs(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	for _, c := range []struct {
		prompt    string
		maxTokens int
	}{{"The capital of France is Paris", 0}, {"The capital of France is", 2}, {"naïve 漢字 😀", 0}} {
		o, _ := s.complete(obj{"model": "understudy", "prompt": c.prompt, "echo": true, "logprobs": 1, "max_tokens": c.maxTokens, "temperature": 0})
		require.Equal(t, c.maxTokens, usage(o, "completion_tokens"))
		text := content(o, 0)
		require.True(t, strings.HasPrefix(text, c.prompt))
		lp := choice(o, 0)["logprobs"].(obj)
		tokens, offsets := lp["tokens"].([]any), lp["text_offset"].([]any)
		var joined strings.Builder
		for i, tok := range tokens {
			require.EqualValues(t, utf8.RuneCountInString(joined.String()), offsets[i])
			joined.WriteString(tok.(string))
		}
		require.Equal(t, text, joined.String())
		n := usage(o, "prompt_tokens") + c.maxTokens
		for _, k := range []string{"tokens", "token_logprobs", "top_logprobs", "text_offset"} {
			require.Len(t, lp[k], n, k)
		}
		require.Nil(t, lp["token_logprobs"].([]any)[0])
		require.NotNil(t, lp["token_logprobs"].([]any)[1])
		require.Nil(t, lp["top_logprobs"].([]any)[0])
		if c.maxTokens == 0 {
			require.Equal(t, 0.0, o["metrics"].(obj)["generation_time_ms"])
		}
	}
}
