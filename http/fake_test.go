package http_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"go.uber.org/goleak"
)

// Two goroutines of fasthttp only sleep: one refreshes the Date header for as
// long as the process lives, one per server ends some seconds after it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// fakeGenerator is an infer.Generator of functions; a nil one answers plainly.
type fakeGenerator struct {
	generate func(context.Context, *infer.Request) (infer.Stream, error)
	tokenize func(*infer.TokenizeRequest) (*infer.TokenizeResult, error)
	// tokenizing runs before tokenize.
	tokenizing func(context.Context) error
	health     func() error
}

var _ infer.Generator = (*fakeGenerator)(nil)

var fakeModel = &infer.ModelInfo{ServedNames: []string{"fake", "org/alias"}, Root: "/models/fake", MaxModelLen: 128, VocabSize: 512}

func (g *fakeGenerator) Generate(ctx context.Context, r *infer.Request) (infer.Stream, error) {
	return g.generate(ctx, r)
}

func (g *fakeGenerator) Tokenize(ctx context.Context, r *infer.TokenizeRequest) (*infer.TokenizeResult, error) {
	if g.tokenizing != nil {
		if err := g.tokenizing(ctx); err != nil {
			return nil, err
		}
	}
	return g.tokenize(r)
}

func (g *fakeGenerator) Detokenize(_ context.Context, ids []int32) (string, error) {
	return fmt.Sprint(ids), nil
}

func (g *fakeGenerator) Model() *infer.ModelInfo { return fakeModel }

func (g *fakeGenerator) Health() error {
	if g.health == nil {
		return nil
	}
	return g.health()
}

// fakeStream is an infer.Stream that a test pushes events into.
type fakeStream struct {
	id        string
	ready     chan struct{}
	cancelled chan infer.CancelReason // holds the first reason
	onDrain   func()

	mu      sync.Mutex
	pending []infer.Event
	final   *infer.Final // that follows a Cancel; nil = one with an error
}

var _ infer.Stream = (*fakeStream)(nil)

func newStream(id string, events ...infer.Event) *fakeStream {
	s := &fakeStream{id: id, ready: make(chan struct{}, 1), cancelled: make(chan infer.CancelReason, 1)}
	s.push(events...)
	return s
}

func (s *fakeStream) push(events ...infer.Event) {
	if len(events) == 0 {
		return
	}
	s.mu.Lock()
	s.pending = append(s.pending, events...)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// endWith sets what follows a Cancel.
func (s *fakeStream) endWith(f *infer.Final) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = f
}

func (s *fakeStream) ID() string             { return s.id }
func (s *fakeStream) Ready() <-chan struct{} { return s.ready }

func (s *fakeStream) Drain(buf []infer.Event) []infer.Event {
	if s.onDrain != nil {
		s.onDrain()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	buf = append(buf, s.pending...)
	s.pending = s.pending[:0]
	return buf
}

// Cancel notes the first reason and, as every engine does, ends the stream.
func (s *fakeStream) Cancel(reason infer.CancelReason) {
	select {
	case s.cancelled <- reason:
		s.mu.Lock()
		f := s.final
		s.mu.Unlock()
		if f == nil {
			f = &infer.Final{FinishReason: infer.FinishAbort, Err: infer.Errorf(infer.CodeUnavailable, "", "cancelled: %s", reason)}
		}
		s.push(infer.Event{Final: f})
	default:
	}
}

func text(s string) infer.Event {
	return infer.Event{Delta: infer.Delta{Text: s, NumOutputTokens: 1}}
}

func finish(s string) infer.Event {
	return infer.Event{Delta: infer.Delta{Text: s, NumOutputTokens: 2, FinishReason: infer.FinishStop}}
}

func final(numPrompt, numCompletion int) infer.Event {
	return infer.Event{Final: &infer.Final{FinishReason: infer.FinishStop, Usage: infer.Usage{NumPromptTokens: numPrompt, NumCompletionTokens: numCompletion}}}
}

// answers returns a generator of which every stream holds the same events.
func answers(events ...infer.Event) *fakeGenerator {
	return &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		return newStream(r.ID, events...), nil
	}}
}

// hangs returns a generator whose streams say nothing, and the channel on which
// each of them appears.
func hangs() (*fakeGenerator, chan *fakeStream) {
	streams := make(chan *fakeStream, 64)
	return &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		s := newStream(r.ID)
		streams <- s
		return s, nil
	}}, streams
}

// testServer is a server on a real port, with a client of its own.
type testServer struct {
	*http.Server
	url, addr string
	client    *nethttp.Client
	served    chan error
}

func start(t *testing.T, o http.Options) *testServer {
	t.Helper()
	if o.Generator == nil {
		o.Generator = answers(text("Hel"), finish("lo"), final(3, 2))
	}
	server, err := http.New(o)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &testServer{
		Server: server, addr: ln.Addr().String(), url: "http://" + ln.Addr().String(),
		client: &nethttp.Client{Transport: &nethttp.Transport{DisableCompression: true}}, served: make(chan error, 1),
	}
	go func() { s.served <- server.Serve(ln) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever still runs is cancelled
		_ = s.Shutdown(ctx)
		require.NoError(t, <-s.served)
	})
	return s
}

// response is a response with its body read.
type response struct {
	*nethttp.Response
	body string
}

func (s *testServer) do(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	req, err := nethttp.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return response{res, string(b)}
}

// raw opens a connection and sends bytes on it.
func (s *testServer) raw(t *testing.T, sent string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	// A guard against a hanging test, never reached by one that passes.
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(conn, sent)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

// post is a raw request with a JSON body.
func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func chat(fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return `{"messages":[{"role":"user","content":"Hi"}]` + fields + `}`
}

const streamed = `"stream":true`

func numOpenFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
