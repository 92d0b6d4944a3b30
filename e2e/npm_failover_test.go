//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// npmAnswer is what a stream of the npm SDK read.
type npmAnswer struct {
	Text, Finish, Error string
	Tokens, Chunks      int
}

// npmCrowd streams answers of the npm openai SDK, so many at a time.
func (s *server) npmCrowd(ctx context.Context, streams, tokens int) ([]npmAnswer, error) {
	cmd := exec.CommandContext(ctx, "node", "crowd.mjs", fmt.Sprint(streams), fmt.Sprint(tokens))
	cmd.Dir, cmd.Stderr = "clients", os.Stderr
	cmd.Env = append(os.Environ(), "TROUPE_URL="+s.URL)
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var all []npmAnswer
	return all, json.Unmarshal(out, &all)
}

// probe asks short questions until ctx ends, and returns what was wrong with an answer.
func (s *server) probe(ctx context.Context) (asked int, err error) {
	question := body(obj{"model": "understudy", "messages": user("What is the capital of France?"), "temperature": 0})
	for ; ctx.Err() == nil; asked++ {
		r, err := s.try(context.Background(), "POST", "/v1/chat/completions", question)
		if err != nil {
			return asked, err
		}
		var o obj
		if err := json.Unmarshal(r.Body, &o); err != nil || r.Status != http.StatusOK || content(o, 0) != "The capital of France is Paris." {
			return asked, &statusError{r.Status, string(r.Body)}
		}
	}
	return asked, nil
}

// TestNpmStreamsOutliveBatchers: the SDK's streams notice nothing of twenty deaths
// of one of two batchers, and nor do those who come meanwhile.
func TestNpmStreamsOutliveBatchers(t *testing.T) {
	const streams, tokens, kills = 64, 950, 20
	s := serve(t, "--data-parallel-size", "2", "--enable-fault-injection", "--admin-api-key", adminKey, "--disable-uvicorn-access-log")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	quiet, err := s.npmCrowd(ctx, streams, tokens)
	require.NoError(t, err)

	var now []npmAnswer
	var crowdErr, probeErr error
	asked := 0
	crowd, probing := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(crowd)
		for range laps {
			answers, err := s.npmCrowd(ctx, streams, tokens)
			now, crowdErr = append(now, answers...), errors.Join(crowdErr, err)
		}
	}()
	s.eventually(func() bool { return s.phases()["decode"] == streams }, "all run")
	until, stop := context.WithCancel(ctx)
	go func() {
		defer close(probing)
		asked, probeErr = s.probe(until)
	}()
	for i := range kills {
		s.kill([]string{"panic", "error"}[i%2], -1)
	}
	select {
	case <-crowd:
		require.Fail(t, "the streams were over before the last failure")
	default:
	}
	stop()
	<-probing
	<-crowd
	require.NoError(t, crowdErr)
	require.NoError(t, probeErr, "a request that came meanwhile")
	require.Greater(t, asked, kills)
	require.Len(t, now, laps*streams)
	for i, a := range now {
		want := quiet[i%streams]
		require.Empty(t, want.Error)
		require.Equal(t, "length", want.Finish)
		require.Equal(t, tokens, want.Tokens)
		a.Chunks = want.Chunks // pieces may come together
		require.Equal(t, want, a, "story %d", i)
	}
	require.EqualValues(t, kills, s.restarts())
	requireIdle(t, s)
}

// TestO63QueuedAreMoved: those who only wait when a batcher dies never know.
func TestO63QueuedAreMoved(t *testing.T) {
	const streams, tokens = 12, 200
	s := serve(t, "--data-parallel-size", "2", "--max-num-seqs", "2", "--enable-fault-injection", "--admin-api-key", adminKey,
		"--enable-per-request-metrics", "--disable-uvicorn-access-log")
	quiet, errs := s.stories(streams, tokens)
	requireNoErrors(t, errs)
	var now []*sse
	done := make(chan struct{})
	go func() {
		defer close(done)
		now, errs = s.stories(streams, tokens)
	}()
	s.eventually(func() bool { p := s.phases(); return p["decode"] == 4 && p["queued"] == streams-4 }, "four run, the others wait")
	for batcher := range 2 {
		before := s.restarts()
		s.fault("panic", batcher)
		s.eventually(func() bool { return s.restarts() > before }, "a failed batcher is replaced")
		reached := map[string]int{}
		for _, r := range s.live() {
			if r.phase == "decode" {
				reached[r.id] = r.tokens + 3
			}
		}
		s.eventually(func() bool {
			return !slices.ContainsFunc(s.live(), func(r liveRequest) bool { return r.tokens < reached[r.id] })
		}, "those that ran go on")
	}
	<-done
	requireNoErrors(t, errs)
	requireSame(t, quiet, now, tokens)
	m := s.scrape()
	require.EqualValues(t, 2*streams, sum(m, "vllm:request_queue_time_seconds_count"), "each has left the queue once")
	require.EqualValues(t, 2*streams, finished(m, "length"))
	require.EqualValues(t, 2*streams*tokens, sum(m, "vllm:generation_tokens_total"))
	requireIdle(t, s)
}
