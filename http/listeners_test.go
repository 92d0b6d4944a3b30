package http_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

// serverConfig borrows the certificate that httptest comes with.
func serverConfig(t *testing.T) *tls.Config {
	t.Helper()
	server := httptest.NewTLSServer(nethttp.NotFoundHandler())
	defer server.Close()
	return &tls.Config{Certificates: server.TLS.Certificates}
}

func TestOtherListeners(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	config := serverConfig(t)
	for name, c := range map[string]struct {
		listen func() (net.Listener, error)
		dial   func(addr string) (net.Conn, error)
		tls    *tls.Config
	}{
		"unix": {
			func() (net.Listener, error) { return net.Listen("unix", socket) },
			func(addr string) (net.Conn, error) { return net.Dial("unix", addr) }, nil,
		},
		"tls": {
			func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
			func(addr string) (net.Conn, error) {
				return tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
			}, config,
		},
		"tls of the listener": {
			func() (net.Listener, error) { return tls.Listen("tcp", "127.0.0.1:0", config) },
			func(addr string) (net.Conn, error) {
				return tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, streams := hangs()
			s := start(t, http.Options{Generator: g, TLS: c.tls})
			ln, err := c.listen()
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			t.Cleanup(func() { require.NoError(t, <-served) })
			// Runs before the wait above: one Shutdown ends every Serve.
			t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
			for _, fields := range []string{"", streamed} {
				conn, err := c.dial(ln.Addr().String())
				require.NoError(t, err)
				_, err = conn.Write([]byte(post("/v1/chat/completions", chat(fields))))
				require.NoError(t, err)
				stream := <-streams
				require.NoError(t, conn.Close())
				require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
			}
		})
	}
}

func TestRefusalReachesAClientThatStillSendsUnderTLS(t *testing.T) {
	s := start(t, http.Options{TLS: serverConfig(t), BodyLimit: 1000})
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, post("/v1/completions", strings.Repeat("x", 4<<20)))
	}()
	require.Contains(t, readHead(t, bufio.NewReader(conn)), "413 ")
	<-sent
}

func TestShutdownUnderTLS(t *testing.T) {
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, TLS: serverConfig(t)})
	idle, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer idle.Close()
	silent, err := net.Dial("tcp", s.addr) // no handshake ever
	require.NoError(t, err)
	defer silent.Close()
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, post("/v1/completions", `{"prompt":"x","stream":true}`))
	require.NoError(t, err)
	<-streams
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(rest), "cancelled: shutdown")
	require.Contains(t, string(rest), "[DONE]")
}
