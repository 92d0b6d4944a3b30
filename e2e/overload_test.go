//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// block takes a slot until release is called.
func (s *server) block() (release func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = s.tryStream(ctx, "/v1/chat/completions", with(endless("Write."), obj{"max_tokens": 8000}), nil)
	}()
	running := func() bool { return s.phases()["decode"] == 1 }
	s.eventually(running, "the slot is taken")
	release = func() { cancel(); <-over }
	s.t.Cleanup(release)
	return release
}

func retryAfter(t *testing.T, h http.Header) int {
	t.Helper()
	wait, err := strconv.Atoi(h.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, wait, 1)
	return wait
}

// TestO50FullQueue: a bounded queue refuses at once what it cannot hold, and keeps its promises.
func TestO50FullQueue(t *testing.T) {
	const clients, queue = 20, 4
	s := roomyServer(t, "--max-num-seqs", "1", "--max-num-queued-reqs", strconv.Itoa(queue))
	release := s.block()
	var answers [clients]reply
	var errs [clients]error
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			answers[i], errs[i] = s.try(context.Background(), "POST", "/v1/chat/completions", body(with(endless("Write."), obj{"max_tokens": 60})))
		})
	}
	s.eventually(func() bool { return finished(s.scrape(), "refused") == clients-queue }, "all but those that fit are refused")
	require.Equal(t, http.StatusOK, s.do("GET", "/health", "").Status, "being full is not being ill")
	require.Equal(t, queue, s.phases()["queued"])
	release()
	all.Wait()
	requireNoErrors(t, errs[:])
	var refusals []time.Duration
	for _, a := range answers {
		if a.Status == http.StatusOK {
			require.Equal(t, 60, usage(s.parse(a.Body), "completion_tokens"))
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, a.Status, "%s", a.Body)
		e := s.parse(a.Body)["error"].(obj)
		require.Equal(t, "server_overloaded", e["reason"])
		require.Contains(t, e["message"], "--max-num-queued-reqs")
		retryAfter(t, a.Header)
		refusals = append(refusals, a.Wall)
	}
	require.Len(t, refusals, clients-queue)
	slices.Sort(refusals)
	require.Less(t, refusals[len(refusals)/2], 100*time.Millisecond, "median")
	m := s.scrape()
	require.EqualValues(t, clients-queue, sum(m, "vllm:admission_rejections_total", `reason="max_num_queued_reqs"`))
	require.EqualValues(t, queue, finished(m, "length"))
	requireIdle(t, s)
}

// TestO50QueuedTokens: the other bound of the queue.
func TestO50QueuedTokens(t *testing.T) {
	s := roomyServer(t, "--max-num-seqs", "1", "--max-num-queued-tokens", "500")
	release := s.block()
	e := s.refused(http.StatusServiceUnavailable, "/v1/chat/completions", body(obj{"model": "understudy", "messages": user(strings.Repeat("word ", 600)), "max_tokens": 4}))
	require.Contains(t, e["message"], "--max-num-queued-tokens")
	waiting := make(chan reply, 1)
	go func() {
		r, _ := s.try(context.Background(), "POST", "/v1/chat/completions", body(obj{"model": "understudy", "messages": user("Hi."), "max_tokens": 4}))
		waiting <- r
	}()
	s.eventually(func() bool { return s.phases()["queued"] == 1 }, "a short one may wait")
	release()
	require.Equal(t, http.StatusOK, (<-waiting).Status)
	require.EqualValues(t, 1, sum(s.scrape(), "vllm:admission_rejections_total", `reason="max_num_queued_tokens"`))
}

// TestO50RetryAfterIsNear: the promise is about as long as the queue then takes.
func TestO50RetryAfterIsNear(t *testing.T) {
	const queue = 4
	s := roomyServer(t, "--max-num-seqs", "1", "--max-num-queued-reqs", strconv.Itoa(queue))
	job := body(with(endless("Write."), obj{"max_tokens": 600}))
	for range 3 { // the server learns its pace
		require.Equal(t, http.StatusOK, s.do("POST", "/v1/chat/completions", job).Status)
	}
	var all sync.WaitGroup
	var errs [queue + 1]error
	for i := range errs {
		all.Go(func() { _, errs[i] = s.try(context.Background(), "POST", "/v1/chat/completions", job) })
	}
	s.eventually(func() bool { return len(s.live()) == len(errs) }, "the queue is full")
	start := time.Now()
	over := s.do("POST", "/v1/chat/completions", job)
	require.Equal(t, http.StatusServiceUnavailable, over.Status)
	all.Wait()
	took := time.Since(start).Seconds()
	requireNoErrors(t, errs[:])
	t.Logf("Retry-After %d, the queue took %.1f s", retryAfter(t, over.Header), took)
	require.InDelta(t, took, retryAfter(t, over.Header), 1+took/2)
}

// patientAnswer is what clients/patient.mjs prints.
type patientAnswer struct {
	Text  string
	Tries []struct {
		At         float64 `json:"at_ms"`
		Status     int
		RetryAfter float64 `json:"retry_after"`
	}
}

// patient asks with the npm SDK, which retries by itself.
func (s *server) patient(key string) (a patientAnswer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "patient.mjs")
	cmd.Dir, cmd.Stderr = "clients", os.Stderr
	cmd.Env = append(os.Environ(), "TROUPE_URL="+s.URL, "TROUPE_KEY="+key)
	out, err := cmd.Output()
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(out, &a)
}

// requireRetried checks that the SDK was refused once, waited as long as it was told, and got through.
func requireRetried(t *testing.T, a patientAnswer, status int) {
	t.Helper()
	require.Contains(t, a.Text, "Paris")
	require.Len(t, a.Tries, 2, "%+v", a)
	require.Equal(t, status, a.Tries[0].Status)
	require.Equal(t, http.StatusOK, a.Tries[1].Status)
	require.GreaterOrEqual(t, a.Tries[0].RetryAfter, 1.0)
	require.Greater(t, a.Tries[1].At-a.Tries[0].At, 1000*a.Tries[0].RetryAfter-10, "it came back before its time")
}

// TestO50SDKRetries: the official SDK takes the server's hint, for a full queue and for a limit of its key.
func TestO50SDKRetries(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	require.NoError(t, os.WriteFile(keys, []byte(`keys:
  - {name: fast, key: sk-fast, requests_per_minute: 60}
  - {name: ops, key: sk-admin, admin: true}
`), 0o600))
	limited := serve(t, "--api-keys-file", keys)
	ask := body(obj{"model": "understudy", "prompt": "Hello", "max_tokens": 1})
	for asked := 0; ; asked++ { // a minute's worth may come at once, and what refills meanwhile
		require.Less(t, asked, 300)
		if r := limited.do("POST", "/v1/completions", ask, bearer("sk-fast")...); r.Status == http.StatusTooManyRequests {
			require.GreaterOrEqual(t, asked, 60)
			break
		}
	}
	emptied := time.Now()
	a, err := limited.patient("sk-fast")
	require.NoError(t, err)
	if a.Tries[0].Status == http.StatusOK { // the SDK took longer to start than a request to refill
		require.Greater(t, time.Since(emptied), time.Second)
	} else {
		requireRetried(t, a, http.StatusTooManyRequests)
	}

	full := roomyServer(t, "--max-num-seqs", "1", "--max-num-queued-tokens", "1")
	release := full.block()
	answered := make(chan patientAnswer, 1)
	go func() {
		a, _ := full.patient("none")
		answered <- a
	}()
	full.eventually(func() bool { return finished(full.scrape(), "refused") == 1 }, "the SDK is refused")
	release()
	requireRetried(t, <-answered, http.StatusServiceUnavailable)
}

// TestTokensPerMinute: a key that has used its tokens is told when there will be
// more, to the second, and there are; other keys never notice.
func TestTokensPerMinute(t *testing.T) {
	const perMinute = 600
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	require.NoError(t, os.WriteFile(keys, []byte(`keys:
  - {name: metered, key: sk-metered, tokens_per_minute: 600}
  - {name: twin, key: sk-twin, tokens_per_minute: 600}
  - {name: free, key: sk-free}
`), 0o600))
	s := serve(t, "--api-keys-file", keys)
	ask := func(key string, tokens int) reply {
		return s.do("POST", "/v1/completions", body(obj{"model": "understudy", "prompt": "Hello", "max_tokens": tokens, "ignore_eos": true}), bearer(key)...)
	}
	start := time.Now()
	all := ask("sk-metered", 610) // let in while there is any left
	require.Equal(t, http.StatusOK, all.Status, "%s", all.Body)
	used := usage(s.parse(all.Body), "total_tokens")
	for range 2 { // refusals cost nothing
		over := ask("sk-metered", 1)
		require.Equal(t, http.StatusTooManyRequests, over.Status, "%s", over.Body)
		require.Contains(t, s.parse(over.Body)["error"].(obj)["message"], "600 tokens per minute")
		latest := float64(used-perMinute+1) / (perMinute / 60)
		earliest := latest - time.Since(start).Seconds()
		wait := float64(retryAfter(t, over.Header))
		require.LessOrEqual(t, wait, math.Ceil(latest))
		require.GreaterOrEqual(t, wait, math.Ceil(earliest))
	}
	for _, key := range []string{"sk-twin", "sk-free"} {
		require.Equal(t, http.StatusOK, ask(key, 1).Status, "other keys have their own")
	}
	over := ask("sk-metered", 1)
	if over.Status == http.StatusTooManyRequests { // it may have refilled on a slow machine
		<-time.After(time.Duration(retryAfter(t, over.Header)) * time.Second)
	}
	require.Equal(t, http.StatusOK, ask("sk-metered", 1).Status, "the hint was too short")
}
