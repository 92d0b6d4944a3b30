package http_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

// announce is the head of a request whose body is not sent with it.
func announce(path string, size int, headers string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n", path, headers, size)
}

func TestRefusalsComeBeforeTheBody(t *testing.T) {
	const large = 1 << 20
	keyed := start(t, http.Options{APIKeys: []string{"k"}, BodyLimit: large, RootPath: "/root"})
	for name, c := range map[string]struct{ sent, want string }{
		"no key":              {announce("/v1/completions", 9, ""), "HTTP/1.1 401 "},
		"no key, root path":   {announce("/root/v1/completions", 9, ""), "HTTP/1.1 401 "},
		"no key, expecting":   {announce("/v1/completions", 9, "Expect: 100-continue\r\n"), "HTTP/1.1 401 "},
		"too large":           {announce("/v1/completions", large+1, "Authorization: Bearer k\r\n"), "HTTP/1.1 413 "},
		"too large, anywhere": {announce("/tokenize", large+1, "Expect: 100-continue\r\n"), "HTTP/1.1 413 "},
	} {
		t.Run(name, func(t *testing.T) {
			_, r := keyed.raw(t, c.sent)
			head := readHead(t, r)
			require.True(t, strings.HasPrefix(head, c.want), head)
			require.Contains(t, head, "Connection: close")
		})
	}
}

func TestSlowSendersDoNotKeepOthersOut(t *testing.T) {
	const limit = 1 << 20
	s := start(t, http.Options{BodyLimit: limit, ReadTimeout: 500 * time.Millisecond})
	var slow []net.Conn
	for range 24 {
		conn, _ := s.raw(t, announce("/v1/completions", limit, "")+strings.Repeat(" ", limit*3/4))
		slow = append(slow, conn)
	}
	require.Equal(t, 200, s.do(t, "POST", "/v1/chat/completions", chat("")).StatusCode, "usual requests come in")
	large := chat(`"pad":"` + strings.Repeat("x", limit/2) + `"`)
	require.Eventually(t, func() bool {
		return s.do(t, "POST", "/v1/chat/completions", large).StatusCode == 200
	}, 10*time.Second, time.Millisecond, "large ones in place of the slow")
	for _, conn := range slow {
		all, _ := io.ReadAll(conn)
		require.Regexp(t, "^HTTP/1.1 (408|503) ", string(all))
	}
}

func TestAnHTTP10StreamComesAsItIsMade(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	sent := strings.Replace(post("/v1/chat/completions", chat(streamed)), "HTTP/1.1", "HTTP/1.0\r\nConnection: keep-alive", 1)
	conn, r := s.raw(t, sent)
	stream := <-streams
	stream.push(text("a"))
	head := readHead(t, r)
	require.True(t, strings.HasPrefix(head, "HTTP/1.0 200 OK"), head)
	require.Contains(t, head, "Connection: close")
	require.NotContains(t, head, "Transfer-Encoding")
	require.NotContains(t, head, "Content-Length")
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `data: {"id":"chatcmpl-`)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite(), "done talking, and reads on")
	stream.push(finish("b"), final(1, 2))
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"), string(rest))
	require.Empty(t, stream.cancelled)

	conn, r = s.raw(t, sent)
	stream = <-streams
	readHead(t, r)
	require.NoError(t, conn.Close())
	require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
}

func TestAHalfClosedClientGetsItsAnswer(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	for _, fields := range []string{"", streamed} {
		conn, r := s.raw(t, post("/v1/chat/completions", chat(fields)))
		stream := <-streams
		if fields == streamed {
			readHead(t, r)
		}
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		if fields == streamed {
			require.Equal(t, ": keep-alive\n\n", readChunk(t, r), "which would tell if the client had gone")
		} else {
			require.Contains(t, readHead(t, r), "100 Continue")
		}
		require.Empty(t, stream.cancelled)
		stream.push(text("a"), finish("b"), final(1, 2))
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Contains(t, string(rest), `"finish_reason":"stop"`)
	}
}

func TestPipelinedBytesDoNotHideThatAClientLeft(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	for _, fields := range []string{"", streamed} {
		request := post("/v1/chat/completions", chat(fields))
		conn, _ := s.raw(t, request)
		stream := <-streams
		_, err := io.WriteString(conn, strings.Repeat(request, 1+(8<<20)/len(request)))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
	}
}

func TestWhoSendsFarAheadGetsOneAnswer(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	conn, r := s.raw(t, post("/v1/chat/completions", chat(streamed)))
	stream := <-streams
	readHead(t, r)
	_, err := io.WriteString(conn, strings.Repeat("x", 4<<20))
	require.NoError(t, err)
	stream.push(text("a"), finish("b"), final(1, 2))
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Contains(t, string(rest), "[DONE]")
	require.NotContains(t, string(rest), "400 Bad Request")
}

func TestLargeAnswersAreBounded(t *testing.T) {
	const limit = 4 << 20
	log := newRecordLog()
	stream := newStream("x", text("a"))
	stream.onDrain = func() { stream.push(text(strings.Repeat("x", 1<<16))) }
	g := &fakeGenerator{generate: func(context.Context, *infer.Request) (infer.Stream, error) { return stream, nil }}
	s := start(t, http.Options{Generator: g, AnswerLimit: limit, RequestLog: log.add(t)})
	res := s.do(t, "POST", "/v1/chat/completions", chat(""))
	require.Equal(t, 400, res.StatusCode)
	require.Contains(t, res.body, "The answer has grown beyond 4194304 bytes, the limit of an answer in one piece: set stream: true")
	require.Equal(t, infer.CancelTooLarge, <-stream.cancelled)
	record := <-log.lines
	require.Equal(t, 400, record.Status)
	require.Equal(t, "invalid", record.Error, "what the client was told")

	whole := strings.Repeat("y", 1<<20)
	large := start(t, http.Options{Generator: answers(text(whole), finish(""), final(1, 2)), AnswerLimit: limit})
	for range 20 { // more than all may hold together
		res = large.do(t, "POST", "/v1/chat/completions", chat(""))
		require.Equal(t, 200, res.StatusCode, res.body[:min(len(res.body), 200)])
		require.Contains(t, res.body, whole)
	}
}

func TestTokenizingIsGivenUpWithItsClient(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	g := answers()
	g.tokenizing = func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	s := start(t, http.Options{Generator: g})
	conn, _ := s.raw(t, post("/tokenize", `{"prompt":"x"}`))
	<-began
	require.NoError(t, conn.Close())
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestOtherVersionsAndMethods(t *testing.T) {
	s := start(t, http.Options{})
	for version, want := range map[string]string{"HTTP/9.9": "505", "HTTP/2.0": "505", "HTTP/0.9": "505", "HTTP/1.0": "200"} {
		_, r := s.raw(t, "GET /version "+version+"\r\nHost: x\r\n\r\n")
		require.Contains(t, strings.SplitN(readHead(t, r), "\r\n", 2)[0], " "+want+" ", version)
	}
}

func TestBadEscapesKeepTheirName(t *testing.T) {
	s := start(t, http.Options{})
	_, r := s.raw(t, "GET /v1/models/%zz%f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 404 "))
	require.Contains(t, string(all), "The model `%zz%f` does not exist.")
}

func TestMethodsAreCutForTheLog(t *testing.T) {
	var log bytes.Buffer
	s := start(t, http.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), AccessLog: true})
	_, r := s.raw(t, strings.Repeat("M", 9000)+" /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 405 "), string(all))
	require.Contains(t, log.String(), "method=MMMMMMMMMMMMMMMM path")
}

func TestInternalErrorsCanBeFoundInTheLog(t *testing.T) {
	var log bytes.Buffer
	s := start(t, http.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Generator: &fakeGenerator{
		generate: func(context.Context, *infer.Request) (infer.Stream, error) { panic("oops") },
		tokenize: func(*infer.TokenizeRequest) (*infer.TokenizeResult, error) { return nil, errors.New("oops") },
	}})
	for path, body := range map[string]string{"/v1/chat/completions": chat(""), "/tokenize": `{"prompt":"x"}`} {
		res := s.do(t, "POST", path, body)
		require.Equal(t, 500, res.StatusCode)
		id := res.Header.Get("X-Request-Id")
		require.NotEmpty(t, id)
		require.Contains(t, res.body, `"request_id":"`+id+`"`)
		require.Contains(t, log.String(), id)
		require.Contains(t, s.do(t, "POST", path, body, "X-Request-Id", "mine").body, `"request_id":"mine"`)
	}
	broken := newStream("x", text("a"), infer.Event{Final: &infer.Final{FinishReason: infer.FinishError, Err: infer.Internal(errors.New("oops"))}})
	s = start(t, http.Options{Generator: &fakeGenerator{generate: func(context.Context, *infer.Request) (infer.Stream, error) { return broken, nil }}})
	require.Contains(t, s.do(t, "POST", "/v1/chat/completions", chat(streamed), "X-Request-Id", "mine").body, `"reason":"internal_error","request_id":"chatcmpl-mine"}}`)
}

func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, http.Options{MaxConnections: 2})
	var held []net.Conn
	for range 2 {
		conn, r := s.raw(t, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
		readHead(t, r)
		held = append(held, conn)
	}
	_, r := s.raw(t, "")
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 503 "), string(all))
	require.Contains(t, string(all), "Retry-After: 1")
	require.Contains(t, string(all), "--max-connections")
	require.NoError(t, held[0].Close())
	require.Eventually(t, func() bool {
		res, err := s.client.Get(s.url + "/version")
		return err == nil && res.Body.Close() == nil && res.StatusCode == 200
	}, 10*time.Second, time.Millisecond)
}

func TestUnaryHTTP10(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g})
	conn, _ := s.raw(t, strings.Replace(post("/v1/chat/completions", chat("")), "HTTP/1.1", "HTTP/1.0", 1))
	stream := <-streams
	require.NoError(t, conn.Close())
	require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
}

func TestHeadersThatCanBeReadInTwoWaysAreRefused(t *testing.T) {
	s := start(t, http.Options{})
	for line, want := range map[string]string{
		"X-Y: z": "200", "X Y: z": "400", "X-Y : z": "400", "Transfer-Encoding:\n chunked": "400",
		"X-Y: a\r\n b": "400", "X(Y): z": "400",
	} {
		_, r := s.raw(t, "GET /version HTTP/1.1\r\nHost: x\r\n"+line+"\r\nConnection: close\r\n\r\n")
		require.Contains(t, strings.SplitN(readHead(t, r), "\r\n", 2)[0], " "+want+" ", line)
	}
}
