//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestO63KilledBatchers: 64 streams live through twenty deaths of one of two batchers.
func TestO63KilledBatchers(t *testing.T) {
	const streams, tokens, kills = 64, 900, 20
	s := serve(t, "--data-parallel-size", "2", "--enable-fault-injection", "--admin-api-key", adminKey,
		"--enable-per-request-metrics", "--disable-uvicorn-access-log")
	quiet, errs := s.stories(streams, tokens)
	requireNoErrors(t, errs)

	runs := s.restless(streams, tokens)
	s.eventually(func() bool { return sum(s.scrape(), "vllm:num_requests_running") == streams }, "all run")
	before := s.scrape()
	for i := range kills {
		s.kill([]string{"panic", "error"}[i%2], -1) // whichever comes first: streams move to the survivor
	}
	requireUnderway(t, runs)
	var now []*sse
	for run := range runs {
		requireNoErrors(t, run.errs)
		requireSame(t, quiet, run.streams, tokens)
		now = append(now, run.streams...)
	}

	after := s.scrape()
	require.EqualValues(t, kills, sum(after, "troupe:batcher_restarts_total"))
	require.Positive(t, sum(after, "troupe:sequence_resubmissions_total"))
	require.EqualValues(t, (1+laps)*streams*tokens, sum(after, "vllm:generation_tokens_total"), "no token twice, none lost")
	require.EqualValues(t, (1+laps)*streams, sum(after, "vllm:request_success_total", `finished_reason="length"`))
	require.EqualValues(t, laps*streams, sum(after, "vllm:request_queue_time_seconds_count")-sum(before, "vllm:request_queue_time_seconds_count"))
	for i, e := range now {
		requireIdentities(t, readTimes(t, e.last()), tokens)
		require.LessOrEqual(t, readTimes(t, e.last()).total(), e.Wall.Seconds()*1000, "story %d", i)
	}
	requireIdle(t, s)
}

// TestFailuresInQuickSuccession: each failure comes as soon as the batcher of the last one is replaced, so that
// many hit streams that have not got a token since. None is lost.
func TestFailuresInQuickSuccession(t *testing.T) {
	const streams, tokens, kills = 30, 600, 10
	for _, batchers := range []string{"1", "2"} {
		s := serve(t, "--data-parallel-size", batchers, "--enable-fault-injection", "--admin-api-key", adminKey, "--disable-uvicorn-access-log")
		quiet, errs := s.stories(streams, tokens)
		requireNoErrors(t, errs)
		runs := s.restless(streams, tokens)
		s.eventually(func() bool { return sum(s.scrape(), "vllm:num_requests_running") == streams }, "all run")
		for range kills {
			before := s.restarts()
			s.fault("panic", -1)
			s.eventually(func() bool { return s.restarts() > before }, "a failed batcher is replaced")
		}
		requireUnderway(t, runs)
		for run := range runs {
			requireNoErrors(t, run.errs)
			requireSame(t, quiet, run.streams, tokens)
		}
		require.Equal(t, kills, s.restarts())
		requireIdle(t, s)
	}
}
