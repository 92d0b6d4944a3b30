package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type obj = map[string]any

// inMemory dials a server of the same process.
type inMemory struct{ server *sdk.Server }

func (d inMemory) dial() (sdk.Transport, *guard) {
	theirs, ours := sdk.NewInMemoryTransports()
	if _, err := d.server.Connect(context.Background(), theirs, nil); err != nil {
		panic(err)
	}
	return ours, newGuard(nil)
}

func (inMemory) close() {}

func newSDKServer(t *testing.T, tools map[string]sdk.ToolHandler) *sdk.Server {
	s := emptyServer(t, "almanac")
	for name, handler := range tools {
		s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name, InputSchema: obj{"type": "object"}}, handler)
	}
	return s
}

// emptyServer ends its sessions with the test: those of clients that broke off stay.
func emptyServer(t *testing.T, name string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	return s
}

func says(content ...sdk.Content) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: content}, nil
	}
}

func text(s string) sdk.Content { return &sdk.TextContent{Text: s} }

// discard is a logger, and what it wrote.
func discard() (*slog.Logger, *lockedBuffer) {
	b := &lockedBuffer{}
	return slog.New(slog.NewTextHandler(b, nil)), b
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func memoryBox(t *testing.T, s *sdk.Server) *Toolbox {
	t.Helper()
	logger, _ := discard()
	b, err := connect(context.Background(), Config{Targets: []Target{{}}, CallTimeout: time.Minute, Logger: logger}, func(Target) dialer { return inMemory{s} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func httpBox(t *testing.T, url string, timeout time.Duration) (*Toolbox, *lockedBuffer) {
	t.Helper()
	logger, log := discard()
	b, err := Connect(context.Background(), Config{Targets: []Target{{Label: "almanac", URL: url}}, CallTimeout: timeout, Logger: logger})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b, log
}

func (b *Toolbox) run(name, arguments string) infer.ToolResult {
	return b.CallTool(context.Background(), infer.ServerCall{Server: "almanac", Tool: name, Arguments: []byte(arguments)})
}

func TestCallsOfAServerInMemory(t *testing.T) {
	echo := func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{text(string(r.Params.Arguments))}}, nil
	}
	b := memoryBox(t, newSDKServer(t, map[string]sdk.ToolHandler{
		"echo": echo,
		"mixed": says(text("a"), &sdk.ImageContent{MIMEType: "image/png", Data: []byte("xyz")}, &sdk.AudioContent{MIMEType: "audio/wav"},
			&sdk.ResourceLink{Name: "n", URI: "u"}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", Text: "in it"}}),
		"silent": says(),
		"structured": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{StructuredContent: obj{"degrees": 21}}, nil
		},
		"sad": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{text("no such city")}}, nil
		},
		"broken": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return nil, errors.New("went wrong")
		},
		"large": says(text(strings.Repeat("x", maxResultBytes+1))),
	}))
	for call, want := range map[string]infer.ToolResult{
		`echo {"city":"Oslo"}`: {Text: `{"city":"Oslo"}`},
		`echo `:                {Text: `{}`},
		`mixed {}`:             {Text: "a\n[image: image/png, 3 bytes]\n[audio: audio/wav, 0 bytes]\n[resource: n u]\nin it"},
		`silent {}`:            {},
		`structured {}`:        {Text: `{"degrees":21}`},
		`sad {}`:               {Text: "no such city", IsFailed: true},
		`echo [1]`:             {Text: "The arguments are not a JSON object.", IsFailed: true},
		`echo {"city":`:        {Text: "The arguments are not a JSON object.", IsFailed: true},
		`large {}`:             {Text: "The result is too large: it has 131073 bytes, the limit is 131072.", IsFailed: true},
	} {
		name, arguments, _ := strings.Cut(call, " ")
		require.Equal(t, want, b.run(name, arguments), call)
	}
	for name, want := range map[string]string{"broken": "went wrong", "missing": `unknown tool "missing"`} {
		r := b.run(name, "{}")
		require.True(t, r.IsFailed)
		require.Contains(t, r.Text, want)
	}
	r := b.CallTool(context.Background(), infer.ServerCall{Server: "nobody", Tool: "echo"})
	require.Equal(t, infer.ToolResult{Text: `There is no server "nobody".`, IsFailed: true}, r)
}

func TestCallsRunSideBySide(t *testing.T) {
	var all sync.WaitGroup
	all.Add(maxConcurrent)
	b := memoryBox(t, newSDKServer(t, map[string]sdk.ToolHandler{"meet": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		all.Done()
		all.Wait() // for as many as may run at a time
		return &sdk.CallToolResult{}, nil
	}}))
	var calls sync.WaitGroup
	results := make(chan infer.ToolResult, maxConcurrent)
	for range maxConcurrent {
		calls.Go(func() { results <- b.run("meet", "{}") })
	}
	calls.Wait()
	for range maxConcurrent {
		require.False(t, (<-results).IsFailed)
	}
}

func TestToolsAreListedWithinBounds(t *testing.T) {
	s := emptyServer(t, "almanac")
	add := func(name, description string, schema obj) {
		s.AddTool(&sdk.Tool{Name: name, Description: description, InputSchema: schema, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, says())
	}
	plain := obj{"type": "object"}
	add("good", strings.Repeat("é", maxDescriptionBytes), plain)
	add("dotted.name", "", plain)
	add("dotted_name", "", plain) // the second of two that models cannot tell apart
	add("huge", "", obj{"type": "object", "description": strings.Repeat("x", maxSchemaBytes)})
	add(strings.Repeat("n", maxToolName+1), "", plain)
	for i := range maxTools {
		add(fmt.Sprintf("more-%03d", i), "", plain)
	}
	b := memoryBox(t, s)
	servers := b.Servers()
	require.Len(t, servers, 1)
	require.Equal(t, "almanac", servers[0].Label, "the server's own name")
	tools := servers[0].Tools
	require.Len(t, tools, maxTools)
	byName := map[string]infer.ServerTool{}
	for _, tool := range tools {
		byName[tool.Name] = tool
	}
	require.NotContains(t, byName, "huge")
	require.LessOrEqual(t, len(byName["good"].Description), maxDescriptionBytes+len("..."))
	require.Contains(t, string(byName["good"].Annotations), "readOnlyHint")
	require.JSONEq(t, `{"type":"object"}`, string(byName["good"].Schema))
	_, first := byName["dotted.name"]
	_, second := byName["dotted_name"]
	require.True(t, first != second, "one of the two is left out")
}

// A server that lists nothing but what cannot be used is not listened to for ever.
func TestListingsEnd(t *testing.T) {
	s := emptyServer(t, "almanac")
	for i := range maxListed + 1 {
		s.AddTool(&sdk.Tool{Name: fmt.Sprintf("%0*d", maxToolName+1, i), InputSchema: obj{"type": "object"}}, says())
	}
	s.AddTool(&sdk.Tool{Name: "last", InputSchema: obj{"type": "object"}}, says())
	logger, log := discard()
	b, err := connect(context.Background(), Config{Targets: []Target{{}}, CallTimeout: time.Minute, Logger: logger}, func(Target) dialer { return inMemory{s} })
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.Empty(t, b.Servers()[0].Tools)
	require.Equal(t, maxLeftOut+1, strings.Count(log.String(), "tool left out"))
	require.Contains(t, log.String(), "a server may list 1024 tools")
}

// age makes the lists of all tools old.
func (b *Toolbox) age() {
	for _, s := range b.servers {
		s.mu.Lock()
		s.listed = time.Time{}
		s.mu.Unlock()
	}
}

// listedAgain returns the names of the tools after a request that came late.
func (b *Toolbox) listedAgain() (names []string) {
	b.age()
	_ = b.Servers()
	b.servers[0].ending.Wait()
	for _, tool := range b.Servers()[0].Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestToolsThatChangeAreListedAgain(t *testing.T) {
	a := serveHTTP(t, newSDKServer(t, map[string]sdk.ToolHandler{"old": says(text("1"))}))
	b, log := httpBox(t, a.URL, time.Minute)
	_ = b.Servers()
	require.Equal(t, "old", b.Servers()[0].Tools[0].Name)
	a.set(handlerOf(newSDKServer(t, nil)))
	require.Empty(t, b.listedAgain(), "no tool is left, and no call will be made")
	a.set(handlerOf(newSDKServer(t, map[string]sdk.ToolHandler{"new": says(text("2"))})))
	require.Equal(t, []string{"new"}, b.listedAgain())
	require.Equal(t, infer.ToolResult{Text: "2"}, b.run("new", "{}"))
	a.set(answer("text/html", "<html>"))
	require.Equal(t, []string{"new"}, b.listedAgain(), "a list that cannot be had leaves the old one")
	require.Contains(t, log.String(), "tools could not be listed again")
	require.Len(t, b.servers[0].idle, 1, "sessions for lists end with them")
}

func TestAListHasAnEnd(t *testing.T) {
	a := serveHTTP(t, newSDKServer(t, map[string]sdk.ToolHandler{"old": says(text("1"))}))
	b, log := httpBox(t, a.URL, time.Minute)
	listing := func(format string) http.Handler {
		well := handlerOf(newSDKServer(t, nil))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var in struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			_ = json.Unmarshal(body, &in)
			if in.Method == "tools/list" {
				answer("application/json", fmt.Sprintf(format, in.ID))(w, r)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			well.ServeHTTP(w, r)
		})
	}
	a.set(listing(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[],"nextCursor":"again"}}`))
	require.Equal(t, []string{"old"}, b.listedAgain())
	require.Contains(t, log.String(), errEndless.Error())
	same := strings.Repeat(`{"name":"same","inputSchema":{"type":"object"}},`, 1000)
	a.set(listing(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[` + strings.TrimSuffix(same, ",") + `]}}`))
	require.Equal(t, []string{"same"}, b.listedAgain())
	require.Equal(t, []string{"same"}, b.listedAgain())
	require.Equal(t, maxLeftOut, strings.Count(log.String(), "tool left out"), "once, however often that is listed")
}

// TestServersStartBesideEachOther: each is there only once the other is being opened.
func TestServersStartBesideEachOther(t *testing.T) {
	logger, _ := discard()
	var both sync.WaitGroup
	both.Add(2)
	d := meeting{inMemory{newSDKServer(t, nil)}, &both}
	b, err := connect(t.Context(), Config{Targets: []Target{{Label: "one"}, {Label: "two"}}, Logger: logger}, func(Target) dialer { return d })
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, b.Labels())
	require.NoError(t, b.Close())
}

type meeting struct {
	inMemory
	both *sync.WaitGroup
}

func (m meeting) dial() (sdk.Transport, *guard) {
	m.both.Done()
	m.both.Wait()
	return m.inMemory.dial()
}

func TestLabelsMustDiffer(t *testing.T) {
	logger, _ := discard()
	s := newSDKServer(t, nil)
	_, err := connect(context.Background(), Config{Targets: []Target{{}, {Label: "almanac"}}, Logger: logger}, func(Target) dialer { return inMemory{s} })
	require.ErrorContains(t, err, `another server has the label "almanac" too`)
	odd := emptyServer(t, "no label at all")
	_, err = connect(context.Background(), Config{Targets: []Target{{}}, Logger: logger}, func(Target) dialer { return inMemory{odd} })
	require.ErrorContains(t, err, "LABEL=URL")
	_, err = connect(context.Background(), Config{Targets: make([]Target, MaxServers+1), Logger: logger}, nil)
	require.ErrorContains(t, err, "the limit is 16")
}

// away is an HTTP server that can be broken and mended.
type away struct {
	*httptest.Server
	mu      sync.Mutex
	handler http.Handler
}

func (a *away) set(h http.Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handler = h
}

func serveHTTP(t *testing.T, s *sdk.Server) *away {
	t.Helper()
	a := &away{}
	a.set(handlerOf(s))
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		h := a.handler
		a.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func handlerOf(s *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

// olderHandlerOf speaks an older version of the protocol, which has sessions.
func olderHandlerOf(s *sdk.Server) http.Handler {
	modern := handlerOf(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"server/discover"`)) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		modern.ServeHTTP(w, r)
	})
}

func TestASessionThatIsGoneIsNoFailure(t *testing.T) {
	tools := map[string]sdk.ToolHandler{"old": says(text("1"))}
	a := serveHTTP(t, newSDKServer(t, tools))
	a.set(olderHandlerOf(newSDKServer(t, tools)))
	b, log := httpBox(t, a.URL, time.Minute)
	require.Equal(t, infer.ToolResult{Text: "1"}, b.run("old", "{}"))
	a.set(olderHandlerOf(newSDKServer(t, tools))) // it has restarted, and knows no sessions
	require.Equal(t, infer.ToolResult{Text: "1"}, b.run("old", "{}"))
	require.NotContains(t, log.String(), "failed")
}

func TestAServerComesBack(t *testing.T) {
	a := serveHTTP(t, newSDKServer(t, map[string]sdk.ToolHandler{"old": says(text("1"))}))
	b, log := httpBox(t, a.URL+"/s3cret?key=s3cret", time.Minute)
	require.Equal(t, infer.ToolResult{Text: "1"}, b.run("old", "{}"))
	for i, broken := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
		},
		answer("application/json", "{"),
		answer("text/event-stream", "data: {\n\n"),
		answer("text/event-stream", "nonsense"),
		answer("text/html", "<html>"),
	} {
		a.set(broken)
		r := b.run("old", "{}")
		require.Equal(t, infer.ToolResult{Text: `The server "almanac" cannot be reached, or its answer cannot be read.`, IsFailed: true}, r, i)
		require.NotContains(t, log.String(), "s3cret")
		name := fmt.Sprintf("new%d", i)
		a.set(handlerOf(newSDKServer(t, map[string]sdk.ToolHandler{name: says(text("2"))})))
		require.Equal(t, infer.ToolResult{Text: "2"}, b.run(name, "{}"), "the next call opens a session")
		require.Equal(t, name, b.Servers()[0].Tools[0].Name, "with the tools of now, after %d", i)
	}
}

func answer(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	a := serveHTTP(t, newSDKServer(t, map[string]sdk.ToolHandler{"vast": says(text(strings.Repeat("x", 2*maxAnswerBytes)))}))
	b, _ := httpBox(t, a.URL, time.Minute)
	r := b.run("vast", "{}")
	require.True(t, r.IsFailed)
	for _, contentType := range []string{"application/json", "text/event-stream"} {
		a.set(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, "data: \"")
			for chunk := bytes.Repeat([]byte("x"), 1<<20); r.Context().Err() == nil; { // for ever
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}))
		require.True(t, b.run("vast", "{}").IsFailed, contentType)
	}
}

// asks asks without end, on the stream on which the answer of a call should come, and
// takes none of the answers.
func asks(t *testing.T, connections *atomic.Int32) http.Handler {
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !bytes.Contains(body, []byte(`"tools/call"`)) {
			connections.Add(1)
			select {
			case <-ended:
			case <-r.Context().Done():
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; r.Context().Err() == nil; i++ {
			if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i); err != nil {
				return
			}
		}
	})
}

func TestWhatAServerAsksIsBounded(t *testing.T) {
	var connections atomic.Int32
	a := serveHTTP(t, newSDKServer(t, map[string]sdk.ToolHandler{"slow": says(text("1"))}))
	for range 3 {
		b, log := newToolboxOn(t, a, asks(t, &connections))
		connections.Store(0)
		require.True(t, b.run("slow", "{}").IsFailed)
		require.Contains(t, log.String(), errTooMany.Error())
		require.LessOrEqual(t, connections.Load(), int32(maxRequests))
	}
}

func TestASessionIsGoodForManyCalls(t *testing.T) {
	tools := map[string]sdk.ToolHandler{"again": says(text("1"))}
	for _, handler := range []http.Handler{handlerOf(newSDKServer(t, tools)), olderHandlerOf(newSDKServer(t, tools))} {
		a := serveHTTP(t, newSDKServer(t, tools))
		a.set(handler)
		b, log := httpBox(t, a.URL, time.Minute)
		for range 3 * maxRequests {
			require.Equal(t, infer.ToolResult{Text: "1"}, b.run("again", "{}"))
		}
		require.NotContains(t, log.String(), "failed")
	}
}

func TestAServerThatHangs(t *testing.T) {
	a := serveHTTP(t, newSDKServer(t, map[string]sdk.ToolHandler{"slow": says(text("1"))}))
	b, _ := httpBox(t, a.URL, 50*time.Millisecond)
	arrived := make(chan struct{}, 16)
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	a.set(hang)
	require.Equal(t, infer.ToolResult{Text: "The tool did not answer in time.", IsFailed: true}, b.run("slow", "{}"))
	<-arrived

	patient, _ := newToolboxOn(t, a, hang)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan infer.ToolResult, 1)
	go func() { done <- patient.CallTool(ctx, infer.ServerCall{Server: "almanac", Tool: "slow"}) }()
	<-arrived
	cancel()
	require.Equal(t, infer.ToolResult{Text: "The call was given up.", IsFailed: true}, <-done)
}

// newToolboxOn connects while a is well, and breaks it then.
func newToolboxOn(t *testing.T, a *away, broken http.Handler) (*Toolbox, *lockedBuffer) {
	t.Helper()
	a.set(handlerOf(newSDKServer(t, map[string]sdk.ToolHandler{"slow": says(text("1"))})))
	b, log := httpBox(t, a.URL, time.Minute)
	a.set(broken)
	return b, log
}

func TestAServerThatIsNotThere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := ln.Addr().String()
	require.NoError(t, ln.Close())
	logger, log := discard()
	_, err = Connect(context.Background(), Config{Targets: []Target{{URL: "http://user:s3cret@" + address + "/s3cret"}}, CallTimeout: time.Minute, Logger: logger})
	require.ErrorContains(t, err, address+": cannot connect to the tool server: ")
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error()+log.String(), "s3cret")
}
