package top_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/top"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer is a server with requests in flight that only cancelling ends.
type fakeServer struct {
	mu       sync.Mutex
	requests []client.Request
	status   int // of the list; 0 = 200
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != 0 {
		w.WriteHeader(f.status)
		return
	}
	if r.Method == http.MethodDelete {
		id := strings.TrimPrefix(r.URL.Path, "/v1/requests/")
		for i := range f.requests {
			if f.requests[i].ID == id {
				f.requests = append(f.requests[:i], f.requests[i+1:]...)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.URL.Path == client.PathCluster {
		one := 1
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []client.Node{
			{Address: "a:1", Role: "front", Version: "v", Model: "m", Self: true, NumRequests: &one},
			{Address: "b:\x1b1", Role: "worker", Version: "v", Model: "m", Draining: true, Devices: []client.Device{
				{State: "serving", NumSequences: 3, NumOwnSequences: &one, NumQueuedTokens: 9, NumFreeBlocks: 5, NumBlocks: 8, SampleAgeMs: 120}, {Index: 1, State: "connecting"},
			}},
		}})
		return
	}
	for i := range f.requests { // time goes by with every look
		f.requests[i].AgeMs += 1000
		f.requests[i].NumOutputTokens += 5
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": f.requests})
}

func startServer(t *testing.T, f *fakeServer) *client.Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return &client.Client{BaseURL: server.URL}
}

func requests(n int) []client.Request {
	list := make([]client.Request, n)
	for i := range list {
		list[i] = client.Request{ID: fmt.Sprintf("cmpl-%02d", i), Key: "team", Phase: "decode", NumPromptTokens: 7, NumSequences: 1}
	}
	return list
}

func TestListOnce(t *testing.T) {
	list := requests(2)
	list[1].ID, list[1].Phase, list[1].QueuePosition, list[1].NumSequences, list[1].AgeMs = "cmpl-\x1b[2Jx", "queued", 3, 2, 190_000
	var out bytes.Buffer
	require.NoError(t, top.Run(context.Background(), top.Options{Client: startServer(t, &fakeServer{requests: list}), Out: &out}))
	text := out.String()
	require.NotContains(t, text, "\x1b", "nothing a terminal would obey")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Len(t, lines, 4)
	require.Contains(t, lines[0], "2 in flight: 1 decode, 1 queued")
	require.Regexp(t, `^ID +KEY +PHASE +AGE +PROMPT +CACHED +OUTPUT +TOK/S +QUEUE RECOVERED$`, lines[1])
	require.Regexp(t, `^cmpl-00 +team +decode +1\.0s +7 +0 +5 +0$`, lines[2])
	require.Regexp(t, `^cmpl- \[2Jx ×2 +team +queued +3m11s +7 +0 +5 +3 +0$`, lines[3])
}

func TestNodesAreShown(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, top.Run(context.Background(), top.Options{Client: startServer(t, &fakeServer{requests: requests(1)}), Out: &out, Cluster: true}))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 8)
	require.Regexp(t, `^NODE +ROLE +VERSION +MODEL +REQUESTS +DEVICE +STATE +SEQS +OWN +QUEUED TOKENS +FREE BLOCKS +SAMPLE$`, lines[1])
	require.Regexp(t, `^a:1 \* +front +v +m +1 +-$`, lines[2])
	require.Regexp(t, `^b: 1 +worker, draining +v +m +- +0 +serving +3 +1 +9 +5/8 +120ms$`, lines[3])
	require.Regexp(t, `^ +1 +connecting +0 +- +0 +0/0 +0ms$`, lines[4])
	require.Empty(t, lines[5])
	require.Contains(t, lines[7], "cmpl-00")
}

func TestRefusalsAreExplained(t *testing.T) {
	for status, want := range map[int]string{401: "--api-key", 403: "--api-key", 404: "--admin-api-key", 500: "HTTP 500"} {
		err := top.Run(context.Background(), top.Options{Client: startServer(t, &fakeServer{status: status}), Out: io.Discard})
		require.ErrorContains(t, err, want)
	}
}

// terminal runs top on a screen of 100 × height; frames come one per drawing.
type terminal struct {
	keys   *io.PipeWriter
	ticks  chan time.Time
	frames chan string
	ended  chan error
}

func (w *terminal) Write(p []byte) (int, error) {
	w.frames <- string(p)
	return len(p), nil
}

func startTerminal(t *testing.T, f *fakeServer, height int) *terminal {
	t.Helper()
	in, keys := io.Pipe()
	w := &terminal{keys: keys, ticks: make(chan time.Time), frames: make(chan string), ended: make(chan error, 1)}
	c := startServer(t, f)
	go func() {
		defer close(w.frames)
		w.ended <- top.Run(context.Background(), top.Options{
			Client: c, In: in, Out: w, Terminal: true, Size: func() (int, int) { return 110, height }, Ticks: w.ticks,
		})
	}()
	t.Cleanup(func() { _ = keys.Close() })
	require.Equal(t, "\x1b[?1049h\x1b[?25l", <-w.frames)
	return w
}

// selected returns the id on the marked line of the next frame.
func (w *terminal) selected(t *testing.T) (id, frame string) {
	t.Helper()
	frame = <-w.frames
	_, marked, ok := strings.Cut(frame, "\x1b[7m")
	if !ok {
		return "", frame
	}
	return strings.Fields(marked)[0], frame
}

func (w *terminal) press(t *testing.T, keys string) {
	t.Helper()
	_, err := io.WriteString(w.keys, keys)
	require.NoError(t, err)
}

func TestSelectAndCancel(t *testing.T) {
	w := startTerminal(t, &fakeServer{requests: requests(3)}, 20)
	id, frame := w.selected(t)
	require.Equal(t, "cmpl-00", id)
	require.NotContains(t, frame, "5.0")
	w.ticks <- time.Time{}
	_, frame = w.selected(t)
	require.Contains(t, frame, "5.0", "tokens per second")
	for _, step := range []struct{ keys, want string }{
		{"\x1b[B", "cmpl-01"}, {"j", "cmpl-02"}, {"\x1bOB", "cmpl-02"}, {"\x1b[A", "cmpl-01"}, {"\x1b[5~k", "cmpl-00"}, {"j", "cmpl-01"},
	} {
		w.press(t, step.keys)
		id, _ = w.selected(t)
		require.Equal(t, step.want, id, "%q", step.keys)
	}
	w.press(t, "x")
	id, frame = w.selected(t)
	require.Equal(t, "cmpl-02", id, "what took its place")
	require.Contains(t, frame, "cancelled cmpl-01")
	require.Contains(t, frame, "2 in flight")
	w.press(t, "q")
	require.Equal(t, "\x1b[?25h\x1b[?1049l", <-w.frames)
	require.NoError(t, <-w.ended)
}

func TestLongListsScroll(t *testing.T) {
	w := startTerminal(t, &fakeServer{requests: requests(50)}, 10)
	id, frame := w.selected(t)
	require.Equal(t, "cmpl-00", id)
	require.Equal(t, 10, strings.Count(frame, "\x1b[K"))
	for i := range 30 {
		w.press(t, "j")
		id, frame = w.selected(t)
		require.Equal(t, fmt.Sprintf("cmpl-%02d", i+1), id)
		require.Equal(t, 10, strings.Count(frame, "\x1b[K"))
	}
	w.press(t, "\x03")
	<-w.frames
	require.NoError(t, <-w.ended)
}

func TestServerThatGoesAwayAndOneThatRefuses(t *testing.T) {
	f := &fakeServer{requests: requests(1)}
	w := startTerminal(t, f, 10)
	<-w.frames
	f.mu.Lock()
	f.requests = nil
	f.mu.Unlock()
	w.ticks <- time.Time{}
	id, frame := w.selected(t)
	require.Empty(t, id)
	require.Contains(t, frame, "0 in flight")
	w.press(t, "xq") // nothing is selected
	<-w.frames
	<-w.frames
	require.NoError(t, <-w.ended)

	f = &fakeServer{}
	w = startTerminal(t, f, 10)
	<-w.frames
	f.mu.Lock()
	f.status = 403
	f.mu.Unlock()
	w.ticks <- time.Time{}
	<-w.frames
	require.ErrorContains(t, <-w.ended, "administrator's key")
}
