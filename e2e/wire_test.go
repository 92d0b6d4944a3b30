//go:build e2e

package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wire is a connection of a test's own, for what http.Client does not do.
type wire struct {
	net.Conn
	t   *testing.T
	r   *bufio.Reader
	tcp *net.TCPConn // that Conn is or runs on
}

// dial connects to the server; the connection closes with the test.
func (s *server) dial() *wire {
	s.t.Helper()
	scheme, address, _ := strings.Cut(s.URL, "://")
	c, err := net.Dial("tcp", address)
	require.NoError(s.t, err)
	w := &wire{Conn: c, t: s.t, tcp: c.(*net.TCPConn)}
	if scheme == "https" {
		w.Conn = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	w.r = bufio.NewReader(w.Conn)
	require.NoError(s.t, w.SetDeadline(time.Now().Add(patience)))
	s.t.Cleanup(func() { _ = w.Close() })
	return w
}

// say writes raw text.
func (w *wire) say(text string) {
	w.t.Helper()
	_, err := w.Write([]byte(text))
	require.NoError(w.t, err)
}

// chatText is a chat request as it goes over the wire.
func chatText(version string, fields obj, header ...string) string {
	raw := body(fields)
	var lines strings.Builder
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&lines, "%s: %s\r\n", header[i], header[i+1])
	}
	return fmt.Sprintf("POST /v1/chat/completions %s\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", version, len(raw), lines.String(), raw)
}

// chat sends a request.
func (w *wire) chat(fields obj, header ...string) {
	w.t.Helper()
	w.say(chatText("HTTP/1.1", fields, header...))
}

// answer reads the head of an answer; its body is still to be read.
func (w *wire) answer() *http.Response {
	w.t.Helper()
	for {
		resp, err := http.ReadResponse(w.r, nil)
		require.NoError(w.t, err)
		if resp.StatusCode >= http.StatusOK { // others are interim
			return resp
		}
	}
}

// readEvents reads so many data lines of a stream.
func (w *wire) readEvents(n int) {
	w.t.Helper()
	sc := bufio.NewScanner(w.answer().Body)
	for n > 0 && sc.Scan() {
		if strings.HasPrefix(sc.Text(), "data: ") {
			n--
		}
	}
	require.Zero(w.t, n, "the stream ended early: %v", sc.Err())
}

// certificate writes a certificate for the loopback interface that signs itself,
// and returns the flags that use it.
func certificate(t *testing.T) (flags []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return []string{"--ssl-certfile", write("cert.pem", "CERTIFICATE", der), "--ssl-keyfile", write("key.pem", "PRIVATE KEY", keyDER)}
}

// roomy is a folder of the embedded model with room for prompts of thousands of words.
func roomy(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	edit(t, dir, "config.json", func(o obj) { o["max_position_embeddings"] = 8192 })
	return dir
}
