//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// alive checks that the server still answers rightly.
func alive(t *testing.T, s *server) {
	t.Helper()
	o, _ := s.chat(obj{"model": "understudy", "messages": user("What is the capital of France?"), "temperature": 0})
	require.Contains(t, content(o, 0), "Paris")
	require.Equal(t, http.StatusOK, s.do("GET", "/health", "").Status)
}

// neighbour runs a long stream beside f and checks that it is undisturbed.
func neighbour(t *testing.T, s *server, f func()) {
	t.Helper()
	req := obj{"model": "understudy", "messages": user("Tell me a story about a penguin."), "max_tokens": 400, "temperature": 0, "ignore_eos": true}
	want, _ := s.chat(req)
	started, done := make(chan struct{}), make(chan *sse, 1)
	go func() {
		e, err := s.tryStream(context.Background(), "/v1/chat/completions", req, func(n int, _ obj) bool {
			if n == 2 {
				close(started)
			}
			return true
		})
		if err != nil {
			e = &sse{Raw: err.Error()}
		}
		done <- e
	}()
	<-started
	f()
	e := <-done
	require.True(t, e.Done, "%s", e.Raw)
	require.Equal(t, content(want, 0), e.text(0))
}

func TestO35TokenIDsOutsideTheVocabulary(t *testing.T) {
	s := serve(t)
	neighbour(t, s, func() {
		for prompt, id := range map[string]string{
			"[1,2,99999999]": "99999999", "[-1]": "-1", "[[1,2],[4294967297]]": "4294967297", "[1.5,2]": "1.5", "[2048]": "2048", "[1e30]": "",
		} {
			e := s.refused(400, "/v1/completions", `{"model":"understudy","prompt":`+prompt+`,"max_tokens":4}`)
			require.Contains(t, e["message"], id)
			require.Equal(t, "invalid_request_error", e["reason"])
		}
		for _, bad := range []obj{{"logit_bias": obj{"2048": 1}}, {"logit_bias": obj{"x": 1}}, {"stop_token_ids": []int{-5}}, {"allowed_token_ids": []int{99999}}, {"allowed_token_ids": []int{}}} {
			s.refused(400, "/v1/completions", body(with(obj{"model": "understudy", "prompt": "a", "max_tokens": 4}, bad)))
		}
	})
	e := s.refused(400, "/detokenize", `{"tokens":[1,99999999]}`)
	require.Contains(t, e["message"], "99999999")
	alive(t, s)
}

func TestO36PoisonFailsAlone(t *testing.T) {
	s := serve(t, "--enable-request-id-headers")
	for _, kind := range []string{"panic-in-sampling", "panic-in-step", "error-in-step"} {
		req := obj{"model": "understudy", "messages": user("Tell me a story about a penguin."), "max_tokens": 120, "temperature": 0}
		want, _ := s.chat(req)
		before := s.scrape()
		const neighbours = 8
		results := make(chan *sse, neighbours)
		started := make(chan struct{}, neighbours)
		for range neighbours {
			go func() {
				e, err := s.tryStream(context.Background(), "/v1/chat/completions", with(req, obj{"stream_options": obj{"include_usage": true}}), func(n int, _ obj) bool {
					if n == 2 {
						started <- struct{}{}
					}
					return true
				})
				if err != nil {
					e = &sse{Raw: err.Error()}
				}
				results <- e
			}()
		}
		for range neighbours {
			<-started
		}
		r := s.do("POST", "/v1/chat/completions", body(with(req, obj{"vllm_xargs": obj{"troupe_fault": kind}})), "X-Request-Id", "poison-1")
		require.Equal(t, 500, r.Status, "%s", r.Body)
		require.Equal(t, "poison-1", r.Header.Get("X-Request-Id"))
		for range neighbours {
			e := <-results
			require.True(t, e.Done, "%s: %s", kind, e.Raw)
			require.Equal(t, content(want, 0), e.text(0), kind)
			require.Equal(t, usage(want, "completion_tokens"), usage(e.last(), "completion_tokens"))
		}
		after := s.scrape()
		restarts := sum(after, "troupe:batcher_restarts_total") - sum(before, "troupe:batcher_restarts_total")
		if kind == "panic-in-sampling" {
			require.EqualValues(t, 1, restarts, "the culprit is known at once")
		} else {
			require.GreaterOrEqual(t, restarts, 4.0, "one with company, three alone")
			require.LessOrEqual(t, restarts, 6.0, "five alone, if the neighbours were done by then")
		}
		require.Zero(t, sum(after, "vllm:kv_cache_usage_perc"))
		alive(t, s)
	}
}

func TestO37OddCharacters(t *testing.T) {
	s := serve(t)
	const odd = `a\ud83db \u0000 \uffff \u202e \udfff`
	for _, raw := range []string{
		`{"model":"understudy","messages":[{"role":"user","content":"` + odd + `"}],"max_tokens":4}`,
		`{"model":"understudy","messages":[{"role":"user","content":"hi"}],"stop":["` + odd + `"],"max_tokens":4}`,
		`{"model":"understudy","messages":[{"role":"user","content":"hi","name":"` + odd + `"}],"user":"` + odd + `","max_tokens":4}`,
		`{"model":"` + odd + `","messages":[{"role":"user","content":"hi"}],"max_tokens":4}`,
	} {
		r := s.do("POST", "/v1/chat/completions", raw)
		require.Less(t, r.Status, 500, "%s", r.Body)
		require.True(t, json.Valid(r.Body))
	}
	r := s.do("POST", "/v1/completions", `{"prompt":"`+odd+`","echo":true,"max_tokens":0}`)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	alive(t, s)
}

func TestO38BodiesThatAreNotWhatTheySay(t *testing.T) {
	s := serve(t)
	deep := strings.Repeat("[", 200_000)
	var walls []time.Duration
	for name, raw := range map[string]string{
		"gbk":             "{\"model\":\"understudy\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc4\xe3\xba\xc3\"}]}",
		"empty":           "",
		"space":           "  ",
		"list":            "[]",
		"null":            "null",
		"number":          "7",
		"model number":    `{"model":1,"messages":[{"role":"user","content":"a"}]}`,
		"half":            `{"model":"understudy","messages":[{"role":"us`,
		"trailing":        `{"model":"understudy","messages":[{"role":"user","content":"a"}]} x`,
		"deep":            deep,
		"deep in a field": `{"model":"understudy","metadata":` + deep + strings.Repeat("]", 200_000) + `,"messages":[{"role":"user","content":"a"}]}`,
		"null content":    `{"model":"understudy","messages":[{"role":"user","content":null}]}`,
		"unknown part":    `{"model":"understudy","messages":[{"role":"user","content":[{"type":"hologram","hologram":1}]}]}`,
		"no messages":     `{"model":"understudy"}`,
		"messages object": `{"model":"understudy","messages":{}}`,
		"message string":  `{"model":"understudy","messages":["hi"]}`,
		"no role":         `{"model":"understudy","messages":[{"content":"hi"}]}`,
		"huge number":     `{"model":"understudy","messages":[{"role":"user","content":"a"}],"max_tokens":1e400}`,
		"nan":             `{"model":"understudy","messages":[{"role":"user","content":"a"}],"temperature":NaN}`,
	} {
		r, err := s.try(context.Background(), "POST", "/v1/chat/completions", raw, "Content-Type", "application/json")
		require.NoError(t, err, name)
		require.Equal(t, 400, r.Status, "%s: %s", name, r.Body)
		require.Less(t, r.Wall, 5*time.Second, name)
		walls = append(walls, r.Wall)
		require.True(t, json.Valid(r.Body), name)
		require.NotContains(t, string(r.Body), "goroutine", name)
		require.NotContains(t, string(r.Body), ".go:", name)
	}
	slices.Sort(walls)
	require.Less(t, walls[len(walls)*9/10], time.Second, "they are refused within a second")
	ok := `{"model":"understudy","messages":[{"role":"user","content":"hi"}],"max_tokens":2}`
	require.Equal(t, 415, s.do("POST", "/v1/chat/completions", ok, "Content-Encoding", "gzip").Status)
	require.Equal(t, 400, s.do("POST", "/v1/chat/completions", ok, "Content-Type", "text/plain").Status)
	require.Equal(t, 200, s.do("POST", "/v1/chat/completions", ok, "Content-Type", "application/json; charset=utf-8").Status)
	require.Less(t, s.do("POST", "/v1/chat/completions", strings.Replace(ok, "{", `{"max_tokens":9,`, 1)).Status, 500)
	alive(t, s)
}

func TestO39PromptLongerThanTheContext(t *testing.T) {
	s := serve(t)
	before := sum(s.scrape(), "vllm:iteration_tokens_total_count")
	e := s.refused(400, "/v1/chat/completions", body(obj{"model": "understudy", "messages": user(strings.Repeat("word ", 20000)), "max_tokens": 5}))
	require.Contains(t, e["message"], "maximum context length is 1024 tokens")
	require.Contains(t, e["message"], "5 output tokens")
	require.Equal(t, "context_length_exceeded", e["reason"])
	require.Equal(t, "input_tokens", e["param"])
	e = s.refused(400, "/v1/chat/completions", body(obj{"model": "understudy", "messages": user("Hi"), "max_tokens": 10000000}))
	require.Contains(t, fmt.Sprint(e["param"]), "max_tokens")
	require.Contains(t, e["message"], "1024")

	for path, fields := range map[string]obj{"/v1/chat/completions": {"messages": user(strings.Repeat("word ", 3_000_000))}, "/v1/completions": {"prompt": strings.Repeat("word ", 3_000_000)}} {
		e = s.refused(400, path, body(with(fields, obj{"max_tokens": 5})))
		require.Contains(t, e["message"], "maximum context length is 1024 tokens")
		require.Equal(t, "context_length_exceeded", e["reason"])
	}

	require.Equal(t, before, sum(s.scrape(), "vllm:iteration_tokens_total_count"), "no step was made for what is refused")

	cut, _ := s.complete(obj{"model": "understudy", "prompt": strings.Repeat("word ", 2000), "max_tokens": 2, "truncate_prompt_tokens": 100})
	require.Equal(t, 100, usage(cut, "prompt_tokens"))
	full, _ := s.complete(obj{"model": "understudy", "prompt": strings.Repeat("word ", 2000), "max_tokens": 2, "truncate_prompt_tokens": -1})
	require.LessOrEqual(t, usage(full, "prompt_tokens"), 1022)
	require.Greater(t, usage(full, "prompt_tokens"), 1000)
	alive(t, s)
}

func TestO40LargeBodiesAndHeaders(t *testing.T) {
	s := serve(t)
	pad := strings.Repeat("x", 8_000_000)
	req := body(obj{"model": "understudy", "messages": user("hi"), "max_tokens": 1, "metadata": obj{"pad": pad}})
	for range 100 {
		require.Equal(t, 200, s.do("POST", "/v1/chat/completions", req).Status)
	}
	require.Less(t, sum(s.scrape(), "process_resident_memory_bytes"), 400e6, "memory after 100 bodies of 8 MB")
	require.Equal(t, 200, s.do("POST", "/v1/chat/completions", body(obj{"messages": user("hi"), "max_tokens": 1}),
		"Authorization", "Bearer "+strings.Repeat("k", 12_000), "Cookie", strings.Repeat("c", 6_000)).Status, "18 KB of headers")
	require.Equal(t, 200, s.do("POST", "/v1/chat/completions", body(obj{"messages": user("hi"), "max_tokens": 1, "metadata": obj{"pad": strings.Repeat("x", 34_000_000)}})).Status)

	huge := io.MultiReader(strings.NewReader(`{"messages":[{"role":"user","content":"`), io.LimitReader(zeros{}, 200<<20))
	resp, err := http.Post(s.URL+"/v1/chat/completions", "application/json", huge)
	if err == nil { // the server may close the connection under a fast sender
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		require.Equal(t, 413, resp.StatusCode)
		require.True(t, json.Valid(b), "%s", b)
	}
	declared, _ := http.NewRequest("POST", s.URL+"/v1/chat/completions", io.LimitReader(zeros{}, 200<<20))
	declared.ContentLength = 200 << 20
	declared.Header.Set("Content-Type", "application/json")
	declared.Header.Set("Expect", "100-continue")
	if resp, err := http.DefaultClient.Do(declared); err == nil {
		resp.Body.Close()
		require.Equal(t, 413, resp.StatusCode)
	}
	r := s.do("GET", "/v1/models", "", "X-Pad", strings.Repeat("y", 200_000))
	require.Equal(t, 431, r.Status)
	require.True(t, json.Valid(r.Body), "%s", r.Body)
	alive(t, s)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("a"), len(p))), nil }

func TestO56LabelsCannotExplode(t *testing.T) {
	s := serve(t)
	before := len(s.scrape())
	for i := range 1000 {
		e := s.refused(404, "/v1/chat/completions", body(obj{"model": fmt.Sprintf("no-such-%d\"\n\xff", i), "messages": user("x"), "user": fmt.Sprint("u-", i)}))
		require.Equal(t, "model_not_found", e["reason"])
		require.Contains(t, e["message"], "does not exist")
		require.Equal(t, 404, s.do("GET", fmt.Sprintf("/v1/%d", i), "").Status)
	}
	after := s.scrape()
	require.Less(t, len(after)-before, 20, "new samples")
	require.EqualValues(t, 1000, sum(after, "http_requests_total", `handler="none"`, `method="GET"`, `status="4xx"`), "unknown paths share one label")
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	require.NoError(t, os.WriteFile(keys, []byte("keys: [{name: team-a, key: sk-a}]"), 0o600))
	keyed := serve(t, "--api-keys-file", keys)
	for i := range 50 {
		require.Equal(t, 401, keyed.do("POST", "/v1/completions", `{}`, bearer(fmt.Sprint("sk-", i))...).Status)
	}
	const received = "troupe:requests_received_total"
	m := keyed.scrape()
	require.EqualValues(t, 50, sum(m, received, `key=""`), "strangers share one label")
	require.EqualValues(t, 50, sum(m, received))
	escaped := serve(t, "--served-model-name", "quo\"te\nline")
	require.Positive(t, sum(escaped.scrape(), "vllm:cache_config_info")) // parsing is the check
}

func TestLaterFeaturesAreRefusedByName(t *testing.T) {
	s := serve(t)
	base := obj{"model": "understudy", "messages": user("x")}
	for field, value := range map[string]any{
		"functions":       []obj{{"name": "f", "parameters": obj{}}},
		"response_format": obj{"type": "structural_tag"},
	} {
		r := s.do("POST", "/v1/chat/completions", body(with(base, obj{field: value})))
		require.Contains(t, []int{400, 501}, r.Status, field)
		require.Contains(t, string(r.Body), field)
	}
	require.Contains(t, []int{404, 501}, s.do("POST", "/v1/embeddings", `{"input":"x"}`).Status)
	s.refused(400, "/v1/completions", `{"prompt":"a","suffix":"b"}`)
	s.chat(with(base, obj{"response_format": obj{"type": "text"}, "max_tokens": 2, "never_heard_of": 1, "tool_choice": "none"}))
}
