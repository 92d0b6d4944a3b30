package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// fakeInspector is an infer.Inspector of fixed requests.
type fakeInspector struct {
	mu       sync.Mutex
	requests []infer.RequestInfo
	faults   []string
}

func (i *fakeInspector) Requests() []infer.RequestInfo {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests
}

func (i *fakeInspector) CancelRequest(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	found := len(i.requests) > 0 && i.requests[0].ID == id
	if found {
		i.requests = nil
	}
	return found
}

func (i *fakeInspector) InjectFault(kind string, batcher int) error {
	if kind == "none" || batcher > 1 {
		return infer.Errorf(infer.CodeInvalid, "kind", "no such fault")
	}
	i.faults = append(i.faults, kind)
	return nil
}

func root() http.Key {
	k := named("admin", "root")
	k.Admin = true
	return k
}

const asRoot, asUser = "Bearer root", "Bearer user"

func TestLiveRequests(t *testing.T) {
	inspector := &fakeInspector{requests: []infer.RequestInfo{{
		ID: "cmpl-a/b", Key: "team", Phase: infer.PhaseQueued, Arrival: infer.Now(), NumPromptTokens: 3, NumSequences: 1, QueuePosition: 2,
	}}}
	s := start(t, http.Options{Inspector: inspector, Keys: []http.Key{root(), named("team", "user")}})
	for _, method := range []string{"GET", "DELETE"} {
		for _, path := range []string{"/v1/requests", "/v1/requests/x"} {
			if method == "DELETE" && path == "/v1/requests" {
				continue
			}
			require.Equal(t, 401, s.do(t, method, path, "").StatusCode)
			require.Equal(t, 401, s.do(t, method, path, "", "Authorization", "Bearer nobody").StatusCode)
			res := s.do(t, method, path, "", "Authorization", asUser)
			require.Equal(t, 403, res.StatusCode)
			require.Contains(t, res.body, `"type":"Forbidden"`)
		}
	}
	res := s.do(t, "GET", "/v1/requests", "", "Authorization", asRoot)
	require.Equal(t, 200, res.StatusCode)
	require.Regexp(t, `^\{"object":"list","data":\[\{"id":"cmpl-a/b","object":"request","key":"team","phase":"queued","age_ms":[0-9.]+,"num_prompt_tokens":3,`+
		`"num_output_tokens":0,"num_cached_tokens":0,"num_sequences":1,"num_recoveries":0,"queue_position":2,"priority":0\}\]\}$`, res.body)
	for _, path := range []string{"/v1/requests/cmpl-a/b", "/v1/requests/cmpl-a%2Fb"} {
		require.Contains(t, s.do(t, "GET", path, "", "Authorization", asRoot).body, `"phase":"queued"`)
	}
	res = s.do(t, "DELETE", "/v1/requests/cmpl-a%2Fb", "", "Authorization", asRoot)
	require.Equal(t, `{"id":"cmpl-a/b","object":"request","cancelled":true}`, res.body)
	require.Equal(t, 404, s.do(t, "DELETE", "/v1/requests/cmpl-a%2Fb", "", "Authorization", asRoot).StatusCode)
	require.Equal(t, `{"object":"list","data":[]}`, s.do(t, "GET", "/v1/requests", "", "Authorization", asRoot).body)
}

func TestWithoutAnAdministratorNobodyLooks(t *testing.T) {
	s := start(t, http.Options{Inspector: &fakeInspector{}})
	require.Equal(t, 404, s.do(t, "GET", "/v1/requests", "").StatusCode)
	require.Equal(t, 404, s.do(t, "DELETE", "/v1/requests/x", "").StatusCode)
	s = start(t, http.Options{Inspector: &fakeInspector{}, Keys: []http.Key{named("team", "user")}})
	require.Equal(t, 404, s.do(t, "GET", "/v1/requests", "", "Authorization", asUser).StatusCode)
}

// recorded is what tests read of a record.
type recorded struct {
	ID, Key, Endpoint, Error string
	FinishReason             string `json:"finish_reason"`
	Status                   int
	NumPromptTokens          int `json:"num_prompt_tokens"`
	NumOutputTokens          int `json:"num_output_tokens"`
	NumRecoveries            int `json:"num_recoveries"`
	NumSequences             int `json:"num_sequences"`
	Metrics                  map[string]*float64
}

// recordLog collects the lines of a request log.
type recordLog struct{ lines chan recorded }

func (l *recordLog) add(t *testing.T) func([]byte) {
	return func(line []byte) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil || line[len(line)-1] != '\n' {
			t.Errorf("line %q: %v", line, err)
		}
		l.lines <- r
	}
}

func newRecordLog() *recordLog { return &recordLog{lines: make(chan recorded, 64)} }

// outcomes scripts one ending per chat template that a request brings.
func outcomes() *fakeGenerator {
	return &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		f := &infer.Final{Usage: infer.Usage{NumPromptTokens: 3, NumCompletionTokens: 2}, FinishReason: infer.FinishStop, NumRecoveries: 1}
		switch r.Chat.Template {
		case "full":
			return nil, infer.Errorf(infer.CodeOverloaded, "", "full")
		case "broken":
			return nil, errors.New("broken")
		case "panic":
			panic("in the generator")
		case "hang":
			return newStream(r.ID), nil
		case "error":
			f.FinishReason, f.Err = infer.FinishError, infer.Internal(errors.New("x"))
		case "length":
			f.FinishReason = infer.FinishLength
			f.Metrics = &infer.RequestMetrics{QueueTimeMs: infer.NullFloat{Value: 1.5, Valid: true}}
		}
		return newStream(r.ID, text("a"), finish("b"), infer.Event{Final: f}), nil
	}}
}

func TestEveryOutcomeIsRecorded(t *testing.T) {
	log := newRecordLog()
	reg := prometheus.NewRegistry()
	g := outcomes()
	user := named("team", "user")
	s := start(t, http.Options{
		Generator: g, Inspector: &fakeInspector{}, Keys: []http.Key{root(), user}, Gatherer: reg,
		Requests: metrics.NewRequests(reg, []string{"team", "admin"}), RequestLog: log.add(t),
	})
	send := func(body string) recorded {
		s.do(t, "POST", "/v1/chat/completions", body, "Authorization", asUser)
		return <-log.lines
	}
	for _, tt := range []struct {
		fields string
		want   recorded
	}{
		{``, recorded{Status: 200, FinishReason: "stop"}},
		{streamed, recorded{Status: 200, FinishReason: "stop"}},
		{`"chat_template":"length"`, recorded{Status: 200, FinishReason: "length"}},
		{`"chat_template":"error"`, recorded{Status: 500, FinishReason: "error", Error: "internal"}},
		{`"chat_template":"error",` + streamed, recorded{Status: 200, FinishReason: "error", Error: "internal"}},
		{`"chat_template":"full"`, recorded{Status: 503, FinishReason: "refused", Error: "overloaded"}},
		{`"chat_template":"broken"`, recorded{Status: 500, FinishReason: "refused", Error: "internal"}},
		{`"chat_template":"panic"`, recorded{Status: 500, FinishReason: "refused", Error: "internal"}},
		{`"temperature":-1`, recorded{Status: 400, FinishReason: "refused", Error: "invalid"}},
	} {
		got := send(chat(tt.fields))
		require.Equal(t, tt.want, recorded{Status: got.Status, FinishReason: got.FinishReason, Error: got.Error}, tt.fields)
		require.Equal(t, "team", got.Key)
		require.Equal(t, "/v1/chat/completions", got.Endpoint)
		if got.FinishReason != "refused" {
			require.Equal(t, []int{3, 2, 1, 1}, []int{got.NumPromptTokens, got.NumOutputTokens, got.NumRecoveries, got.NumSequences})
		}
		if got.FinishReason == "length" {
			require.InDelta(t, 1.5, *got.Metrics["queue_time_ms"], 0)
			require.Len(t, got.Metrics, 5)
		}
		res := s.do(t, "GET", "/v1/requests/"+got.ID, "", "Authorization", asRoot)
		require.Contains(t, res.body, `"finish_reason":"`+got.FinishReason+`"`)
		require.Equal(t, 404, s.do(t, "DELETE", "/v1/requests/"+got.ID, "", "Authorization", asRoot).StatusCode, "it is over")
	}
	require.Equal(t, "malformed", send("{").Error)
	s.do(t, "POST", "/v1/completions", "{}") // no key
	require.Equal(t, 401, (<-log.lines).Status)

	text := s.do(t, "GET", "/metrics", "").body
	for _, want := range []string{
		`troupe:requests_received_total{key="team"} 10`, `troupe:requests_received_total{key=""} 1`,
		`troupe:requests_finished_total{finished_reason="stop",key="team"} 2`, `troupe:requests_finished_total{finished_reason="length",key="team"} 1`,
		`troupe:requests_finished_total{finished_reason="error",key="team"} 2`, `troupe:requests_finished_total{finished_reason="refused",key="team"} 5`,
		`troupe:requests_finished_total{finished_reason="refused",key=""} 1`,
	} {
		require.Contains(t, text, want)
	}
}

func TestClientsThatLeaveAreRecordedAsTheEngineSawThem(t *testing.T) {
	log := newRecordLog()
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, RequestLog: log.add(t)})
	for _, fields := range []string{"", streamed} {
		conn, _ := s.raw(t, post("/v1/chat/completions", chat(fields)))
		stream := <-streams
		stream.endWith(&infer.Final{FinishReason: infer.FinishAbort, Usage: infer.Usage{NumPromptTokens: 7, NumCompletionTokens: 4}})
		require.NoError(t, conn.Close())
		got := <-log.lines
		require.Equal(t, []any{499, "abort", 7, 4}, []any{got.Status, got.FinishReason, got.NumPromptTokens, got.NumOutputTokens})
	}
}

func TestEqualIDsDoNotMix(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	ids := map[string]bool{}
	var all []*fakeStream
	for range 3 {
		s.raw(t, strings.Replace(post("/v1/chat/completions", chat(streamed)), "Host: x", "Host: x\r\nX-Request-Id: mine", 1))
		stream := <-streams
		all = append(all, stream)
		ids[stream.id] = true
		require.True(t, strings.HasPrefix(stream.id, "chatcmpl-mine"))
	}
	require.Len(t, ids, 3)
	require.True(t, ids["chatcmpl-mine"])
	for _, stream := range all {
		stream.push(finish(""), final(1, 1))
	}
}

func TestTokensAreCharged(t *testing.T) {
	limited := named("team", "user")
	limited.TokensPerMinute = 6
	log := newRecordLog()
	s := start(t, http.Options{Keys: []http.Key{limited}, RequestLog: log.add(t)}) // 5 tokens per answer
	var statuses []int
	for range 3 {
		statuses = append(statuses, s.do(t, "POST", "/v1/chat/completions", chat(streamed), "Authorization", asUser).StatusCode)
		<-log.lines
	}
	require.Equal(t, []int{200, 200, 429}, statuses)
}

func TestFaults(t *testing.T) {
	inspector := &fakeInspector{}
	s := start(t, http.Options{Inspector: inspector, FaultInjection: true})
	require.Equal(t, `{"kind":"panic","batcher":1}`, s.do(t, "POST", "/debug/fault", `{"kind":"panic","batcher":1}`).body)
	require.Equal(t, `{"kind":"error","batcher":-1}`, s.do(t, "POST", "/debug/fault", `{"kind":"error"}`).body)
	require.Equal(t, 400, s.do(t, "POST", "/debug/fault", `{"kind":"none"}`).StatusCode)
	require.Equal(t, 400, s.do(t, "POST", "/debug/fault", `[]`).StatusCode)
	require.Equal(t, []string{"panic", "error"}, inspector.faults)

	s = start(t, http.Options{Inspector: inspector, FaultInjection: true, Keys: []http.Key{root()}})
	require.Equal(t, 401, s.do(t, "POST", "/debug/fault", `{"kind":"panic"}`).StatusCode)
	require.Equal(t, 200, s.do(t, "POST", "/debug/fault", `{"kind":"panic"}`, "Authorization", asRoot).StatusCode)
	s = start(t, http.Options{Inspector: inspector})
	require.Equal(t, 404, s.do(t, "POST", "/debug/fault", `{"kind":"panic"}`).StatusCode)
	_, err := http.New(http.Options{Generator: answers(), FaultInjection: true})
	require.Error(t, err)
}
