//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// troupe is the server under test, built once with the fault-injection hook.
var troupe string

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "troupe-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	troupe = filepath.Join(dir, "troupe")
	build := exec.Command("go", "build", "-tags", "faultinject", "-o", troupe, "github.com/troupe-llm/troupe/cmd/troupe")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// server is one running `troupe serve`.
type server struct {
	t    *testing.T
	URL  string
	cmd  *exec.Cmd
	log  *logBuffer
	exit chan struct{} // closed once the process has ended
}

// logBuffer collects stderr and tells who waits for the URL line.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.WriteString(line + "\n")
}

// String returns everything the server has written so far.
func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

var urlLine = regexp.MustCompile(`https?://[0-9a-zA-Z.\[\]:]+:\d+`)

// serve starts the server with these flags on a free port of the loopback
// interface, waits until it is healthy, and stops it when the test ends.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	return serveEnv(t, nil, args...)
}

// serveEnv is serve with additional environment variables.
func serveEnv(t *testing.T, env []string, args ...string) *server {
	t.Helper()
	args = append([]string{"serve"}, args...)
	cmd := exec.Command(troupe, append(args, "--host", "127.0.0.1", "--port", "0")...)
	cmd.Env = append(os.Environ(), env...)
	s := start(t, cmd)
	s.waitHealthy()
	return s
}

// start starts the server of a command, waits until it listens, and stops it when the test ends.
func start(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, log: &logBuffer{}, exit: make(chan struct{})}
	stderr, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(s.stop)
	url := make(chan string, 1)
	go func() {
		defer close(s.exit)
		for sc := bufio.NewScanner(stderr); sc.Scan(); {
			s.log.add(sc.Text())
			if u := urlLine.FindString(sc.Text()); u != "" {
				select {
				case url <- u:
				default:
				}
			}
		}
		_ = s.cmd.Wait()
	}()
	select {
	case s.URL = <-url:
	case <-s.exit:
		require.Fail(t, "server ended at start", s.log.String())
	case <-time.After(30 * time.Second):
		require.Fail(t, "no URL line within 30 s", s.log.String())
	}
	return s
}

func (s *server) waitHealthy() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		resp, err := client.Get(s.URL + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 30*time.Second, 10*time.Millisecond, "health never became 200\n%s", s.log)
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exit:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exit
		s.t.Errorf("server did not end within 20 s of SIGTERM\n%s", s.log)
	}
	if s.t.Failed() {
		s.t.Logf("server log:\n%s", s.log)
	}
}

// reply is one whole HTTP answer.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
	Wall   time.Duration // from sending the request to the last byte
}

// do sends a request with a raw body and reads the whole answer.
func (s *server) do(method, path, body string, header ...string) reply {
	s.t.Helper()
	r, err := s.try(context.Background(), method, path, body, header...)
	require.NoError(s.t, err)
	return r
}

func (s *server) try(ctx context.Context, method, path, body string, header ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	start := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return reply{}, err
	}
	return reply{resp.StatusCode, resp.Header, b, time.Since(start)}, err
}

// client keeps as many connections as the concurrency tests need, and takes the
// certificates that tests sign themselves.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// run executes the binary to its end and returns exit code and stderr.
func run(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, troupe, args...)
	var buf bytes.Buffer
	cmd.Stderr = &buf
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "still running after 30 s: troupe %s\n%s", strings.Join(args, " "), buf.String())
	return cmd.ProcessState.ExitCode(), buf.String()
}
