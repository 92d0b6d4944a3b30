package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// ask is a body of POST /v1/messages.
func ask(fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return `{"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]` + fields + `}`
}

// scripted ends requests as their stop sequence says.
func scripted() *fakeGenerator {
	return &fakeGenerator{
		generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
			f := &infer.Final{Usage: infer.Usage{NumPromptTokens: 3, NumCompletionTokens: 2}, FinishReason: infer.FinishStop}
			switch strings.Join(r.Sampling.Stop, "") {
			case "full":
				return nil, infer.Errorf(infer.CodeOverloaded, "", "full")
			case "long":
				return nil, infer.Errorf(infer.CodeContextLength, "max_tokens", "too long")
			case "broken":
				return nil, errors.New("broken")
			case "panic":
				panic("in the generator")
			case "error":
				f.FinishReason, f.Err = infer.FinishError, infer.Internal(errors.New("x"))
			}
			first := text("a")
			first.Delta.Prompt = &infer.PromptInfo{TokenIDs: []int32{1, 2, 3}}
			return newStream(r.ID, first, finish("b"), infer.Event{Final: f}), nil
		},
		tokenize: func(r *infer.TokenizeRequest) (*infer.TokenizeResult, error) {
			if r.Chat == nil || r.AddSpecialTokens {
				return nil, errors.New("not how messages are rendered")
			}
			return &infer.TokenizeResult{TokenIDs: make([]int32, len(r.Chat.Messages)+10)}, nil
		},
	}
}

func TestMessages(t *testing.T) {
	s := start(t, http.Options{Generator: scripted()})
	res := s.do(t, "POST", "/v1/messages?beta=true", ask(""), "X-Request-Id", "mine", "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "a,b")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "mine", res.Header.Get("Request-Id"))
	require.Equal(t, `{"id":"msg_mine","type":"message","role":"assistant","model":"fake","content":[{"type":"text","text":"ab","citations":null}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"container":null,`+
		`"usage":{"input_tokens":3,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":2,"output_tokens_details":null}}`, res.body)

	res = s.do(t, "POST", "/v1/messages", ask(streamed), "X-Request-Id", "mine")
	require.Equal(t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
	require.Equal(t, "mine", res.Header.Get("Request-Id"))
	var names []string
	for event := range strings.SplitSeq(strings.TrimSpace(res.body), "\n\n") {
		name, data, _ := strings.Cut(event, "\ndata: ")
		names = append(names, strings.TrimPrefix(name, "event: "))
		require.True(t, json.Valid([]byte(data)), data)
	}
	require.Equal(t, []string{"message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}, names)
	require.Contains(t, res.body, `"usage":{"input_tokens":3,`)

	s = start(t, http.Options{Generator: scripted(), PerRequestMetrics: true})
	require.Contains(t, s.do(t, "POST", "/v1/messages", ask("")).body, `,"metrics":null}`)
	require.Contains(t, s.do(t, "POST", "/v1/messages", ask(streamed), "X-Troupe-Metrics", "comment").body, "\n\n: {\"metrics\":null}\n\nevent: message_delta\n")
	require.Contains(t, s.do(t, "POST", "/v1/messages", ask(streamed)).body, `,"metrics":null}`+"\n\nevent: message_stop")
}

func TestCountTokens(t *testing.T) {
	s := start(t, http.Options{Generator: scripted(), APIKeys: []string{"k"}})
	res := s.do(t, "POST", "/v1/messages/count_tokens", `{"model":"fake","system":"S","messages":[{"role":"user","content":"Hi"}]}`, "X-Api-Key", "k")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, `{"input_tokens":12}`, res.body)
	res = s.do(t, "POST", "/v1/messages/count_tokens", `{"messages":[]}`, "X-Api-Key", "k", "X-Request-Id", "mine")
	require.Equal(t, 400, res.StatusCode)
	require.Equal(t, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: must not be empty"},"request_id":"mine"}`, res.body)
	require.Equal(t, 401, s.do(t, "POST", "/v1/messages/count_tokens", `{}`).StatusCode)
}

func TestErrorsOfMessages(t *testing.T) {
	log := newRecordLog()
	reg := prometheus.NewRegistry()
	limited := named("team", "slow")
	limited.RequestsPerMinute = 1
	s := start(t, http.Options{
		Generator: scripted(), Keys: []http.Key{named("user", "k"), limited}, BodyLimit: 1000,
		Requests: metrics.NewRequests(reg, []string{"team", "user"}), RequestLog: log.add(t),
	})
	stop := func(word, more string) string { return ask(fmt.Sprintf(`"stop_sequences":[%q]%s`, word, more)) }
	require.Equal(t, 200, s.do(t, "POST", "/v1/messages", ask(""), "X-Api-Key", "slow").StatusCode)
	require.Equal(t, "team", (<-log.lines).Key)
	for _, c := range []struct {
		body, key string
		status    int
		kind      string
	}{
		{ask(""), "nobody", 401, "authentication_error"},
		{ask(""), "slow", 429, "rate_limit_error"},
		{"{", "k", 400, "invalid_request_error"},
		{ask(`"model":"nope"`), "k", 404, "not_found_error"},
		{ask(`"surprise":"` + strings.Repeat("x", 1000) + `"`), "k", 413, "request_too_large"},
		{stop("long", ""), "k", 400, "invalid_request_error"},
		{stop("full", ""), "k", 503, "overloaded_error"},
		{stop("broken", ""), "k", 500, "api_error"},
		{stop("panic", ""), "k", 500, "api_error"},
		{stop("error", ""), "k", 500, "api_error"},
	} {
		res := s.do(t, "POST", "/v1/messages", c.body, "X-Api-Key", c.key)
		require.Equal(t, c.status, res.StatusCode, c.body)
		var e struct {
			Type  string
			Error struct{ Type, Message string }
			ID    string `json:"request_id"`
		}
		require.NoError(t, json.Unmarshal([]byte(res.body), &e), res.body)
		require.Equal(t, []string{"error", c.kind}, []string{e.Type, e.Error.Type})
		require.NotEmpty(t, e.Error.Message)
		require.NotEmpty(t, e.ID)
		require.Equal(t, e.ID, res.Header.Get("Request-Id"))
		require.Equal(t, c.status == 429, res.Header.Get("Retry-After") != "")
		require.Equal(t, c.status, (<-log.lines).Status, "one entry each")
	}
	res := s.do(t, "POST", "/v1/messages", stop("error", `,"stream":true`), "X-Api-Key", "k", "X-Request-Id", "mine")
	require.True(t, strings.HasSuffix(res.body, "event: error\ndata: "+`{"type":"error","error":{"type":"api_error","message":"Internal server error"},"request_id":"msg_mine"}`+"\n\n"), res.body)
	require.Equal(t, []any{200, "error", "/v1/messages"}, func(r recorded) []any { return []any{r.Status, r.FinishReason, r.Endpoint} }(<-log.lines))
	require.Equal(t, 404, s.do(t, "GET", "/v1/messages/batches", "", "X-Api-Key", "k").StatusCode)
	require.Contains(t, s.do(t, "GET", "/v1/messages", "", "X-Api-Key", "k").body, `{"type":"error","error":{"type":"invalid_request_error","message":"Method Not Allowed"}`)
	require.Empty(t, log.lines)
}

func TestAPIKeyHeaders(t *testing.T) {
	s := start(t, http.Options{APIKeys: []string{"one"}})
	for want, headers := range map[int][][]string{
		200: {{"X-Api-Key", "one"}, {"Authorization", "Bearer one"}, {"X-Api-Key", "two", "Authorization", "Bearer one"}, {"X-Api-Key", "one", "Authorization", "Basic two"}},
		401: {{"X-Api-Key", "two"}, {"X-Api-Key", ""}, {"X-Api-Key", "Bearer one"}, {"X-Api-Key", "one", "Authorization", "Bearer two"}, {}},
	} {
		for _, h := range headers {
			require.Equal(t, want, s.do(t, "GET", "/v1/models", "", h...).StatusCode, h)
		}
	}
}

func TestMessagesOfClientsThatLeave(t *testing.T) {
	log := newRecordLog()
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, RequestLog: log.add(t)})
	for _, fields := range []string{"", streamed} {
		conn, _ := s.raw(t, post("/v1/messages", ask(fields)))
		stream := <-streams
		require.NoError(t, conn.Close())
		require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
		require.Equal(t, 499, (<-log.lines).Status)
	}
}
