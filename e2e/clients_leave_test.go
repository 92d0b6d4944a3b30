//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

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

// TestO47LeavingFreesTheSlot: with one slot, the next client gets it at once, and nothing is generated for nobody.
func TestO47LeavingFreesTheSlot(t *testing.T) {
	const tokens = 8000 // of those who leave
	s := roomyServer(t, "--max-num-seqs", "1")
	var waits []time.Duration
	for range 3 {
		_, err := s.tryStream(context.Background(), "/v1/chat/completions", with(endless("A very long story."), obj{"max_tokens": tokens}), func(n int, _ obj) bool {
			if n == 3 {
				s.eventually(func() bool { return sum(s.scrape(), "vllm:num_requests_running") == 1 }, "the gauge shows it")
			}
			return n < 3
		})
		require.NoError(t, err)
		left := time.Now()
		e := s.stream("/v1/chat/completions", obj{"model": "understudy", "messages": user("Say hello."), "max_tokens": 4, "ignore_eos": true,
			"stream_options": obj{"include_usage": true}})
		require.Equal(t, 4, usage(e.last(), "completion_tokens"))
		waits = append(waits, e.At[1].Sub(left)) // the chunk after the role
	}
	slices.Sort(waits)
	require.Less(t, waits[1], time.Second, "the next one's first token, median of three")
	requireIdle(t, s)
	m := s.scrape()
	require.EqualValues(t, 3, finished(m, "abort"))
	require.EqualValues(t, 3, finished(m, "length"))
	const generated = "vllm:generation_tokens_total"
	require.Less(t, sum(m, generated), 3.0*tokens)
	s.chat(obj{"model": "understudy", "messages": user("Hi."), "max_tokens": 1})
	require.EqualValues(t, 1, sum(s.scrape(), generated)-sum(m, generated), "and none for those who left")
}

// TestO48ManyDisconnects: clients that leave at any moment leave nothing behind.
func TestO48ManyDisconnects(t *testing.T) {
	t.Parallel() // it takes the server's pool of goroutines twenty seconds to shrink
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
