//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roomyServer serves the embedded model with a context of thousands of tokens.
func roomyServer(t *testing.T, flags ...string) *server {
	t.Helper()
	return serve(t, append([]string{roomy(t), "--served-model-name", "understudy", "--admin-api-key", adminKey}, flags...)...)
}

// signal sends the server a signal.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
}

// awaitExit returns the exit code of a server that was told to end.
func (s *server) awaitExit() int {
	s.t.Helper()
	select {
	case <-s.exit:
	case <-time.After(patience):
		require.Fail(s.t, "it does not end", "%s", s.log)
	}
	return s.cmd.ProcessState.ExitCode()
}

// TestO52Drain: SIGTERM lets those finish that were taken on, and turns the others away.
func TestO52Drain(t *testing.T) {
	const tokens = 1500
	s := roomyServer(t, "--max-num-seqs", "3", "--shutdown-timeout", "100", "--enable-per-request-metrics")
	for range 5 { // idle connections, which stay open on our side to the end
		w := s.dial()
		w.say("GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := io.ReadAll(w.answer().Body)
		require.NoError(t, err)
		s.dial() // and one that has never been used
	}
	var streams []*sse
	var errs []error
	done := make(chan struct{})
	go func() {
		defer close(done)
		streams, errs = s.stories(5, tokens)
	}()
	s.eventually(func() bool { p := s.phases(); return p["decode"] == 3 && p["queued"] == 2 }, "three run, two wait")
	s.signal(syscall.SIGTERM)
	late := body(obj{"model": "understudy", "messages": user("Hi."), "max_tokens": 1})
	s.eventually(func() bool {
		r := s.do("POST", "/v1/chat/completions", late)
		if r.Status == http.StatusOK {
			return false
		}
		require.Equal(t, http.StatusServiceUnavailable, r.Status, "%s", r.Body)
		require.NotEmpty(t, r.Header.Get("Retry-After"))
		return true
	}, "new requests are turned away")
	require.Equal(t, http.StatusServiceUnavailable, s.do("GET", "/health", "").Status, "readiness is gone before the first refusal")
	require.NotEmpty(t, s.live(), "too short a load to see how it drains")
	require.Positive(t, sum(s.scrape(), "vllm:num_requests_running"), "the last metrics can be scraped")
	<-done
	require.Zero(t, s.awaitExit())
	requireNoErrors(t, errs)
	for _, e := range streams {
		require.True(t, e.Done)
		require.Equal(t, tokens, usage(e.last(), "completion_tokens"))
		requireIdentities(t, readTimes(t, e.last()), tokens)
	}
	_, err := http.Get(s.URL + "/health")
	require.Error(t, err, "nobody listens any more")
}

// TestO52AtTheLimit: who is not done in time gets an error event, not a cut, and whole answers a status.
func TestO52AtTheLimit(t *testing.T) {
	for _, timeout := range []string{"0", "0.5"} {
		s := roomyServer(t, "--max-num-seqs", "2", "--shutdown-timeout", timeout)
		long := with(endless("Go on."), obj{"max_tokens": 8000})
		streams, errs := make([]*sse, 3), make([]error, 3)
		var whole reply
		var wholeErr error
		var all sync.WaitGroup
		for i := range streams { // two run, one waits
			all.Go(func() { streams[i], errs[i] = s.tryStream(context.Background(), "/v1/chat/completions", long, nil) })
		}
		all.Go(func() { whole, wholeErr = s.try(context.Background(), "POST", "/v1/chat/completions", body(long)) })
		s.eventually(func() bool { return len(s.live()) == 4 && s.phases()["decode"] == 2 }, "all are in")
		s.signal(syscall.SIGTERM)
		all.Wait()
		require.Zero(t, s.awaitExit(), "--shutdown-timeout %s", timeout)
		requireNoErrors(t, append(errs, wholeErr))
		require.Equal(t, http.StatusServiceUnavailable, whole.Status, "%s", whole.Body)
		for _, e := range streams {
			require.True(t, e.Done, "%s", e.Raw)
			require.Contains(t, e.last(), "error")
			require.Empty(t, e.finish(0))
		}
	}
}

// TestO52SecondSignal: again means now.
func TestO52SecondSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := roomyServer(t, "--shutdown-timeout", "100")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = s.tryStream(context.Background(), "/v1/chat/completions", with(endless("Go on."), obj{"max_tokens": 8000}), nil)
		}()
		s.eventually(func() bool { return s.phases()["decode"] == 1 }, "it runs")
		s.signal(sig)
		s.eventually(func() bool { return strings.Contains(s.log.String(), "again to end at once") }, "it drains")
		require.NotEmpty(t, s.live())
		again := time.Now()
		s.signal(sig)
		require.Equal(t, 128+int(sig), s.awaitExit(), fmt.Sprint(sig))
		require.Less(t, time.Since(again), 10*time.Second, "at once, not after --shutdown-timeout")
		<-gone
	}
}
