package metrics_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// at turns seconds of the published vectors into a stamp.
func at(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

func known(v float64) infer.NullFloat { return infer.NullFloat{Value: v, Valid: true} }

var null = infer.NullFloat{}

func TestPerRequest(t *testing.T) {
	whole := infer.Stamps{Queued: at(10), Scheduled: at(10.2), FirstToken: at(10.5), LastToken: at(11)}
	tests := []struct {
		name                                     string
		stamps                                   infer.Stamps
		numTokens                                int
		ttft, generation, queue, meanITL, perSec infer.NullFloat
	}{
		{"six tokens", whole, 6, known(300), known(500), known(200), known(100), known(7.5)},
		{
			"ten tokens", infer.Stamps{Queued: at(1), Scheduled: at(1.5), FirstToken: at(2), LastToken: at(3)}, 10,
			known(500), known(1000), known(500), known(1000.0 / 9), known(10 / 1.5),
		},
		{"no token counted", whole, 0, known(300), known(500), known(200), null, known(0)},
		{
			"one token", infer.Stamps{Queued: at(10), Scheduled: at(10.2), FirstToken: at(10.5), LastToken: at(10.5)}, 1,
			known(300), known(0), known(200), null, known(1 / 0.3),
		},
		{"nothing known", infer.Stamps{}, 5, null, null, null, null, null},
		{"only queued", infer.Stamps{Queued: at(1)}, 0, null, null, null, null, null},
		{"ended before the first token", infer.Stamps{Queued: at(1), Scheduled: at(2)}, 0, null, null, known(1000), null, null},
		{
			"queue time unknown", infer.Stamps{Scheduled: at(2), FirstToken: at(3), LastToken: at(4)}, 2,
			known(1000), known(1000), null, known(1000), known(1),
		},
		{
			"first token unknown", infer.Stamps{Queued: at(1), Scheduled: at(2), LastToken: at(4)}, 2,
			null, null, known(1000), null, known(1),
		},
		{
			"scheduled unknown", infer.Stamps{Queued: at(1), FirstToken: at(3), LastToken: at(4)}, 3,
			null, known(1000), null, known(500), null,
		},
		{
			"no time passed", infer.Stamps{Queued: at(1), Scheduled: at(1), FirstToken: at(1), LastToken: at(1)}, 1,
			known(0), known(0), known(0), null, null,
		},
		{
			"below a millisecond", infer.Stamps{Queued: 1, Scheduled: 251, FirstToken: 1251, LastToken: 3251}, 3,
			known(0.001), known(0.002), known(0.00025), known(0.001), known(1e6),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := metrics.PerRequest(tt.stamps, tt.numTokens)
			requireNumber(t, tt.ttft, m.TimeToFirstTokenMs)
			requireNumber(t, tt.generation, m.GenerationTimeMs)
			requireNumber(t, tt.queue, m.QueueTimeMs)
			requireNumber(t, tt.meanITL, m.MeanITLMs)
			requireNumber(t, tt.perSec, m.TokensPerSecond)
		})
	}
}

func requireNumber(t *testing.T, want, got infer.NullFloat) {
	t.Helper()
	require.Equal(t, want.Valid, got.Valid)
	require.InDelta(t, want.Value, got.Value, 1e-9*max(1, math.Abs(want.Value)))
}

// TestPerRequestIdentities checks that the five fields of any possible sequence
// agree with each other, are finite and not negative.
func TestPerRequestIdentities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.Int64Range(0, 3600*1e9)
		s := infer.Stamps{Queued: 1 + gap.Draw(t, "queued")}
		s.Scheduled = s.Queued + gap.Draw(t, "queue")
		s.FirstToken = s.Scheduled + gap.Draw(t, "prefill")
		s.LastToken = s.FirstToken + gap.Draw(t, "decode")
		numTokens := rapid.IntRange(1, 1<<20).Draw(t, "tokens")
		m := metrics.PerRequest(s, numTokens)

		for _, f := range []infer.NullFloat{m.TimeToFirstTokenMs, m.GenerationTimeMs, m.QueueTimeMs, m.MeanITLMs, m.TokensPerSecond} {
			require.False(t, math.IsNaN(f.Value) || math.IsInf(f.Value, 0) || f.Value < 0)
		}
		inference := m.TimeToFirstTokenMs.Value + m.GenerationTimeMs.Value
		requireClose(t, float64(s.LastToken-s.Scheduled)/1e6, inference)
		require.Equal(t, numTokens > 1, m.MeanITLMs.Valid)
		if numTokens > 1 {
			requireClose(t, m.GenerationTimeMs.Value, m.MeanITLMs.Value*float64(numTokens-1))
		}
		require.Equal(t, inference > 0, m.TokensPerSecond.Valid)
		if inference > 0 {
			requireClose(t, 1000*float64(numTokens)/inference, m.TokensPerSecond.Value)
		}
	})
}

func requireClose(t require.TestingT, want, got float64) {
	require.InDelta(t, want, got, 1e-6*math.Abs(want))
}
