package metrics_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/metrics"
)

// logHarness drives a StatsLogger by hand: every tick is 10 s after the last.
type logHarness struct {
	engine *metrics.Engine
	logger *metrics.StatsLogger
	ticks  chan time.Time
	lines  chan string
	now    int64 // changed while the logger waits for a tick only
}

func newLogHarness(t *testing.T) *logHarness {
	h := &logHarness{ticks: make(chan time.Time), lines: make(chan string, 1), now: 1}
	h.engine, _ = newEngine(t)
	h.logger = metrics.StartStatsLogger(metrics.StatsLoggerOptions{
		Engine: h.engine, Ticks: h.ticks, Now: func() int64 { return h.now },
		Log: func(line string) { h.lines <- line },
	})
	return h
}

// tick lets 10 s pass and waits until the logger has looked at them.
func (h *logHarness) tick() {
	h.now += 10e9
	h.ticks <- time.Time{}
	synctest.Wait()
}

func TestStatsLoggerLine(t *testing.T) { synctest.Test(t, testStatsLoggerLine) }

func testStatsLoggerLine(t *testing.T) {
	h := newLogHarness(t)
	h.engine.ObservePrompt(123, 32)
	h.engine.ObserveStep(metrics.StepStats{
		NumRunning: 4, NumWaiting: 1, KVCacheUsage: 0.646,
		PrefixCacheQueries: 400, PrefixCacheHits: 96,
	})
	h.engine.ObserveGenerationTokens(137)
	h.tick()
	require.Equal(t, "Engine 000: Avg prompt throughput: 9.1 tokens/s, Avg generation throughput: 13.7 tokens/s, "+
		"Running: 4 reqs, Waiting: 1 reqs, GPU KV cache usage: 64.6%, Prefix cache hit rate: 24.0%", <-h.lines)
	h.logger.Stop()
}

func TestStatsLoggerOptionalParts(t *testing.T) { synctest.Test(t, testStatsLoggerOptionalParts) }

func testStatsLoggerOptionalParts(t *testing.T) {
	h := newLogHarness(t)
	h.engine.ObserveStep(metrics.StepStats{NumWaiting: 1, NumWaitingDeferred: 2, NumPreemptions: 3})
	h.engine.ObserveGenerationTokens(1)
	h.tick()
	require.Equal(t, "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.1 tokens/s, "+
		"Running: 0 reqs, Waiting: 3 reqs, Deferred: 2 reqs, Preemptions: 3, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%", <-h.lines)
	h.logger.Stop()
}

func TestStatsLoggerFallsSilentWhenIdle(t *testing.T) {
	synctest.Test(t, testStatsLoggerFallsSilentWhenIdle)
}

func testStatsLoggerFallsSilentWhenIdle(t *testing.T) {
	h := newLogHarness(t)
	for range 3 {
		h.tick() // nothing has happened yet
	}
	h.engine.ObserveGenerationTokens(10)
	h.tick()
	require.Contains(t, <-h.lines, "Avg generation throughput: 1.0 tokens/s")
	h.tick()
	require.Contains(t, <-h.lines, "Avg generation throughput: 0.0 tokens/s")
	for range 3 {
		h.tick()
	}
	h.engine.ObserveGenerationTokens(20)
	h.tick()
	require.Contains(t, <-h.lines, "Avg generation throughput: 2.0 tokens/s")
	h.logger.Stop()
	require.Empty(t, h.lines)
}

func TestStatsLoggerHitRateLooksBackOnRecentLookups(t *testing.T) {
	synctest.Test(t, testStatsLoggerHitRateLooksBackOnRecentLookups)
}

func testStatsLoggerHitRateLooksBackOnRecentLookups(t *testing.T) {
	h := newLogHarness(t)
	for range 1000 {
		h.engine.ObserveStep(metrics.StepStats{PrefixCacheQueries: 10, PrefixCacheHits: 0})
	}
	for range 500 {
		h.engine.ObserveStep(metrics.StepStats{PrefixCacheQueries: 10, PrefixCacheHits: 8})
		h.engine.ObserveStep(metrics.StepStats{NumGenerationTokens: 1}) // looked up nothing: counts for nothing
	}
	h.engine.ObserveGenerationTokens(1) // an idle engine logs nothing
	h.tick()
	require.Contains(t, <-h.lines, "Prefix cache hit rate: 40.0%")
	h.logger.Stop()
}

func TestStatsLoggerOfNoEngine(t *testing.T) { synctest.Test(t, testStatsLoggerOfNoEngine) }

func testStatsLoggerOfNoEngine(t *testing.T) {
	l := metrics.StartStatsLogger(metrics.StatsLoggerOptions{Log: func(string) { t.Error("logged") }})
	l.Stop()
}

func TestStatsLoggerOwnTicker(t *testing.T) { synctest.Test(t, testStatsLoggerOwnTicker) }

// testStatsLoggerOwnTicker reads two lines; the bubble's clock jumps to each tick.
func testStatsLoggerOwnTicker(t *testing.T) {
	start := time.Now()
	engine, _ := newEngine(t)
	lines := make(chan string)
	engine.ObserveGenerationTokens(5) // before the logger: no part of its first window
	l := metrics.StartStatsLogger(metrics.StatsLoggerOptions{
		Engine: engine, EngineIndex: 7, Interval: 2 * time.Second,
		Now: func() int64 { return int64(time.Since(start)) + 1 },
		Log: func(line string) { lines <- line },
	})
	engine.ObserveGenerationTokens(100)
	require.Contains(t, <-lines, "Engine 007: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 50.0 tokens/s, ")
	require.Equal(t, 2*time.Second, time.Since(start))
	require.Contains(t, <-lines, "Avg generation throughput: 0.0 tokens/s")
	l.Stop()
}
