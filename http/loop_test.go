package http_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// toolbox is an infer.Toolbox of one server. Each call appears on calls, and gives what
// run says; nil = it is sunny.
type toolbox struct {
	calls chan infer.ServerCall
	run   func(context.Context, infer.ServerCall) infer.ToolResult
}

func newToolbox(run func(context.Context, infer.ServerCall) infer.ToolResult) *toolbox {
	if run == nil {
		run = func(context.Context, infer.ServerCall) infer.ToolResult { return infer.ToolResult{Text: "sunny"} }
	}
	return &toolbox{calls: make(chan infer.ServerCall, 256), run: run}
}

func (*toolbox) Servers() []infer.ToolServer {
	return []infer.ToolServer{{Label: "almanac", Tools: []infer.ServerTool{{Name: "weather", Function: "weather", Schema: json.RawMessage(`{"type":"object"}`)}}}}
}

func (b *toolbox) CallTool(ctx context.Context, c infer.ServerCall) infer.ToolResult {
	b.calls <- c
	return b.run(ctx, c)
}

// untilGone is a tool that hangs until its call is given up.
func untilGone(ctx context.Context, _ infer.ServerCall) infer.ToolResult {
	<-ctx.Done()
	return infer.ToolResult{Text: "given up", IsFailed: true}
}

// script is a generator whose turns hold what is written; each appears on asked.
type script struct {
	turns []any // []infer.Event, or an error
	asked chan *infer.Request
	made  chan *fakeStream
	mu    sync.Mutex
}

func newScript(turns ...any) *script {
	return &script{turns: turns, asked: make(chan *infer.Request, 256), made: make(chan *fakeStream, 256)}
}

func (g *script) generator() *fakeGenerator {
	return &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		turn := g.turns[0]
		if len(g.turns) > 1 { // the last one repeats
			g.turns = g.turns[1:]
		}
		g.asked <- r
		if err, ok := turn.(error); ok {
			return nil, err
		}
		s := newStream(r.ID, turn.([]infer.Event)...)
		g.made <- s
		return s, nil
	}}
}

// calling is a turn with calls of these functions.
func calling(functions ...string) []infer.Event {
	var pieces []infer.Piece
	for i, name := range functions {
		pieces = append(pieces, infer.Piece{Kind: infer.PieceCall, Index: i, ID: fmt.Sprint("c", i), Name: name},
			infer.Piece{Kind: infer.PieceArguments, Index: i, Text: "{}"}, infer.Piece{Kind: infer.PieceCallEnd, Index: i})
	}
	return []infer.Event{
		{Delta: infer.Delta{Parsed: &infer.Parsed{Pieces: pieces}, NumOutputTokens: 5, FinishReason: infer.FinishStop}}, billed(5),
	}
}

// answering is a turn with a text.
func answering(text string) []infer.Event {
	d := infer.Delta{Parsed: &infer.Parsed{Pieces: []infer.Piece{{Text: text}}}, NumOutputTokens: 5, FinishReason: infer.FinishStop}
	return []infer.Event{{Delta: d}, billed(5)}
}

func billed(numTokens int) infer.Event {
	return infer.Event{Final: &infer.Final{FinishReason: infer.FinishStop, Metrics: &infer.RequestMetrics{},
		Usage: infer.Usage{NumPromptTokens: 10, NumCompletionTokens: numTokens, NumCachedTokens: 2, NumReasoningTokens: 1}}}
}

func startLoop(t *testing.T, g *script, b *toolbox, o http.Options) *testServer {
	o.Generator, o.Tools, o.AutoToolChoice, o.PerRequestMetrics = g.generator(), b, true, true
	return start(t, o)
}

func askTools(fields string) string {
	return `{"input":"Hi","tools":[{"type":"mcp","server_label":"almanac"}]` + fields + `}`
}

// lastEvent is the response of the last event of a stream, and its name.
func lastEvent(t *testing.T, stream string) (string, obj) {
	t.Helper()
	events := strings.Split(strings.TrimSpace(stream), "\n\n")
	name, data, _ := strings.Cut(events[len(events)-1], "\n")
	return strings.TrimPrefix(name, "event: response."), parseObj(t, strings.TrimPrefix(data, "data: "))["response"].(obj)
}

func outputTypes(r obj) string {
	var list []string
	for _, item := range r["output"].([]any) {
		status, _ := item.(obj)["status"].(string)
		list = append(list, strings.TrimSpace(item.(obj)["type"].(string)+" "+status))
	}
	return strings.Join(list, ", ")
}

func TestResponseOfSeveralTurns(t *testing.T) {
	for _, stream := range []bool{false, true} {
		g, b := newScript(calling("weather", "weather"), calling("weather"), answering("Sunny.")), newToolbox(nil)
		s := startLoop(t, g, b, http.Options{PerTurnMetrics: true})
		res := s.do(t, "POST", "/v1/responses", askTools(fmt.Sprintf(`,"stream":%v,"max_output_tokens":20`, stream)))
		require.Equal(t, 200, res.StatusCode, res.body)
		var o obj
		if stream {
			var name string
			name, o = lastEvent(t, res.body)
			require.Equal(t, "completed", name)
			require.Contains(t, res.body, "event: response.mcp_call.completed\n")
			for i, event := range strings.Split(strings.TrimSpace(res.body), "\n\n") {
				require.Contains(t, event, fmt.Sprintf(`"sequence_number":%d`, i))
			}
		} else {
			o = parseObj(t, res.body)
		}
		require.Equal(t, "mcp_list_tools, mcp_call completed, mcp_call completed, mcp_call completed, message completed", outputTypes(o))
		require.Equal(t, obj{"input_tokens": 30., "input_tokens_details": obj{"cached_tokens": 6., "cache_write_tokens": 0.}, "output_tokens": 15.,
			"output_tokens_details": obj{"reasoning_tokens": 3.}, "total_tokens": 45.}, o["usage"])
		require.NotContains(t, o, "metrics")
		turns := o["metrics_per_turn"].([]any)
		require.Len(t, turns, 3)
		require.Len(t, turns[0].(obj)["tool_calls"], 2)
		require.Positive(t, turns[1].(obj)["tool_time_ms"].(float64)+1)
		require.Nil(t, turns[2].(obj)["tool_time_ms"])
		for i, left := range []int{20, 15, 10} {
			r := <-g.asked
			require.Equal(t, left, *r.MaxTokens, "the limit is that of the whole response")
			require.Len(t, r.Chat.Messages, []int{1, 4, 6}[i])
		}
		require.Len(t, b.calls, 3)
	}
}

func TestResponseOfOneTurnHasItsMetrics(t *testing.T) {
	g := newScript(answering("Hello."))
	s := startLoop(t, g, newToolbox(nil), http.Options{})
	o := parseObj(t, s.do(t, "POST", "/v1/responses", askTools("")).body)
	require.Contains(t, o, "metrics")
	require.NotContains(t, o, "metrics_per_turn")
}

// TestClientCallsEndTheResponse, and those of the server beside them have been run.
func TestClientCallsEndTheResponse(t *testing.T) {
	g, b := newScript(calling("weather", "mine")), newToolbox(nil)
	s := startLoop(t, g, b, http.Options{ResponseStore: true})
	o := parseObj(t, s.do(t, "POST", "/v1/responses", `{"input":"Hi","tools":[{"type":"mcp","server_label":"almanac"},{"type":"function","name":"mine"}]}`).body)
	require.Equal(t, "completed", o["status"])
	require.Equal(t, "mcp_list_tools, mcp_call completed, function_call completed", outputTypes(o))
	require.Contains(t, o, "metrics", "it was one turn")
	<-g.asked
	g.turns = []any{answering("Done.")}
	next := s.do(t, "POST", "/v1/responses", `{"previous_response_id":"`+o["id"].(string)+`","input":[{"type":"function_call_output","call_id":"c1","output":"7"}]}`)
	require.Equal(t, 200, next.StatusCode, next.body)
	r := <-g.asked
	require.Len(t, r.Chat.Messages, 4)
	require.Contains(t, string(r.Chat.Messages[1]), `"tool_calls":[{"id":"c0"`)
	require.JSONEq(t, `{"role":"tool","tool_call_id":"c0","content":"sunny"}`, string(r.Chat.Messages[2]))
}

func TestTurnsAndCallsAreBounded(t *testing.T) {
	for fields, want := range map[string]struct{ numTurns, numCalls int }{
		``:                          {3, 2}, // --max-tool-turns
		`,"max_tool_calls":1`:       {2, 1},
		`,"max_output_tokens":10`:   {2, 1}, // both turns took five
		`,"max_output_tokens":1000`: {3, 2},
	} {
		g, b := newScript(calling("weather")), newToolbox(nil)
		s := startLoop(t, g, b, http.Options{MaxToolTurns: 3})
		o := parseObj(t, s.do(t, "POST", "/v1/responses", askTools(fields)).body)
		require.Equal(t, "incomplete", o["status"], fields)
		reason := "max_tool_calls"
		if strings.Contains(fields, `"max_output_tokens":10}`) || fields == `,"max_output_tokens":10` {
			reason = "max_output_tokens"
		}
		require.Equal(t, obj{"reason": reason}, o["incomplete_details"], fields)
		require.Len(t, g.asked, want.numTurns, fields)
		require.Len(t, b.calls, want.numCalls, fields)
		require.True(t, strings.HasSuffix(outputTypes(o), "mcp_call completed, mcp_call incomplete"), outputTypes(o))
	}
	g, b := newScript(calling("weather", "weather", "weather"), answering("Well.")), newToolbox(nil)
	s := startLoop(t, g, b, http.Options{})
	o := parseObj(t, s.do(t, "POST", "/v1/responses", askTools(`,"max_tool_calls":2`)).body)
	require.Equal(t, "completed", o["status"], "the model is told, and answers")
	require.Equal(t, "mcp_list_tools, mcp_call completed, mcp_call completed, mcp_call failed, message completed", outputTypes(o))
	refused := o["output"].([]any)[3].(obj)["error"]
	require.Equal(t, "The call was not made: it is number 3, and this response may make 2 (max_tool_calls).", refused)
	require.Len(t, b.calls, 2)
}

// TestARefusedTurnFailsTheResponse: what was done is shown, with the error.
func TestARefusedTurnFailsTheResponse(t *testing.T) {
	full := &infer.Error{Code: infer.CodeOverloaded, Message: "The queue is full.", RetryAfter: time.Second}
	for _, stream := range []bool{false, true} {
		g := newScript(calling("weather"), full)
		records := make(chan string, 1)
		s := startLoop(t, g, newToolbox(nil), http.Options{PerTurnMetrics: true, RequestLog: func(line []byte) { records <- string(line) }})
		res := s.do(t, "POST", "/v1/responses", askTools(fmt.Sprintf(`,"stream":%v`, stream)))
		require.Equal(t, 200, res.StatusCode)
		var o obj
		if stream {
			var name string
			name, o = lastEvent(t, res.body)
			require.Equal(t, "failed", name)
			require.Contains(t, res.body, "event: error\n")
		} else {
			o = parseObj(t, res.body)
		}
		require.Equal(t, "failed", o["status"])
		require.Equal(t, obj{"code": "server_error", "message": "The queue is full."}, o["error"])
		require.Equal(t, "mcp_list_tools, mcp_call completed", outputTypes(o))
		require.EqualValues(t, 10, o["usage"].(obj)["input_tokens"])
		require.NotContains(t, o, "metrics_per_turn")
		record := parseObj(t, <-records)
		require.Equal(t, []any{"overloaded", 200., 5.}, []any{record["error"], record["status"], record["num_output_tokens"]})
	}
	g := newScript(full)
	s := startLoop(t, g, newToolbox(nil), http.Options{})
	require.Equal(t, 503, s.do(t, "POST", "/v1/responses", askTools("")).StatusCode, "the first turn is refused as ever")
}

// TestATurnThatDoesNotFitTakesWhatIsLeft: the limit is that of the whole response.
func TestATurnThatDoesNotFitTakesWhatIsLeft(t *testing.T) {
	g := newScript(calling("weather"), infer.Errorf(infer.CodeContextLength, "max_output_tokens", "too long"), answering("Sunny."))
	s := startLoop(t, g, newToolbox(nil), http.Options{})
	o := parseObj(t, s.do(t, "POST", "/v1/responses", askTools(`,"max_output_tokens":100`)).body)
	require.Equal(t, "completed", o["status"])
	require.Equal(t, 100, *(<-g.asked).MaxTokens)
	require.Equal(t, 95, *(<-g.asked).MaxTokens)
	require.Nil(t, (<-g.asked).MaxTokens)
}

func TestWhoLeavesInACallEndsIt(t *testing.T) {
	for _, stream := range []bool{false, true} {
		g, b := newScript(calling("weather")), newToolbox(untilGone)
		records := make(chan string, 1)
		s := startLoop(t, g, b, http.Options{RequestLog: func(line []byte) { records <- string(line) }})
		conn, _ := s.raw(t, post("/v1/responses", askTools(fmt.Sprintf(`,"stream":%v`, stream))))
		<-b.calls
		require.NoError(t, conn.Close())
		record := parseObj(t, <-records)
		require.Equal(t, []any{"abort", 499.}, []any{record["finish_reason"], record["status"]})
		require.Len(t, g.asked, 1)
	}
}

func TestShutdownEndsACall(t *testing.T) {
	g, b := newScript(calling("weather")), newToolbox(untilGone)
	s := startLoop(t, g, b, http.Options{})
	_, r := s.raw(t, post("/v1/responses", askTools(`,"stream":true`)))
	readHead(t, r)
	<-b.calls
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	name, o := lastEvent(t, strings.Join(readChunks(t, r), ""))
	require.Equal(t, []any{"failed", "cancelled"}, []any{name, o["status"]})
	require.Contains(t, o["error"].(obj)["message"], "shutting down")
}

// TestCallsEndBeforeAShutdown: a generator that drains does not know of them.
func TestCallsEndBeforeAShutdown(t *testing.T) {
	g, b := newScript(calling("weather")), newToolbox(untilGone)
	s := startLoop(t, g, b, http.Options{})
	_, r := s.raw(t, post("/v1/responses", askTools(`,"stream":true`)))
	readHead(t, r)
	<-b.calls
	s.EndCalls()
	name, o := lastEvent(t, strings.Join(readChunks(t, r), ""))
	require.Equal(t, []any{"failed", "cancelled"}, []any{name, o["status"]})
	require.Contains(t, o["error"].(obj)["message"], "shutting down")

	o = parseObj(t, s.do(t, "POST", "/v1/responses", askTools("")).body) // its turn is generated, its calls are not made
	require.Equal(t, "cancelled", o["status"])
	require.Equal(t, "mcp_list_tools, mcp_call failed", outputTypes(o))
	require.Empty(t, b.calls)
	require.Len(t, g.asked, 2)
}

// TestAnAdministratorEndsACall: no engine knows of the request then.
func TestAnAdministratorEndsACall(t *testing.T) {
	g, b := newScript(calling("weather")), newToolbox(untilGone)
	s := startLoop(t, g, b, http.Options{Inspector: &fakeInspector{}, Keys: []http.Key{root()}})
	body := make(chan string, 1)
	go func() {
		body <- s.do(t, "POST", "/v1/responses", askTools(`,"request_id":"mine"`), "Authorization", asRoot).body
	}()
	<-b.calls
	require.Equal(t, 200, s.do(t, "DELETE", "/v1/requests/resp_mine", "", "Authorization", asRoot).StatusCode)
	o := parseObj(t, <-body)
	require.Equal(t, "cancelled", o["status"])
	require.Contains(t, o["error"].(obj)["message"], "by the server's operator")
	require.Equal(t, 404, s.do(t, "DELETE", "/v1/requests/resp_mine", "", "Authorization", asRoot).StatusCode)
}

// TestResponseInTheBackgroundIsCancelledInACall, and no goroutine is left.
func TestResponseInTheBackgroundIsCancelledInACall(t *testing.T) {
	g, b := newScript(calling("weather")), newToolbox(untilGone)
	s := startLoop(t, g, b, http.Options{ResponseStore: true})
	id := parseObj(t, s.do(t, "POST", "/v1/responses", askTools(`,"background":true`)).body)["id"].(string)
	<-b.calls
	o := parseObj(t, s.do(t, "POST", "/v1/responses/"+id+"/cancel", "").body)
	require.Equal(t, "cancelled", o["status"])
	require.Equal(t, "mcp_list_tools, mcp_call failed", outputTypes(o))
}

func TestResponseInTheBackgroundGoesThroughItsTurns(t *testing.T) {
	g, b := newScript(calling("weather"), answering("Sunny.")), newToolbox(nil)
	over := make(chan string, 1)
	s := startLoop(t, g, b, http.Options{ResponseStore: true, RequestLog: func(line []byte) { over <- string(line) }})
	id := parseObj(t, s.do(t, "POST", "/v1/responses", askTools(`,"background":true`)).body)["id"].(string)
	<-over
	o := parseObj(t, s.do(t, "GET", "/v1/responses/"+id, "").body)
	require.Equal(t, "completed", o["status"])
	require.Equal(t, "mcp_list_tools, mcp_call completed, message completed", outputTypes(o))
}

// TestTurnsCountForTheirKey: each is a request of its own.
func TestTurnsCountForTheirKey(t *testing.T) {
	limited := named("team", "k")
	limited.RequestsPerMinute = 3
	g := newScript(calling("weather"))
	s := startLoop(t, g, newToolbox(nil), http.Options{Keys: []http.Key{limited}, MaxToolTurns: 8})
	o := parseObj(t, s.do(t, "POST", "/v1/responses", askTools(""), "Authorization", "Bearer k").body)
	require.Equal(t, "failed", o["status"])
	require.Equal(t, "rate_limit_exceeded", o["error"].(obj)["code"])
	require.Len(t, g.asked, 3)
}

func TestAPanicInAToolIsAFailure(t *testing.T) {
	g := newScript(calling("weather"), answering("Sorry."))
	b := newToolbox(func(context.Context, infer.ServerCall) infer.ToolResult { panic("tool") })
	reg := prometheus.NewRegistry()
	s := startLoop(t, g, b, http.Options{Gatherer: reg, ToolMetrics: metrics.NewTools(reg, []string{"almanac"})})
	o := parseObj(t, s.do(t, "POST", "/v1/responses", askTools("")).body)
	require.Equal(t, "mcp_list_tools, mcp_call failed, message completed", outputTypes(o))
	exposed := s.do(t, "GET", "/metrics", "").body
	require.Contains(t, exposed, `troupe:tool_calls_total{outcome="failed",server="almanac"} 1`)
	require.Contains(t, exposed, `troupe:tool_calls_total{outcome="done",server="almanac"} 0`)
}

func TestResultsCountAgainstTheAnswer(t *testing.T) {
	for _, stream := range []bool{false, true} {
		g := newScript(calling("weather"))
		b := newToolbox(func(context.Context, infer.ServerCall) infer.ToolResult {
			return infer.ToolResult{Text: strings.Repeat("x", 100<<10)}
		})
		s := startLoop(t, g, b, http.Options{AnswerLimit: 1 << 20, MaxToolTurns: 100})
		res := s.do(t, "POST", "/v1/responses", askTools(fmt.Sprintf(`,"stream":%v`, stream)))
		require.Contains(t, res.body, "has grown beyond")
		require.Less(t, len(g.asked), 20)
	}
}
