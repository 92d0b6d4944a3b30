//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// endless is a request that only ends early if somebody ends it.
func endless(prompt string) obj {
	return obj{"model": "understudy", "messages": user(prompt), "max_tokens": 900, "ignore_eos": true, "temperature": 1}
}

// fds counts the server's open files.
func (s *server) fds() int {
	s.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	require.NoError(s.t, err)
	return len(entries)
}

// rest is what a server at rest has; compare the state after with that before.
type rest struct{ fds, goroutines int }

// atRest waits until the server has nothing to do and no connections of ours.
func (s *server) atRest(baseline *rest) rest {
	s.t.Helper()
	requireIdle(s.t, s)
	var now rest
	s.eventually(func() bool {
		client.CloseIdleConnections()
		now = rest{s.fds(), int(sum(s.scrape(), "go_goroutines"))}
		return baseline == nil || now.fds <= baseline.fds+2 && now.goroutines <= baseline.goroutines+5
	}, "open files and goroutines go back to the baseline")
	return now
}

// leave sends a request over a connection of its own and closes it when at says so.
func (s *server) leave(fields obj, at func(c net.Conn)) {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(s.t, err)
	raw := body(fields)
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(raw), raw)
	require.NoError(s.t, err)
	at(c)
	require.NoError(s.t, c.Close())
}

func (s *server) phases() map[string]int {
	s.t.Helper()
	n := map[string]int{}
	for _, r := range s.live() {
		n[r.phase]++
	}
	return n
}

func finished(m map[string]float64, reason string) float64 {
	return sum(m, "troupe:requests_finished_total", fmt.Sprintf("finished_reason=%q", reason))
}

// TestClientsLeaveInEveryPhase: whoever leaves frees what the request held.
func TestClientsLeaveInEveryPhase(t *testing.T) {
	s := serve(t, "--max-num-seqs", "1", "--max-num-batched-tokens", "16", "--admin-api-key", adminKey, "--disable-uvicorn-access-log")
	s.chat(obj{"model": "understudy", "messages": user("Hello."), "max_tokens": 2})
	baseline := s.atRest(nil)
	inPhase := func(phase string) func(net.Conn) {
		return func(net.Conn) { s.eventually(func() bool { return s.phases()[phase] > 0 }, phase) }
	}
	long := endless(strings.Repeat("word ", 100))

	s.leave(endless("Whole."), inPhase("decode"))
	s.atRest(&baseline)
	s.leave(with(endless("Streaming."), obj{"stream": true}), func(c net.Conn) {
		sc := bufio.NewScanner(c)
		for n := 0; n < 3 && sc.Scan(); {
			if strings.HasPrefix(sc.Text(), "data: ") {
				n++
			}
		}
	})
	s.atRest(&baseline)
	s.leave(with(long, obj{"stream": true}), func(net.Conn) {}) // before or in prefill
	s.atRest(&baseline)
	s.leave(endless("The one that runs."), func(net.Conn) {
		inPhase("decode")(nil)
		s.leave(with(long, obj{"stream": true}), inPhase("queued"))
		s.eventually(func() bool { return s.phases()["queued"] == 0 }, "the queued one is gone before the running one")
		require.Equal(t, 1, s.phases()["decode"])
	})
	s.atRest(&baseline)

	m := s.scrape()
	require.EqualValues(t, 1, finished(m, "length"))
	require.EqualValues(t, 5, finished(m, "abort")+finished(m, "refused"), "once each")
	require.EqualValues(t, 6, sum(m, "troupe:requests_received_total"))
}

// TestO47LeavingFreesTheSlot: with one slot, the next client gets it at once.
func TestO47LeavingFreesTheSlot(t *testing.T) {
	s := serve(t, "--max-num-seqs", "1", "--admin-api-key", adminKey)
	for range 3 {
		_, err := s.tryStream(context.Background(), "/v1/chat/completions", endless("A very long story."), func(n int, _ obj) bool { return n < 3 })
		require.NoError(t, err)
		o, _ := s.chat(obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 4, "ignore_eos": true})
		require.Equal(t, 4, usage(o, "completion_tokens"))
	}
	requireIdle(t, s)
	m := s.scrape()
	require.EqualValues(t, 3, finished(m, "abort"))
	require.EqualValues(t, 3, finished(m, "length"))
	require.Less(t, sum(m, "vllm:generation_tokens_total"), 3*900.0)

	// the same connection serves on after a whole answer, and its client may leave later
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	defer c.Close()
	r := bufio.NewReader(c)
	for _, fields := range []obj{{"model": "understudy", "messages": user("Hi."), "max_tokens": 2}, with(endless("Hi."), obj{"stream": true})} {
		raw := body(fields)
		_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(raw), raw)
		require.NoError(t, err)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		if fields["stream"] == nil {
			require.NoError(t, resp.Write(discard{}))
		}
	}
	require.NoError(t, c.Close())
	requireIdle(t, s)
	require.EqualValues(t, 4, finished(s.scrape(), "abort"))
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestO48ManyDisconnects: clients that leave at any moment leave nothing behind.
func TestO48ManyDisconnects(t *testing.T) {
	const clients, each = 10, 20
	s := serve(t, "--max-num-seqs", "4", "--data-parallel-size", "2", "--disable-uvicorn-access-log")
	s.chat(obj{"model": "understudy", "messages": user("Go on."), "max_tokens": 2})
	baseline := s.atRest(nil)
	var all sync.WaitGroup
	for w := range clients {
		all.Go(func() {
			for i := range each {
				after := (w*each + i*7) % 60 // chunks; the answers have 51 or so
				fields := with(endless("Go on."), obj{"max_tokens": 48, "n": 1 + i%2})
				_, _ = s.tryStream(context.Background(), "/v1/chat/completions", fields, func(n int, _ obj) bool { return n <= after })
			}
		})
	}
	all.Wait()
	s.atRest(&baseline)
	m := s.scrape()
	require.EqualValues(t, clients*each+1, sum(m, "troupe:requests_received_total"))
	require.EqualValues(t, clients*each+1, sum(m, "troupe:requests_finished_total"), "each was counted once")
	require.Positive(t, finished(m, "abort"))
	_, errs := s.stories(4, 32)
	requireNoErrors(t, errs)
}
