package http_test

import (
	"crypto/tls"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
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
	}{
		"unix": {
			func() (net.Listener, error) { return net.Listen("unix", socket) },
			func(addr string) (net.Conn, error) { return net.Dial("unix", addr) },
		},
		"tls": {
			func() (net.Listener, error) { return tls.Listen("tcp", "127.0.0.1:0", config) },
			func(addr string) (net.Conn, error) {
				return tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, streams := hangs()
			s := start(t, http.Options{Generator: g})
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
