//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds waits in these tests; none of them measures time.
const patience = 2 * time.Minute

// liveRequest is an entry of GET /v1/requests.
type liveRequest struct {
	id, phase, key string
	tokens, place  int
	recoveries     int
}

const adminKey = "sk-admin"

// live lists the requests in flight.
func (s *server) live() []liveRequest {
	s.t.Helper()
	r := s.do("GET", "/v1/requests", "", "Authorization", "Bearer "+adminKey)
	require.Equal(s.t, http.StatusOK, r.Status, "%s", r.Body)
	var all []liveRequest
	for _, o := range s.parse(r.Body)["data"].([]any) {
		o := o.(obj)
		number := func(field string) int { return int(o[field].(float64)) }
		all = append(all, liveRequest{o["id"].(string), o["phase"].(string), o["key"].(string),
			number("num_output_tokens"), number("queue_position"), number("num_recoveries")})
	}
	return all
}

// eventually waits until ok, however slow the machine.
func (s *server) eventually(ok func() bool, what string) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond) // leave the processor to the server
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		require.True(s.t, time.Now().Before(deadline), "never: %s\n%s", what, s.log)
	}
}

// fault makes the next step of a batcher fail.
func (s *server) fault(kind string, batcher int) {
	s.t.Helper()
	r := s.do("POST", "/debug/fault", body(obj{"kind": kind, "batcher": batcher}), "Authorization", "Bearer "+adminKey)
	require.Equal(s.t, http.StatusOK, r.Status, "%s", r.Body)
}

func (s *server) restarts() int { return int(sum(s.scrape(), "troupe:batcher_restarts_total")) }

// kill makes a batcher fail (-1 = the next to make a step), and waits until a fresh one is at work and every
// request has got tokens since: the failures of one test are independent of each other.
func (s *server) kill(kind string, batcher int) {
	s.t.Helper()
	before := s.restarts()
	s.fault(kind, batcher)
	s.eventually(func() bool { return s.restarts() > before }, "a failed batcher is replaced")
	least := map[string]int{}
	for _, r := range s.live() {
		least[r.id] = r.tokens + 3 // more than can be under way from before
	}
	s.eventually(func() bool {
		for _, r := range s.live() {
			if r.tokens < least[r.id] {
				return false
			}
		}
		return true
	}, "every request goes on after a failure")
}

// story is a stream that is long enough to be interrupted, the i-th of its kind.
func story(i, tokens int) obj {
	return obj{"model": "understudy", "messages": user(fmt.Sprintf("Tell me story %d.", i)), "max_tokens": tokens, "ignore_eos": true,
		"temperature": i % 2, "seed": i, "stream_options": obj{"include_usage": true}}
}

// stories streams n stories at a time and returns them when the last is over.
func (s *server) stories(n, tokens int) ([]*sse, []error) {
	streams, errs := make([]*sse, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			streams[i], errs[i] = s.tryStream(context.Background(), "/v1/chat/completions", story(i, tokens), nil)
		})
	}
	all.Wait()
	return streams, errs
}

// laps is how often runs that failures are to hit repeat their stories: once may be over before the last failure
// where asking for them takes long.
const laps = 2

// restless streams the stories laps times over, while the caller makes things fail. The first channel gets the
// runs, and is closed after the last one.
func (s *server) restless(n, tokens int) <-chan lap {
	out := make(chan lap, laps)
	go func() {
		defer close(out)
		for range laps {
			streams, errs := s.stories(n, tokens)
			out <- lap{streams, errs}
		}
	}()
	return out
}

// lap is one run of restless.
type lap struct {
	streams []*sse
	errs    []error
}

// requireUnderway checks that streams were still to be hit.
func requireUnderway(t *testing.T, runs <-chan lap) {
	t.Helper()
	require.Less(t, len(runs), laps, "the streams were over before the last failure")
}

// requireSame checks that two runs gave the same answers, each complete.
func requireSame(t *testing.T, quiet, now []*sse, tokens int) {
	t.Helper()
	for i := range quiet {
		for _, e := range []*sse{quiet[i], now[i]} {
			require.True(t, e.Done)
			require.Equal(t, "length", e.finish(0))
			require.Equal(t, tokens, usage(e.last(), "completion_tokens"))
		}
		require.Equal(t, quiet[i].text(0), now[i].text(0), "story %d", i)
	}
}

func requireNoErrors(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// requireIdle waits until nothing runs, waits or holds blocks, and every request has its outcome.
func requireIdle(t *testing.T, s *server) {
	t.Helper()
	s.eventually(func() bool {
		m := s.scrape()
		return sum(m, "vllm:num_requests_running")+sum(m, "vllm:num_requests_waiting")+sum(m, "vllm:kv_cache_usage_perc") == 0 &&
			sum(m, "troupe:requests_received_total") == sum(m, "troupe:requests_finished_total")
	}, "running, waiting and blocks go back to zero")
}

// TestStalledStep: the watchdog ends a step that hangs; the outage is decode time.
func TestStalledStep(t *testing.T) {
	const tokens, timeout = 600, 1
	s := serve(t, "--enable-fault-injection", "--admin-api-key", adminKey, "--step-timeout", fmt.Sprint(timeout), "--enable-per-request-metrics")
	quiet, errs := s.stories(4, tokens)
	requireNoErrors(t, errs)
	var now []*sse
	done := make(chan struct{})
	go func() {
		defer close(done)
		now, errs = s.stories(4, tokens)
	}()
	s.eventually(func() bool { // all are past their first token, and none near its end
		live := s.live()
		for _, r := range live {
			if r.phase != "decode" {
				return false
			}
		}
		return len(live) == 4
	}, "all decode")
	s.kill("stall", 0)
	<-done
	requireNoErrors(t, errs)
	requireSame(t, quiet, now, tokens)
	for _, e := range now {
		m := readTimes(t, e.last())
		requireIdentities(t, m, tokens)
		require.Greater(t, m.generation, timeout*1000.0, "the outage is part of the decode time")
		require.Less(t, m.queue, timeout*1000.0, "and not of the queue time")
	}
	require.Equal(t, 1, s.restarts())
	require.Contains(t, s.log.String(), "sequence resubmitted")
	requireIdle(t, s)
}

// TestStallNeedsAWatchdog: a stall that nothing would end is refused, as is a fault that nobody enabled.
func TestStallNeedsAWatchdog(t *testing.T) {
	s := serve(t, "--enable-fault-injection")
	s.refused(http.StatusBadRequest, "/debug/fault", `{"kind": "stall"}`)
	s.refused(http.StatusBadRequest, "/debug/fault", `{"kind": "flood"}`)
	s.refused(http.StatusBadRequest, "/debug/fault", `{"kind": "panic", "batcher": 1}`)
	plain := serve(t)
	plain.refused(http.StatusNotFound, "/debug/fault", `{"kind": "panic"}`)
}
