package actors_test

import (
	"context"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/metrics"
)

const benchStreams = 256

// BenchmarkEngine runs 256 streams over a runner whose tokens cost nothing. One
// operation is one token on its way from the runner to the reader. Wanted: the
// same allocations per token with metrics as without.
func BenchmarkEngine(b *testing.B) {
	b.Run("metrics=off", func(b *testing.B) { benchEngine(b, func(*actors.Config) {}) })
	b.Run("metrics=per-request", func(b *testing.B) {
		benchEngine(b, func(c *actors.Config) { c.PerRequestMetrics = true })
	})
	b.Run("metrics=all", func(b *testing.B) {
		benchEngine(b, func(c *actors.Config) {
			c.PerRequestMetrics, c.PerChoiceMetrics, c.MetricsBreakdown = true, true, true
			c.Metrics = []*metrics.Engine{metrics.NewEngine(prometheus.NewRegistry(), metrics.EngineOptions{ModelName: "null", Engine: "0", MaxModelLen: 1 << 20})}
		})
	})
}

// nullEngine starts an engine whose tokens cost nothing; it is closed with the test.
func nullEngine(t testing.TB, change func(*actors.Config)) *actors.Engine {
	t.Helper()
	const maxModelLen, blockSize = 1 << 24, 1 << 12
	c := actors.Config{
		Tokenizer: testkit.Tokenizer(), Scheduler: testkit.SchedulerConfig(), Model: testkit.Model(),
		NewRunner: func(int) (infer.Runner, error) {
			return &testkit.NullRunner{NumBlocks: maxModelLen / blockSize * 4, BlockSize: blockSize, MaxModelLen: maxModelLen}, nil
		},
	}
	c.Model.MaxModelLen, c.Scheduler.MaxModelLen = maxModelLen, maxModelLen
	c.Scheduler.MaxNumSeqs, c.Scheduler.MaxNumBatchedTokens = benchStreams, 1<<14
	change(&c)
	e, err := actors.NewEngine(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func benchEngine(b *testing.B, change func(*actors.Config)) {
	e := nullEngine(b, change)
	perStream := b.N/benchStreams + 1
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range benchStreams {
		req := testkit.Completion("hello", perStream)
		req.Sampling.IgnoreEOS = true
		stream, err := e.Generate(context.Background(), req)
		require.NoError(b, err)
		wg.Go(func() { drain(stream) })
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// drain reads a stream as a writer does that keeps nothing.
func drain(s infer.Stream) {
	var events []infer.Event
	for range s.Ready() {
		events = s.Drain(events[:0])
		if n := len(events); n > 0 && events[n-1].Final != nil {
			return
		}
	}
}
