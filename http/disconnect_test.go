package http_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

func TestClientGone(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	closeConn := func(c net.Conn) { _ = c.Close() }
	reset := func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	for name, leave := range map[string]func(net.Conn){"close": closeConn, "reset": reset} {
		for _, fields := range []string{"", streamed} {
			t.Run(name+fields, func(t *testing.T) {
				conn, r := s.raw(t, post("/v1/chat/completions", chat(fields)))
				stream := <-streams
				if fields == streamed {
					require.Contains(t, readHead(t, r), "200 OK", "headers come before the first token")
				}
				leave(conn)
				require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
			})
		}
	}
}

func TestClientGoneInMidStreamAndOnAKeptConnection(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	conn, r := s.raw(t, post("/v1/chat/completions", chat("")))
	(<-streams).push(text("a"), finish(""), final(1, 2))
	require.Contains(t, readHead(t, r), "200 OK")
	_, err := r.Discard(r.Buffered())
	require.NoError(t, err)
	_, err = io.WriteString(conn, post("/v1/chat/completions", chat(streamed)))
	require.NoError(t, err)
	stream := <-streams
	stream.push(text("a"))
	readHead(t, r)
	require.Contains(t, readChunk(t, r), `"content":"a"`)
	require.NoError(t, conn.Close())
	require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
}

func TestClientGoneDuringAdmission(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	s := start(t, http.Options{Generator: &fakeGenerator{generate: func(ctx context.Context, _ *infer.Request) (infer.Stream, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}})
	conn, _ := s.raw(t, post("/v1/chat/completions", chat("")))
	<-began
	require.NoError(t, conn.Close())
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestPipelinedRequestIsNoDisconnect(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	_, r := s.raw(t, post("/v1/chat/completions", chat(streamed))+post("/v1/chat/completions", chat(streamed)))
	for range 2 {
		stream := <-streams
		stream.push(text("a"), finish(""), final(1, 1))
		readHead(t, r)
		require.Contains(t, strings.Join(readChunks(t, r), ""), "[DONE]")
		require.Empty(t, stream.cancelled)
	}
}

func TestManyDisconnectsLeaveNothing(t *testing.T) {
	const num = 100
	before := numOpenFiles(t)
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	var clients sync.WaitGroup
	for i := range num {
		clients.Go(func() {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Error(err)
				return
			}
			fields := []string{"", streamed}[i%2]
			_, err = io.WriteString(conn, post("/v1/chat/completions", chat(fields)))
			if fields == streamed && i%3 == 0 {
				_, err = conn.Read(make([]byte, 1)) // some leave before the headers, some after
			}
			if err != nil {
				t.Error(err)
			}
			_ = conn.Close()
		})
	}
	var begun, cancelled atomic.Int32
	all := make(chan struct{})
	go func() {
		defer close(all)
		for stream := range streams {
			if begun.Add(1)%5 == 0 {
				stream.push(text("a"))
			}
			if <-stream.cancelled == infer.CancelClientGone {
				cancelled.Add(1)
			}
		}
	}()
	clients.Wait()
	require.NoError(t, s.Shutdown(context.Background()), "no connection is left")
	close(streams)
	<-all
	// Those who left while their request was being prepared never had a stream.
	require.Equal(t, begun.Load(), cancelled.Load())
	require.Positive(t, begun.Load())
	require.LessOrEqual(t, numOpenFiles(t), before)
}

func TestSlowClient(t *testing.T) {
	stream := newStream("x", text("a"))
	stream.onDrain = func() { stream.push(text(strings.Repeat("x", 1<<16))) }
	s := start(t, http.Options{Generator: &fakeGenerator{generate: func(context.Context, *infer.Request) (infer.Stream, error) {
		return stream, nil
	}}, WriteTimeout: 50 * time.Millisecond})
	_, _ = s.raw(t, post("/v1/chat/completions", chat(streamed))) // and reads nothing
	require.Equal(t, infer.CancelSlowClient, <-stream.cancelled)
}

func TestSignsOfLife(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, SSEKeepAlive: 5 * time.Millisecond})
	_, r := s.raw(t, post("/v1/chat/completions", chat(streamed)))
	stream := <-streams
	readHead(t, r)
	for range 2 {
		require.Equal(t, ": keep-alive\n\n", readChunk(t, r))
	}
	stream.push(text("a"), finish(""), final(1, 2))
	rest := strings.ReplaceAll(strings.Join(readChunks(t, r), ""), ": keep-alive\n\n", "")
	require.True(t, strings.HasPrefix(rest, `data: {"id":`), rest)
	require.True(t, strings.HasSuffix(rest, "data: [DONE]\n\n"))
}

func TestPendingDeltasShareAFlush(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	_, r := s.raw(t, post("/v1/completions", `{"prompt":"x","stream":true}`))
	stream := <-streams
	readHead(t, r)
	stream.push(text("a"))
	require.Equal(t, 1, strings.Count(readChunk(t, r), "data: "))
	stream.push(text("b"), text("c"), text("d"))
	require.Equal(t, 3, strings.Count(readChunk(t, r), "data: "))
	stream.push(finish(""), final(1, 5))
	readChunks(t, r)
}

// Every request's text must come back in its own answer, also when it is read
// only after all others have passed through the server's buffers.
func TestRequestsDoNotShareMemory(t *testing.T) {
	const num = 32
	var arrived sync.WaitGroup
	arrived.Add(num)
	s := start(t, http.Options{Generator: &fakeGenerator{generate: func(_ context.Context, r *infer.Request) (infer.Stream, error) {
		arrived.Done()
		arrived.Wait()
		return newStream(r.ID, text(r.Prompts[0].Text), text(r.CacheSalt), finish(r.Sampling.Stop[0]), final(1, 1)), nil
	}}})
	var clients sync.WaitGroup
	for i := range num {
		clients.Go(func() {
			word := fmt.Sprintf("w%dw", i)
			body := fmt.Sprintf(`{"prompt":"%s","stop":"%s","cache_salt":"%s","stream":%v}`, strings.Repeat(word, 2000), word, word, i%2 == 0)
			res := s.do(t, "POST", "/v1/completions", body, "X-Request-Id", word)
			if got := strings.Count(res.body, word); got < 2000+3 || strings.Count(res.body, "w") != strings.Count(res.body, word)*2 {
				t.Errorf("%d answers of %s", got, word)
			}
		})
	}
	clients.Wait()
}
