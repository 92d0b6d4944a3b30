package http_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

const (
	benchStreams = 16
	benchTokens  = 512 // per stream
	benchText    = " token"
)

// pipeDepth is how many flushes fiber's own stream writer may run ahead of the
// connection; a freeStream may run ahead as far.
const pipeDepth = 4

// freeStream is a stream whose tokens cost nothing: a goroutine of its own
// makes them as fast as they are taken.
type freeStream struct {
	events chan infer.Event
	ready  chan struct{}
}

func newFreeStream() *freeStream {
	s := &freeStream{events: make(chan infer.Event, pipeDepth), ready: make(chan struct{}, 1)}
	go func() {
		for i := range benchTokens + 1 {
			event := infer.Event{Delta: infer.Delta{Text: benchText, NumOutputTokens: i + 1}}
			switch i {
			case benchTokens - 1:
				event.Delta.FinishReason = infer.FinishLength
			case benchTokens:
				event = final(1, benchTokens)
			}
			s.events <- event
			select {
			case s.ready <- struct{}{}:
			default:
			}
		}
	}()
	return s
}

func (s *freeStream) ID() string                { return "" }
func (s *freeStream) Ready() <-chan struct{}    { return s.ready }
func (s *freeStream) Cancel(infer.CancelReason) {}

func (s *freeStream) Drain(buf []infer.Event) []infer.Event {
	for {
		select {
		case event := <-s.events:
			buf = append(buf, event)
		default:
			return buf
		}
	}
}

// bareFiber serves the same chunks with nothing but fiber's own stream writer.
func bareFiber(b *testing.B) (addr string) {
	chunk := []byte(`data: {"id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion","created":1700000000,"model":"fake",` +
		`"choices":[{"index":0,"text":"` + benchText + `","logprobs":null,"finish_reason":null}]}` + "\n\n")
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/v1/completions", func(c *fiber.Ctx) error {
		c.Set("Content-Type", "text/event-stream; charset=utf-8")
		c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
			for range benchTokens {
				_, _ = w.Write(chunk)
				if w.Flush() != nil {
					return
				}
			}
			_, _ = w.WriteString("data: [DONE]\n\n")
		})
		return nil
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = app.Listener(ln) }()
	b.Cleanup(func() { _ = app.Shutdown() })
	return ln.Addr().String()
}

// drive runs one round of concurrent streams over kept connections.
func drive(b *testing.B, conns []net.Conn) time.Duration {
	request := []byte(post("/v1/completions", `{"prompt":"x","stream":true}`))
	begin := time.Now()
	var clients sync.WaitGroup
	for _, conn := range conns {
		clients.Go(func() {
			buf, tail := make([]byte, 64<<10), []byte("\r\n0\r\n\r\n")
			if _, err := conn.Write(request); err != nil {
				b.Error(err)
				return
			}
			kept := 0
			for {
				n, err := conn.Read(buf[kept:])
				if err != nil {
					b.Error(err)
					return
				}
				got := buf[:kept+n]
				if bytes.HasSuffix(got, tail) {
					return
				}
				kept = copy(buf, got[max(0, len(got)-len(tail)):])
			}
		})
	}
	clients.Wait()
	return time.Since(begin)
}

func dialAll(b *testing.B, addr string) []net.Conn {
	conns := make([]net.Conn, benchStreams)
	for i := range conns {
		conn, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		b.Cleanup(func() { _ = conn.Close() })
		conns[i] = conn
	}
	return conns
}

// BenchmarkStreamVersusBareFiber streams tokens that cost nothing through this
// package and through a bare fiber loop, in turn; ratio = ours / bare.
func BenchmarkStreamVersusBareFiber(b *testing.B) {
	server, err := http.New(http.Options{Generator: &fakeGenerator{generate: func(context.Context, *infer.Request) (infer.Stream, error) {
		return newFreeStream(), nil
	}}})
	require.NoError(b, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = server.Serve(ln) }()
	b.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	ours, bare := dialAll(b, ln.Addr().String()), dialAll(b, bareFiber(b))
	drive(b, ours)
	drive(b, bare)
	var tookOurs, tookBare time.Duration
	b.ResetTimer()
	for range b.N {
		tookOurs += drive(b, ours)
		tookBare += drive(b, bare)
	}
	tokens := float64(b.N * benchStreams * benchTokens)
	b.ReportMetric(tokens/tookOurs.Seconds(), "tokens/s")
	b.ReportMetric(tokens/tookBare.Seconds(), "bare-tokens/s")
	b.ReportMetric(tookBare.Seconds()/tookOurs.Seconds(), "ratio")
}

// BenchmarkUnary is a whole chat request and answer over one kept connection.
func BenchmarkUnary(b *testing.B) {
	server, err := http.New(http.Options{Generator: answers(text("Hel"), finish("lo"), final(3, 2))})
	require.NoError(b, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = server.Serve(ln) }()
	b.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	r := bufio.NewReader(conn)
	request := []byte(post("/v1/chat/completions", chat("")))
	b.ReportAllocs()
	for b.Loop() {
		_, err := conn.Write(request)
		require.NoError(b, err)
		size := 0
		for {
			line, err := r.ReadString('\n')
			require.NoError(b, err)
			if line == "\r\n" {
				break
			}
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &size)
		}
		_, err = io.CopyN(io.Discard, r, int64(size))
		require.NoError(b, err)
	}
}
