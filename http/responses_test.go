package http_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

type obj = map[string]any

func parseObj(t *testing.T, body string) obj {
	t.Helper()
	var o obj
	require.NoError(t, json.Unmarshal([]byte(body), &o), body)
	return o
}

const helloResponse = `{"input":"Hi"}`

// conversations returns a generator that answers "Hello" and the channel of what
// it was asked.
func conversations() (*fakeGenerator, chan []string) {
	asked := make(chan []string, 16)
	return &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		var messages []string
		for _, m := range r.Chat.Messages {
			messages = append(messages, string(m))
		}
		asked <- messages
		return newStream(r.ID, text("Hel"), finish("lo"), final(3, 2)), nil
	}}, asked
}

func TestResponseAnswer(t *testing.T) {
	s := start(t, http.Options{})
	res := s.do(t, "POST", "/v1/responses", helloResponse)
	require.Equal(t, 200, res.StatusCode, res.body)
	o := parseObj(t, res.body)
	require.Regexp(t, `^resp_[0-9a-f]{32}$`, o["id"])
	require.Equal(t, "completed", o["status"])
	require.Equal(t, false, o["store"], "nothing is kept unless the server is told to")
	require.NotContains(t, o, "metrics")
	require.Equal(t, "Hello", o["output"].([]any)[0].(obj)["content"].([]any)[0].(obj)["text"])
	for _, path := range []string{"/v1/responses/" + o["id"].(string), "/v1/responses/x/input_items"} {
		res = s.do(t, "GET", path, "")
		require.Equal(t, 404, res.StatusCode)
		require.Contains(t, res.body, "--enable-response-store")
		require.Contains(t, res.body, `"param":"response_id"`)
	}
	res = s.do(t, "POST", "/v1/responses", `{"input":"Hi","previous_response_id":"`+o["id"].(string)+`"}`)
	require.Equal(t, 404, res.StatusCode)
	require.Contains(t, res.body, `"param":"previous_response_id"`)
	require.Equal(t, 404, s.do(t, "POST", "/v1/responses/x", "").StatusCode)
	require.Equal(t, 400, s.do(t, "POST", "/v1/responses", `{}`).StatusCode)
}

func TestResponseStreamOnTheWire(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, PerRequestMetrics: true})
	_, r := s.raw(t, post("/v1/responses", `{"input":"Hi","stream":true}`))
	require.Contains(t, readHead(t, r), "Content-Type: text/event-stream; charset=utf-8\r\n")
	first := readChunk(t, r)
	require.True(t, strings.HasPrefix(first, "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_"), first)
	require.Contains(t, first, "event: response.in_progress\n", "before there is any output")
	f := final(3, 2)
	f.Final.Metrics = &infer.RequestMetrics{}
	(<-streams).push(text("Hel"), finish("lo"), f)
	rest := strings.Join(readChunks(t, r), "")
	require.Equal(t, 8, strings.Count(rest, "event: "))
	require.Contains(t, rest, `data: {"type":"response.completed","sequence_number":9,`)
	require.Equal(t, 1, strings.Count(rest, `"metrics":{`))
	require.NotContains(t, rest, "[DONE]")
}

func TestResponsesAreKept(t *testing.T) {
	g, asked := conversations()
	s := start(t, http.Options{Generator: g, ResponseStore: true})
	for _, stream := range []string{"", `,"stream":true`} {
		res := s.do(t, "POST", "/v1/responses", `{"input":"Hi","instructions":"Be kind."`+stream+`}`, "X-Request-Id", "a/b"+stream[:min(2, len(stream))])
		require.Equal(t, 200, res.StatusCode, res.body)
		<-asked
		body := res.body
		if stream != "" {
			_, body, _ = strings.Cut(body, "event: response.completed\ndata: ")
			raw, err := json.Marshal(parseObj(t, body)["response"])
			require.NoError(t, err)
			body = string(raw)
		}
		id := parseObj(t, body)["id"].(string)
		path := "/v1/responses/" + strings.NewReplacer("/", "%2F", `"`, "%22").Replace(id)
		require.JSONEq(t, body, s.do(t, "GET", path, "").body)
		require.Equal(t, 501, s.do(t, "GET", path+"?stream=true", "").StatusCode)
		items := parseObj(t, s.do(t, "GET", path+"/input_items", "").body)
		require.Len(t, items["data"], 1)
		require.Equal(t, 400, s.do(t, "GET", path+"/input_items?limit=x", "").StatusCode)

		quoted, err := json.Marshal(id)
		require.NoError(t, err)
		next := parseObj(t, s.do(t, "POST", "/v1/responses", `{"input":"More","previous_response_id":`+string(quoted)+`}`).body)
		require.Equal(t, id, next["previous_response_id"])
		require.Equal(t, []string{`{"role":"user","content":"Hi"}`, `{"role":"assistant","content":"Hello"}`, `{"role":"user","content":"More"}`}, <-asked)

		require.Equal(t, 400, s.do(t, "POST", path+"/cancel", "").StatusCode, "it is over")
		require.JSONEq(t, `{"id":`+string(quoted)+`,"object":"response","deleted":true}`, s.do(t, "DELETE", path, "").body)
		require.Equal(t, 404, s.do(t, "DELETE", path, "").StatusCode)
		require.Equal(t, 404, s.do(t, "GET", path, "").StatusCode)
		require.Equal(t, 200, s.do(t, "GET", "/v1/responses/"+next["id"].(string), "").StatusCode)
	}
	res := s.do(t, "POST", "/v1/responses", `{"input":"Hi","store":false}`)
	require.Equal(t, 404, s.do(t, "GET", "/v1/responses/"+parseObj(t, res.body)["id"].(string), "").StatusCode, "the client does not want it kept")
}

func TestResponsesOfOtherKeys(t *testing.T) {
	s := start(t, http.Options{ResponseStore: true, APIKeys: []string{"a", "b"}})
	require.Equal(t, 401, s.do(t, "POST", "/v1/responses", helloResponse).StatusCode)
	res := s.do(t, "POST", "/v1/responses", helloResponse, "Authorization", "Bearer a")
	id := parseObj(t, res.body)["id"].(string)
	require.Equal(t, 401, s.do(t, "GET", "/v1/responses/"+id, "").StatusCode)
	for key, status := range map[string]int{"a": 200, "b": 404} {
		auth := []string{"Authorization", "Bearer " + key}
		require.Equal(t, status, s.do(t, "GET", "/v1/responses/"+id, "", auth...).StatusCode)
		res := s.do(t, "POST", "/v1/responses", `{"input":"Hi","previous_response_id":"`+id+`"}`, auth...)
		require.Equal(t, status, res.StatusCode)
		if status == 404 {
			require.Contains(t, res.body, "Response with id '"+id+"' not found.")
		}
	}
	require.Equal(t, 404, s.do(t, "DELETE", "/v1/responses/"+id, "", "Authorization", "Bearer b").StatusCode)
	require.Equal(t, 404, s.do(t, "POST", "/v1/responses/"+id+"/cancel", "", "Authorization", "Bearer b").StatusCode)
	require.Equal(t, 200, s.do(t, "DELETE", "/v1/responses/"+id, "", "Authorization", "Bearer a").StatusCode)
}

func TestResponseInProgressIsCancelled(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, ResponseStore: true})
	_, r := s.raw(t, post("/v1/responses", `{"input":"Hi","stream":true}`))
	readHead(t, r)
	_, data, _ := strings.Cut(readChunk(t, r), "data: ")
	data, _, _ = strings.Cut(data, "\n")
	id := parseObj(t, data)["response"].(obj)["id"].(string)
	stream := <-streams
	stream.push(text("Hel"))
	readChunk(t, r)

	got := parseObj(t, s.do(t, "GET", "/v1/responses/"+id, "").body)
	require.Equal(t, "in_progress", got["status"])
	require.Equal(t, true, got["store"])
	require.Equal(t, 400, s.do(t, "POST", "/v1/responses", `{"input":"x","previous_response_id":"`+id+`"}`).StatusCode)

	cancelled := parseObj(t, s.do(t, "POST", "/v1/responses/"+id+"/cancel", "").body)
	require.Equal(t, infer.CancelAdmin, <-stream.cancelled)
	require.Equal(t, "cancelled", cancelled["status"])
	require.Equal(t, "Hel", cancelled["output"].([]any)[0].(obj)["content"].([]any)[0].(obj)["text"])
	rest := strings.Join(readChunks(t, r), "")
	require.Contains(t, rest, "event: error\n")
	require.Contains(t, rest, "event: response.failed\n")
	require.Equal(t, cancelled, parseObj(t, s.do(t, "GET", "/v1/responses/"+id, "").body))
	require.Equal(t, 400, s.do(t, "POST", "/v1/responses", `{"input":"x","previous_response_id":"`+id+`"}`).StatusCode)
}

// TestResponseOfAClientWhoLeft is kept as cancelled: what it was can be asked for.
func TestResponseOfAClientWhoLeft(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, ResponseStore: true})
	conn, r := s.raw(t, post("/v1/responses", `{"input":"Hi","stream":true}`))
	readHead(t, r)
	_, data, _ := strings.Cut(readChunk(t, r), "data: ")
	data, _, _ = strings.Cut(data, "\n")
	id := parseObj(t, data)["response"].(obj)["id"].(string)
	stream := <-streams
	require.NoError(t, conn.Close())
	require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
	res := s.do(t, "POST", "/v1/responses/"+id+"/cancel", "") // waits for the end, if that is still to come
	if res.StatusCode == 400 {
		res = s.do(t, "GET", "/v1/responses/"+id, "")
	}
	require.Equal(t, "cancelled", parseObj(t, res.body)["status"])
}

// TestResponseInTheBackground goes on without its client, to the end or to a cancellation.
func TestResponseInTheBackground(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, ResponseStore: true})
	const body = `{"input":"Hi","background":true}`
	first := parseObj(t, s.do(t, "POST", "/v1/responses", body).body)
	require.Equal(t, "in_progress", first["status"])
	require.Equal(t, true, first["background"])
	path := "/v1/responses/" + first["id"].(string)
	require.Equal(t, first, parseObj(t, s.do(t, "GET", path, "").body))
	s.client.CloseIdleConnections()
	(<-streams).push(text("Hel"), finish("lo"), final(3, 2))
	require.Eventually(t, func() bool {
		return parseObj(t, s.do(t, "GET", path, "").body)["status"] == "completed"
	}, 30*time.Second, time.Millisecond)

	second := parseObj(t, s.do(t, "POST", "/v1/responses", body).body)
	cancelled := parseObj(t, s.do(t, "POST", "/v1/responses/"+second["id"].(string)+"/cancel", "").body)
	require.Equal(t, "cancelled", cancelled["status"])
	require.Equal(t, infer.CancelAdmin, <-(<-streams).cancelled)

	third := parseObj(t, s.do(t, "POST", "/v1/responses", body).body)
	require.Equal(t, 200, s.do(t, "DELETE", "/v1/responses/"+third["id"].(string), "").StatusCode)
	require.Equal(t, infer.CancelAdmin, <-(<-streams).cancelled, "nobody would read it")

	s.do(t, "POST", "/v1/responses", body)
	last := <-streams
	require.NoError(t, s.Shutdown(context.Background()), "it holds nobody up")
	require.Equal(t, infer.CancelShutdown, <-last.cancelled)
}

func TestBackgroundNeedsTheStore(t *testing.T) {
	for _, test := range []struct {
		on   bool
		body string
	}{{false, `{"input":"Hi","background":true}`}, {true, `{"input":"Hi","background":true,"store":false}`}} {
		s := start(t, http.Options{ResponseStore: test.on})
		res := s.do(t, "POST", "/v1/responses", test.body)
		require.Equal(t, 400, res.StatusCode)
		require.Contains(t, res.body, `"param":"background"`)
	}
}

// TestResponseThatGrowsTooLarge: a stream repeats its output at its end, so it has a
// limit; one that is only too large to be kept is not kept.
func TestResponseThatGrowsTooLarge(t *testing.T) {
	const size = 10_000
	g := answers(text(strings.Repeat("x", size)), finish(""), final(1, 2))
	s := start(t, http.Options{Generator: g, AnswerLimit: 4 * size})
	res := s.do(t, "POST", "/v1/responses", `{"input":"Hi","stream":true}`)
	require.Contains(t, res.body, `event: error`+"\n"+`data: {"type":"error","sequence_number":2,"code":"invalid_request_error",`+
		`"message":"The response has grown beyond what 40000 bytes, the limit of an answer, have room for`)
	require.Contains(t, res.body, "event: response.failed\n")
	require.NotContains(t, res.body, "xxx")
	require.Equal(t, 200, s.do(t, "POST", "/v1/responses", helloResponse).StatusCode)

	s = start(t, http.Options{Generator: g, AnswerLimit: size, ResponseStore: true})
	res = s.do(t, "POST", "/v1/responses", helloResponse, "X-Request-Id", "large")
	require.Equal(t, 400, res.StatusCode)
	require.Equal(t, 404, s.do(t, "GET", "/v1/responses/resp_large", "").StatusCode)
}

// TestRecordOfAStreamThatGrowsTooLarge says what its client was told.
func TestRecordOfAStreamThatGrowsTooLarge(t *testing.T) {
	log := newRecordLog()
	stream := newStream("x")
	stream.push(text(strings.Repeat("x", 1<<16)))
	g := &fakeGenerator{generate: func(context.Context, *infer.Request) (infer.Stream, error) { return stream, nil }}
	s := start(t, http.Options{Generator: g, AnswerLimit: 1 << 16, RequestLog: log.add(t)})
	s.do(t, "POST", "/v1/responses", `{"input":"Hi","stream":true}`)
	require.Equal(t, infer.CancelTooLarge, <-stream.cancelled)
	require.Equal(t, "invalid", (<-log.lines).Error)
}

func TestResponsesInTheBackgroundAreBounded(t *testing.T) {
	g := &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) { return newStream(r.ID), nil }}
	s := start(t, http.Options{Generator: g, ResponseStore: true})
	const body = `{"input":"Hi","background":true}`
	first := s.do(t, "POST", "/v1/responses", body)
	res := first
	accepted := 0
	for ; res.StatusCode == 200; accepted++ {
		res = s.do(t, "POST", "/v1/responses", body)
	}
	require.Equal(t, 256, accepted)
	require.Equal(t, 429, res.StatusCode, res.body)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Contains(t, res.body, "the limit is 256 per key")
	require.Equal(t, 200, s.do(t, "POST", "/v1/responses/"+parseObj(t, first.body)["id"].(string)+"/cancel", "").StatusCode)
	require.Equal(t, 200, s.do(t, "POST", "/v1/responses", body).StatusCode)
}

func TestUnknownMembersOfItemsAreNotKept(t *testing.T) {
	s := start(t, http.Options{ResponseStore: true})
	res := s.do(t, "POST", "/v1/responses", `{"input":[{"id":"m","type":"message","role":"user","content":"Hi","junk":"x"}]}`)
	items := parseObj(t, s.do(t, "GET", "/v1/responses/"+parseObj(t, res.body)["id"].(string)+"/input_items", "").body)["data"].([]any)
	require.Equal(t, obj{"id": "m", "type": "message", "role": "user", "content": "Hi"}, items[0])
}

// TestBackgroundResponseThatGrowsTooLarge ends: nobody would read the rest.
func TestBackgroundResponseThatGrowsTooLarge(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, ResponseStore: true, AnswerLimit: 1000})
	res := s.do(t, "POST", "/v1/responses", `{"input":"Hi","background":true}`)
	stream := <-streams
	stream.push(text("a"))
	stream.push(text(strings.Repeat("x", 2000)))
	require.Equal(t, infer.CancelTooLarge, <-stream.cancelled)
	require.Eventually(t, func() bool {
		got := s.do(t, "GET", "/v1/responses/"+parseObj(t, res.body)["id"].(string), "").body
		return parseObj(t, got)["status"] == "failed" && strings.Contains(got, "max_output_tokens")
	}, 30*time.Second, time.Millisecond)
}
