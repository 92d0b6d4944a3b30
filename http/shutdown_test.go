package http_test

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

func TestShutdownWaitsForStreamsOnly(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	s.do(t, "GET", "/version", "") // its connection is kept, idle
	unused, _ := s.raw(t, "")
	_, r := s.raw(t, post("/v1/chat/completions", chat(streamed)))
	stream := <-streams
	readHead(t, r)

	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	_, err := unused.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "a connection that asked for nothing is closed")
	_, err = net.Dial("tcp", s.addr)
	require.Error(t, err)
	require.Empty(t, done)
	stream.push(text("a"), finish(""), final(1, 2))
	require.Contains(t, strings.Join(readChunks(t, r), ""), "data: [DONE]\n\n")
	require.NoError(t, <-done)
	require.Empty(t, stream.cancelled)
	require.Error(t, s.Shutdown(context.Background()), "a second time")
}

func TestShutdownAtTheLimitCancels(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	_, r := s.raw(t, post("/v1/chat/completions", chat(streamed)))
	_, unary := s.raw(t, post("/v1/chat/completions", chat("")))
	for range 2 {
		<-streams
	}
	readHead(t, r)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	last := strings.Join(readChunks(t, r), "")
	require.True(t, strings.HasPrefix(last, `data: {"error":{"message":"cancelled: shutdown","type":"Service Unavailable"`), last)
	require.True(t, strings.HasSuffix(last, "data: [DONE]\n\n"))
	require.Contains(t, readHead(t, unary), "503 Service Unavailable")
}

func TestShutdownWithNothingToDo(t *testing.T) {
	s := start(t, http.Options{})
	s.do(t, "GET", "/version", "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, s.Shutdown(ctx), "nothing was cut short")
}

func TestServeAfterShutdown(t *testing.T) {
	server, err := http.New(http.Options{Generator: answers()})
	require.NoError(t, err)
	require.NoError(t, server.Shutdown(context.Background()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, server.Serve(ln), "it has served as long as it should")
	_, err = net.Dial("tcp", ln.Addr().String())
	require.Error(t, err, "the listener is closed")
}

func TestShutdownDoesNotWaitForHalfARequest(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	whole := post("/v1/chat/completions", chat(streamed))
	_, r := s.raw(t, whole)
	stream := <-streams
	readHead(t, r)
	var halves []net.Conn
	for _, n := range []int{5, len(whole) - 3} { // within the head, within the body
		conn, _ := s.raw(t, whole[:n])
		halves = append(halves, conn)
	}
	large := announce("/v1/chat/completions", 1<<20, "") + strings.Repeat(" ", 1<<19)
	conn, _ := s.raw(t, large)
	halves = append(halves, conn)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	for _, conn := range halves {
		_, err := io.ReadAll(conn)
		if err != nil {
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
	}
	require.Empty(t, done, "a request that runs is waited for")
	stream.push(text("a"), finish(""), final(1, 2))
	require.Contains(t, strings.Join(readChunks(t, r), ""), "data: [DONE]\n\n")
	require.NoError(t, <-done)
}

func TestShutdownDoesNotWaitForWhoReadsNothing(t *testing.T) {
	stream := newStream("x", text("a"))
	written := make(chan struct{}, 1)
	stream.onDrain = func() {
		select {
		case written <- struct{}{}:
		default:
		}
		stream.push(text(strings.Repeat("x", 32<<20))) // more than sockets take
	}
	g := &fakeGenerator{generate: func(context.Context, *infer.Request) (infer.Stream, error) { return stream, nil }}
	s := start(t, http.Options{Generator: g, WriteTimeout: time.Hour})
	_, _ = s.raw(t, post("/v1/chat/completions", chat(streamed))) // and reads nothing
	<-written
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	require.Equal(t, infer.CancelShutdown, <-stream.cancelled)
}
