package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

func TestChatAnswer(t *testing.T) {
	s := start(t, http.Options{})
	res := s.do(t, "POST", "/v1/chat/completions", chat(""))
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	var body struct {
		ID      string
		Choices []struct {
			Message struct{ Role, Content string }
		}
		Usage map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(res.body), &body))
	require.Regexp(t, `^chatcmpl-[0-9a-f]{32}$`, body.ID)
	require.Equal(t, "Hello", body.Choices[0].Message.Content)
	require.Equal(t, "assistant", body.Choices[0].Message.Role)
	require.InDelta(t, 5.0, body.Usage["total_tokens"], 0)
	require.NotContains(t, res.body, `"metrics"`)
}

func TestStreamOnTheWire(t *testing.T) {
	s := start(t, http.Options{PerRequestMetrics: true})
	body := chat(`"stream":true,"stream_options":{"include_usage":true}`)
	_, r := s.raw(t, post("/v1/chat/completions", body))
	head := readHead(t, r)
	require.Contains(t, head, "HTTP/1.1 200 OK\r\n")
	require.Contains(t, head, "Content-Type: text/event-stream; charset=utf-8\r\n")
	require.Contains(t, head, "Cache-Control: no-cache\r\n")
	require.Contains(t, head, "Transfer-Encoding: chunked\r\n")
	chunks := readChunks(t, r)
	require.Len(t, chunks, 1, "what is pending goes out in one flush")
	events := strings.Split(strings.TrimSuffix(chunks[0], "\n\n"), "\n\n")
	require.Len(t, events, 5)
	for i, want := range []string{
		`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
		`"choices":[{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null}]}`,
		`"choices":[{"index":0,"delta":{"content":"lo"},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`,
		`"choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2},"metrics":null}`,
		`data: [DONE]`,
	} {
		require.True(t, strings.HasSuffix(events[i], want), events[i])
	}
}

func TestConnectionIsKeptAfterAStream(t *testing.T) {
	s := start(t, http.Options{})
	conn, r := s.raw(t, post("/v1/completions", `{"prompt":"x","stream":true}`))
	readHead(t, r)
	readChunks(t, r)
	_, err := io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.Contains(t, readHead(t, r), "200 OK")
}

func TestHTTP10GetsNoChunks(t *testing.T) {
	s := start(t, http.Options{})
	body := chat(streamed)
	_, r := s.raw(t, strings.Replace(post("/v1/chat/completions", body), "HTTP/1.1", "HTTP/1.0", 1))
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NotContains(t, string(all), "chunked")
	require.True(t, strings.HasSuffix(string(all), "data: [DONE]\n\n"))
}

func TestErrorsBeforeTheFirstByte(t *testing.T) {
	s := start(t, http.Options{Generator: &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		switch r.Chat.Template {
		case "full":
			return nil, &infer.Error{Code: infer.CodeOverloaded, Message: "queue full", RetryAfter: 1500 * time.Millisecond}
		case "long":
			return nil, infer.Errorf(infer.CodeContextLength, "input_tokens", "This model's maximum context length is 128 tokens.")
		}
		return nil, errors.New("secret path /etc")
	}}})
	for _, c := range []struct{ fields, want, retryAfter string }{
		{`"temperature":-3,"stream":true`, `{"error":{"message":"temperature: must be in [0, 2], got -3","type":"BadRequestError","param":"temperature","code":400,"reason":"invalid_request_error"}}`, ""},
		{`"chat_template":"full","stream":true`, `{"error":{"message":"queue full","type":"Service Unavailable","param":null,"code":503,"reason":"server_overloaded"}}`, "2"},
		{`"chat_template":"long"`, `{"error":{"message":"This model's maximum context length is 128 tokens.","type":"BadRequestError","param":"input_tokens","code":400,"reason":"context_length_exceeded"}}`, ""},
		{``, `{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500,"reason":"internal_error","request_id":"mine"}}`, ""},
	} {
		res := s.do(t, "POST", "/v1/chat/completions", chat(c.fields), "X-Request-Id", "mine")
		require.Equal(t, c.want, res.body)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.Equal(t, c.retryAfter, res.Header.Get("Retry-After"))
	}
}

func TestFailureOfAWholeAnswer(t *testing.T) {
	failed := infer.Event{Final: &infer.Final{Err: infer.Internal(errors.New("secret"))}}
	var log strings.Builder
	s := start(t, http.Options{Generator: answers(text("Hel"), failed), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	res := s.do(t, "POST", "/v1/chat/completions", chat(""))
	require.Equal(t, 500, res.StatusCode)
	require.NotContains(t, res.body, "secret")
	res = s.do(t, "POST", "/v1/chat/completions", chat(streamed), "X-Request-Id", "mine")
	require.Equal(t, 200, res.StatusCode)
	require.True(t, strings.HasSuffix(res.body, `"code":500,"reason":"internal_error","request_id":"chatcmpl-mine"}}`+"\n\ndata: [DONE]\n\n"), res.body)
	require.NotContains(t, res.body, `"finish_reason":"`)
	require.NoError(t, s.Shutdown(t.Context()))
	require.Empty(t, log.String(), "the generator has logged it")
}

func TestPanicsEndOneRequestOnly(t *testing.T) {
	broken := newStream("x", text("a"))
	broken.onDrain = func() { panic("writer") }
	var log strings.Builder
	s := start(t, http.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Generator: &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		if r.Chat.Template == "handler" {
			panic("handler")
		}
		return broken, nil
	}}})
	res := s.do(t, "POST", "/v1/chat/completions", chat(`"chat_template":"handler"`))
	require.Equal(t, 500, res.StatusCode)
	require.Contains(t, res.body, `"InternalServerError"`)
	res = s.do(t, "POST", "/v1/chat/completions", chat(streamed))
	require.True(t, strings.HasPrefix(res.body, `data: {"error":`), res.body)
	require.True(t, strings.HasSuffix(res.body, "data: [DONE]\n\n"))
	require.Equal(t, infer.CancelInternal, <-broken.cancelled)
	require.Equal(t, 200, s.do(t, "GET", "/health", "").StatusCode)
	require.NoError(t, s.Shutdown(t.Context()))
	require.Equal(t, 2, strings.Count(log.String(), "level=ERROR msg=panic method=POST path=/v1/chat/completions id=chatcmpl-"), log.String())
	require.Equal(t, 2, strings.Count(log.String(), "\n"), "one line for each")
}

func TestSmallEndpoints(t *testing.T) {
	g := answers()
	g.tokenize = func(r *infer.TokenizeRequest) (*infer.TokenizeResult, error) {
		return &infer.TokenizeResult{TokenIDs: []int32{1, 2}}, nil
	}
	sick := false
	g.health = func() error {
		if sick {
			return errors.New("dead")
		}
		return nil
	}
	reg := metrics.NewRegistry()
	s := start(t, http.Options{Generator: g, Version: "1.2.3", Gatherer: reg, HTTPMetrics: metrics.NewHTTP(reg)})
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/version", "", 200, `{"version":"1.2.3"}`},
		{"GET", "/load", "", 200, `{"server_load":0}`},
		{"GET", "/health", "", 200, ""},
		{"GET", "/ping", "", 200, ""},
		{"POST", "/ping", "", 200, ""},
		{"POST", "/tokenize", `{"prompt":"x"}`, 200, `{"count":2,"max_model_len":128,"tokens":[1,2],"token_strs":null}`},
		{"POST", "/detokenize", `{"tokens":[3,4]}`, 200, `{"prompt":"[3 4]"}`},
		{"GET", "/nowhere", "", 404, `{"error":{"message":"Not Found","type":"Not Found","param":null,"code":404,"reason":"invalid_request_error"}}`},
		{"GET", "/v1/chat/completions", "", 405, `{"error":{"message":"Method Not Allowed","type":"Method Not Allowed","param":null,"code":405,"reason":"invalid_request_error"}}`},
		{"BREW", "/version", "", 405, `{"error":{"message":"Method Not Allowed","type":"Method Not Allowed","param":null,"code":405,"reason":"invalid_request_error"}}`},
		{"POST", "/v1/embeddings", `{}`, 501, `{"error":{"message":"/v1/embeddings is not supported by this version","type":"NotImplementedError","param":null,"code":501,"reason":"invalid_request_error"}}`},
		{"POST", "/v1/embeddings", `{}`, 501, ""},
		{"GET", "/v1/models/nope", "", 404, ""},
		{"GET", "/v1/models/fake", "", 200, ""},
		{"GET", "/v1/models/org/alias", "", 200, ""},
		{"GET", "/v1/models/org%2Falias", "", 200, ""},
	} {
		res := s.do(t, c.method, c.path, c.body)
		require.Equal(t, c.status, res.StatusCode, c.path)
		if c.want != "" {
			require.Equal(t, c.want, res.body, c.path)
		}
	}
	res := s.do(t, "GET", "/v1/models", "")
	require.Contains(t, res.body, `"id":"org/alias","object":"model"`)
	require.Contains(t, res.body, `"root":"/models/fake","parent":null,"max_model_len":128`)
	sick = true
	res = s.do(t, "GET", "/health", "")
	require.Equal(t, 503, res.StatusCode)
	require.Empty(t, res.body)
	res = s.do(t, "GET", "/metrics", "")
	require.True(t, strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8"), res.Header.Get("Content-Type"))
}

func TestRequestIDs(t *testing.T) {
	s := start(t, http.Options{RequestIDHeaders: true})
	res := s.do(t, "POST", "/v1/chat/completions", chat(""), "X-Request-Id", "mine-1")
	require.Contains(t, res.body, `"id":"chatcmpl-mine-1"`)
	require.Equal(t, "mine-1", res.Header.Get("X-Request-Id"))
	res = s.do(t, "POST", "/v1/chat/completions", chat(""))
	require.Regexp(t, `^[0-9a-f]{32}$`, res.Header.Get("X-Request-Id"))
	require.NotContains(t, res.body, res.Header.Get("X-Request-Id"))
	res = s.do(t, "POST", "/v1/chat/completions", chat(""), "X-Request-Id", strings.Repeat("x", 129))
	require.Equal(t, 400, res.StatusCode)
	require.Contains(t, res.body, `"param":"X-Request-Id"`)
	require.Regexp(t, `^[0-9a-f]{32}$`, res.Header.Get("X-Request-Id"))
	plain := start(t, http.Options{})
	require.Empty(t, plain.do(t, "GET", "/version", "", "X-Request-Id", "mine").Header.Get("X-Request-Id"))
}

func TestRootPathAndBadOptions(t *testing.T) {
	s := start(t, http.Options{RootPath: "/api/"})
	require.Equal(t, 200, s.do(t, "GET", "/api/version", "").StatusCode)
	require.Equal(t, 200, s.do(t, "GET", "/version", "").StatusCode)
	require.Equal(t, 404, s.do(t, "GET", "/apiversion", "").StatusCode)
	for _, o := range []http.Options{
		{}, {Generator: answers(), BodyLimit: -1}, {Generator: answers(), MaxLogprobs: -2}, {Generator: answers(), RootPath: "x"},
		{Generator: answers(), APIKeys: []string{""}}, {Generator: answers(), SSEKeepAlive: -1},
	} {
		_, err := http.New(o)
		require.Error(t, err)
	}
}

func TestAccessLogHoldsNoText(t *testing.T) {
	var log strings.Builder
	s := start(t, http.Options{AccessLog: true, AccessLogExclude: []string{"/version"}, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	s.do(t, "POST", "/v1/completions?key=hidden", `{"prompt":"my secret prompt"}`, "X-Request-Id", "id-7")
	s.do(t, "GET", "/version", "")
	require.NoError(t, s.Shutdown(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), `"msg":"request","method":"POST","path":"/v1/completions","id":"cmpl-id-7","request_id":"id-7","status":200`)
	require.NotContains(t, log.String(), "secret")
	require.NotContains(t, log.String(), "hidden")
}

func TestAccessLogOfPollsAndBrokenStreams(t *testing.T) {
	g := answers(infer.Event{Final: &infer.Final{Err: infer.Errorf(infer.CodeUnavailable, "", "going down")}})
	sick := false
	g.health = func() error {
		if sick {
			return errors.New("dead")
		}
		return nil
	}
	var log strings.Builder
	s := start(t, http.Options{Generator: g, AccessLog: true, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s.do(t, "GET", "/health", "")
	sick = true
	s.do(t, "GET", "/health", "")
	s.do(t, "GET", "/v1/models", "")
	s.do(t, "POST", "/v1/chat/completions", chat(streamed))
	require.NoError(t, s.Shutdown(t.Context()))
	lines := strings.Split(log.String(), "\n")
	require.Len(t, lines, 5, log.String())
	for i, want := range []string{
		`level=DEBUG msg=request method=GET path=/health status=200 ms=`,
		`level=INFO msg=request method=GET path=/health status=503 ms=`,
		`level=INFO msg=request method=GET path=/v1/models status=200 ms=`,
		`level=INFO msg=request method=POST path=/v1/chat/completions id=chatcmpl-`,
	} {
		require.Contains(t, lines[i], want)
	}
	require.Contains(t, lines[3], " error=unavailable")
}
