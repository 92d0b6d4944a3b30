//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// TestResponsesThroughAToolServer: two turns of the embedded model with a tool of the
// server between them, whole, streamed, and gone on with.
func TestResponsesThroughAToolServer(t *testing.T) {
	tools := serveTools(t, nil)
	s := withServerTools(t, tools, "--enable-per-turn-metrics", "--enable-response-store")
	before := s.scrape()
	r, _ := s.post("/v1/responses", weatherIn("Lisbon", nil))
	after := s.scrape()
	require.Equal(t, "completed", r["status"])
	require.Equal(t, "mcp_list_tools mcp_call message", kinds(r))
	call := r["output"].([]any)[1].(obj)
	require.Equal(t, []any{"almanac", "get_weather", "completed", sunny, nil}, []any{call["server_label"], call["name"], call["status"], call["output"], call["error"]})
	require.JSONEq(t, `{"city":"Lisbon"}`, call["arguments"].(string))
	require.JSONEq(t, `{"city":"Lisbon"}`, <-tools.calls)
	answer := r["output"].([]any)[2].(obj)["content"].([]any)[0].(obj)["text"].(string)
	require.Contains(t, answer, "21")

	require.NotContains(t, r, "metrics", "there is no one object of two generations")
	turns := r["metrics_per_turn"].([]any)
	require.Len(t, turns, 2)
	usage := r["usage"].(obj)
	for _, count := range []string{"input_tokens", "output_tokens"} {
		require.Equal(t, usage[count], turns[0].(obj)[count].(float64)+turns[1].(obj)[count].(float64))
	}
	for i := range turns {
		raw, err := json.Marshal(turns[i].(obj)["metrics"])
		require.NoError(t, err)
		requireRawMetrics(t, string(raw))
	}
	took := turns[0].(obj)
	require.GreaterOrEqual(t, took["tool_time_ms"].(float64), took["tool_calls"].([]any)[0].(obj)["tool_time_ms"].(float64))
	require.Nil(t, turns[1].(obj)["tool_time_ms"])

	grown := func(name string, labels ...string) float64 {
		return sum(after, name, labels...) - sum(before, name, labels...)
	}
	require.EqualValues(t, 2, grown("vllm:request_success_total"), "each turn is a request of the engine")
	require.EqualValues(t, usage["output_tokens"], grown("vllm:generation_tokens_total"))
	require.EqualValues(t, 1, grown("troupe:requests_finished_total"), "and the response is one of the client's")
	require.EqualValues(t, 1, grown("troupe:tool_calls_total", `server="almanac"`, `outcome="done"`))

	events := s.stream("/v1/responses", weatherIn("Lisbon", nil))
	require.Contains(t, events.Raw, "event: response.mcp_call.completed\n")
	require.Contains(t, events.Raw, answer)

	follow, _ := s.post("/v1/responses", weatherIn("Rome", obj{"previous_response_id": r["id"], "tool_choice": "required"}))
	require.Equal(t, "mcp_list_tools mcp_call message", kinds(follow))
	items := []any{obj{"role": "user", "content": "What is the weather in Lisbon?"}}
	items = append(append(items, r["output"].([]any)...), obj{"role": "user", "content": "What is the weather in Rome?"})
	same, _ := s.post("/v1/responses", weatherIn("Rome", obj{"input": items, "tool_choice": "required"}))
	require.Equal(t, kinds(follow), kinds(same))
	require.Equal(t, follow["usage"].(obj)["input_tokens"], same["usage"].(obj)["input_tokens"], "it is the same conversation")
	requireIdle(t, s)
}

// TestOneTurnHasItsMetrics, and no list of turns without its flag.
func TestOneTurnHasItsMetrics(t *testing.T) {
	s := withServerTools(t, serveTools(t, nil))
	r, _ := s.post("/v1/responses", weatherIn("Lisbon", obj{"input": "What is the capital of France?"}))
	require.Equal(t, "mcp_list_tools message", kinds(r))
	require.Contains(t, r, "metrics")
	require.NotContains(t, r, "metrics_per_turn")
	r, _ = s.post("/v1/responses", weatherIn("Lisbon", nil))
	require.NotContains(t, r, "metrics")
	require.NotContains(t, r, "metrics_per_turn")
	e := s.refused(400, "/v1/responses", body(weatherIn("Lisbon", obj{"tools": []obj{{"type": "mcp", "server_label": "x", "server_url": "http://169.254.169.254/"}}})))
	require.Equal(t, "tools[0].server_url", e["param"])
}

// TestNpmToolServers runs the npm SDK's tests of responses with tools of a server.
func TestNpmToolServers(t *testing.T) {
	s := withServerTools(t, serveTools(t, nil), "--enable-per-turn-metrics", "--enable-response-store")
	cmd := exec.Command("node", "--test", "toolserver.mjs")
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "TROUPE_URL="+s.URL)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "# fail 0")
}

// breakable stands before a tool server, and answers in its place when it is told to.
type breakable struct {
	http.Handler
	instead atomic.Pointer[http.HandlerFunc]
}

func (b *breakable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := b.instead.Load(); h != nil {
		(*h)(w, r)
		return
	}
	b.Handler.ServeHTTP(w, r)
}

// TestToolServersThatFail: whatever goes wrong with a call, the model reads of it, the
// response comes to its end, and the next one is well.
func TestToolServersThatFail(t *testing.T) {
	tools := serveTools(t, nil)
	behind, err := url.Parse(tools.URL)
	require.NoError(t, err)
	front := &breakable{Handler: httputil.NewSingleHostReverseProxy(behind)}
	proxy := httptest.NewServer(front)
	t.Cleanup(proxy.Close)
	s := serve(t, "--enable-auto-tool-choice", "--tool-server", proxy.URL+"/mcp?key=s3cret", "--tool-call-timeout", "0.5", "--uvicorn-log-level", "debug")
	for name, handler := range map[string]http.HandlerFunc{
		"dies": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
		},
		"dies while it answers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"sends 10 MB": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 10<<20)+`"}]}}`)
		},
		"sends no JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{nonsense")
		},
		"is down": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		front.instead.Store(&handler)
		r, _ := s.post("/v1/responses", weatherIn("Oslo", obj{"max_tool_calls": 1}))
		call := r["output"].([]any)[1].(obj)
		require.Equal(t, []any{"mcp_call", "failed", nil}, []any{call["type"], call["status"], call["output"]}, name)
		require.NotEmpty(t, call["error"], name)
		require.NotContains(t, call["error"], "127.0.0.1", name)
		front.instead.Store(nil)
		r, _ = s.post("/v1/responses", weatherIn("Oslo", nil))
		require.Equal(t, []any{"mcp_list_tools mcp_call message", "completed"}, []any{kinds(r), r["output"].([]any)[1].(obj)["status"]}, name)
	}
	require.NotContains(t, s.log.String(), "s3cret")
	requireIdle(t, s)
}

// TestToolsThatCallForEver: turns and calls have an end.
func TestToolsThatCallForEver(t *testing.T) {
	s := withServerTools(t, serveTools(t, nil), "--max-tool-turns", "1")
	r, _ := s.post("/v1/responses", weatherIn("Oslo", nil))
	require.Equal(t, "incomplete", r["status"])
	require.Equal(t, obj{"reason": "max_tool_calls"}, r["incomplete_details"])
	require.Equal(t, "incomplete", r["output"].([]any)[1].(obj)["status"])
	cut, _ := s.post("/v1/responses", weatherIn("Oslo", obj{"max_output_tokens": 10}))
	require.Equal(t, obj{"reason": "max_output_tokens"}, cut["incomplete_details"])
}

// hangingServer has a tool server whose weather hangs until it is given up.
func hangingServer(t *testing.T, flags ...string) (*server, *toolServer) {
	t.Helper()
	var tools *toolServer
	tools = serveTools(t, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return tools.hang(ctx, r)
	})
	return withServerTools(t, tools, append(flags, "--admin-api-key", adminKey)...), tools
}

// TestWhoLeavesInACallLeavesNothing: the call is given up, and no goroutine stays.
func TestWhoLeavesInACallLeavesNothing(t *testing.T) {
	s, tools := hangingServer(t)
	goroutines := func() float64 { return sum(s.scrape(), "go_goroutines") }
	leave := func(stream bool) {
		w := s.dial()
		text := chatText("HTTP/1.1", weatherIn("Oslo", obj{"stream": stream}))
		w.say(strings.Replace(text, "/v1/chat/completions", "/v1/responses", 1))
		<-tools.hanging
		require.NoError(t, w.Close())
		<-tools.given
	}
	leave(false)
	requireIdle(t, s)
	baseline := goroutines()
	for i := range 20 {
		leave(i%2 == 0)
	}
	s.eventually(func() bool { return goroutines() <= baseline+2 }, "goroutines end")
	require.EqualValues(t, 21, finished(s.scrape(), "abort"))
	requireIdle(t, s)
}

// TestACallIsCancelled by whoever may: the client in the background, and an operator.
func TestACallIsCancelled(t *testing.T) {
	s, tools := hangingServer(t, "--enable-response-store")
	r, _ := s.post("/v1/responses", weatherIn("Oslo", obj{"background": true}))
	<-tools.hanging
	cancelled := s.do("POST", fmt.Sprintf("/v1/responses/%s/cancel", r["id"]), "")
	require.Equal(t, 200, cancelled.Status, "%s", cancelled.Body)
	require.Equal(t, "cancelled", s.parse(cancelled.Body)["status"])
	<-tools.given

	r, _ = s.post("/v1/responses", weatherIn("Oslo", obj{"background": true}))
	<-tools.hanging
	require.Equal(t, 200, s.do("DELETE", fmt.Sprintf("/v1/requests/%s", r["id"]), "", bearer(adminKey)...).Status)
	<-tools.given
	s.eventually(func() bool {
		return s.parse(s.do("GET", fmt.Sprintf("/v1/responses/%s", r["id"]), "").Body)["status"] == "cancelled"
	}, "it is over")
}

// TestShutdownGivesCallsUp: nobody waits for a tool that hangs.
func TestShutdownGivesCallsUp(t *testing.T) {
	s, tools := hangingServer(t)
	done := make(chan reply, 1)
	go func() {
		r, _ := s.try(context.Background(), "POST", "/v1/responses", body(weatherIn("Oslo", obj{"stream": true})))
		done <- r
	}()
	<-tools.hanging
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Contains(t, string((<-done).Body), "event: response.failed\n")
	<-tools.given
	<-s.exit
}

// TestToolServersThatAreNotThere: the start says so, and no secret.
func TestToolServersThatAreNotThere(t *testing.T) {
	code, stderr := run(t, "serve", "--port", "0", "--tool-server", "a=http://user:s3cret@127.0.0.1:1/mcp?key=s3cret")
	require.NotZero(t, code)
	require.Contains(t, stderr, "--tool-server: a at 127.0.0.1:1: cannot connect to the tool server")
	require.NotContains(t, stderr, "s3cret")
	code, stderr = run(t, "serve", "--tool-server", "ftp://h/s3cret")
	require.NotZero(t, code)
	require.Contains(t, stderr, "--tool-server: entry 1: the scheme must be http or https")
	require.NotContains(t, stderr, "s3cret")
}
