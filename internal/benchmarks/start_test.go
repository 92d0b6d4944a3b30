package benchmarks_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	nethttp "net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var urlLine = regexp.MustCompile(`http://[0-9.]+:\d+`)

// BenchmarkStart runs the real binary with the embedded model: time from exec to
// the first streamed token, and resident memory before and after that request.
// Goals: under 1 s; under 100 MB idle.
func BenchmarkStart(b *testing.B) {
	troupe := buildTroupe(b)
	var first, idle, used series
	for range rounds * b.N {
		f, i, u := startOnce(b, troupe)
		first, idle, used = append(first, f), append(idle, i), append(used, u)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(first.median(), "ms-to-first-token")
	b.ReportMetric(idle.median(), "MB-idle")
	b.ReportMetric(used.median(), "MB-after-one-request")
}

// buildTroupe builds the binary.
func buildTroupe(b *testing.B) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "troupe")
	out, err := exec.Command("go", "build", "-o", path, "github.com/troupe-llm/troupe/cmd/troupe").CombinedOutput()
	require.NoError(b, err, "%s", out)
	return path
}

// serveTroupe starts the binary on a free port, and returns when it serves.
func serveTroupe(b *testing.B, troupe string, args ...string) (url string, pid int, stop func()) {
	b.Helper()
	cmd := exec.Command(troupe, append([]string{"serve", "--host", "127.0.0.1", "--port", "0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	for sc := bufio.NewScanner(stderr); url == "" && sc.Scan(); {
		url = urlLine.FindString(sc.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	if url == "" {
		stop()
		require.Fail(b, "the server did not start")
	}
	return url, cmd.Process.Pid, stop
}

func startOnce(b *testing.B, troupe string) (firstMs, idleMB, usedMB float64) {
	b.Helper()
	start := time.Now()
	url, pid, stop := serveTroupe(b, troupe)
	defer stop()
	idleMB = residentMB(b, pid)
	resp, err := nethttp.Post(url+"/v1/chat/completions", "application/json",
		bytes.NewReader([]byte(`{"messages":[{"role":"user","content":"What is the capital of France?"}],"stream":true}`)))
	require.NoError(b, err)
	defer resp.Body.Close()
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		if firstMs == 0 && strings.Contains(sc.Text(), `"content":"`) && !strings.Contains(sc.Text(), `"content":""`) {
			firstMs = time.Since(start).Seconds() * 1000
		}
	}
	require.NotZero(b, firstMs)
	return firstMs, idleMB, residentMB(b, pid)
}

// residentMB reads a process's resident set, in MB (10^6 bytes).
func residentMB(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(b, err)
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	require.NoError(b, err)
	return float64(pages*os.Getpagesize()) / 1e6
}
