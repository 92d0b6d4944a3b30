package metrics_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/metrics"
)

func TestAccountOfADisturbedSequence(t *testing.T) {
	var a metrics.Account
	step := func(s metrics.StepShare) metrics.Lapse {
		s.Scheduled = 105
		if s.NumStepTokens == 0 {
			s.NumStepTokens = s.NumTokens
		}
		a.Step(&s)
		return a.Take()
	}
	// A prompt of six tokens in two chunks, between which others had a step.
	require.Equal(t, metrics.Lapse{Prefill: 15}, step(metrics.StepShare{Began: 90, Ended: 120, NumTokens: 4}))
	require.Equal(t, metrics.Lapse{StalledByPrefill: 10, Prefill: 5},
		step(metrics.StepShare{Began: 130, Ended: 135, StartPos: 4, NumTokens: 2, NumOtherPromptTokens: 2, NumStepTokens: 4}))
	// Decodes: alone, and with three tokens of a prompt beside one draft.
	require.Zero(t, step(metrics.StepShare{Began: 135, Ended: 140, StartPos: 6, NumTokens: 1, HasOutput: true}))
	require.Equal(t, metrics.Lapse{StalledByPrefill: 6}, step(metrics.StepShare{Began: 140, Ended: 150, StartPos: 7, NumTokens: 1, HasOutput: true,
		NumOtherPromptTokens: 3, NumStepTokens: 5}))
	// Its mask is late, twice: its last token is computed again.
	late := metrics.StepShare{Began: 150, Ended: 155, StartPos: 8, NumTokens: 1, HasOutput: true, Deferred: true}
	require.Equal(t, metrics.Lapse{Masking: 5}, step(late))
	late.Began, late.Ended = 155, 160
	require.Equal(t, metrics.Lapse{Masking: 5}, step(late))
	late.Began, late.Ended, late.Deferred = 160, 164, false
	require.Zero(t, step(late))
	// It loses its blocks, waits for a step of others, and is computed again but for
	// four tokens that the cache has.
	require.Equal(t, metrics.Lapse{Preempted: 36, NumRecomputedTokens: 5, NumPreemptions: 1}, step(metrics.StepShare{Began: 180, Ended: 200, NumPreemptions: 1,
		StartPos: 4, NumTokens: 6, HasOutput: true, NumOtherPromptTokens: 3, NumStepTokens: 9}))
	require.Zero(t, step(metrics.StepShare{Began: 200, Ended: 210, NumPreemptions: 1, StartPos: 10, NumTokens: 1, HasOutput: true}))
	// Its batcher dies. The next one computes it again in two steps, with a
	// preemption between them.
	a.Interrupt()
	require.Equal(t, metrics.Lapse{Recovering: 40, NumRecomputedTokens: 6}, step(metrics.StepShare{Began: 240, Ended: 250, NumTokens: 6, HasOutput: true}))
	require.Equal(t, metrics.Lapse{Recovering: 30, NumRecomputedTokens: 11, NumPreemptions: 1}, step(metrics.StepShare{Began: 260, Ended: 280, NumPreemptions: 1, NumTokens: 12, HasOutput: true}))
	require.Zero(t, step(metrics.StepShare{Began: 280, Ended: 290, NumPreemptions: 1, StartPos: 12, NumTokens: 1, HasOutput: true}))
}

// A prompt whose first mask is late has been computed all the same.
func TestAccountOfALateFirstMask(t *testing.T) {
	var a metrics.Account
	s := metrics.StepShare{Scheduled: 100, Began: 90, Ended: 150, NumTokens: 8, NumStepTokens: 8, Deferred: true}
	a.Step(&s)
	require.Equal(t, metrics.Lapse{Prefill: 50}, a.Take())
	s = metrics.StepShare{Scheduled: 100, Began: 150, Ended: 160, StartPos: 7, NumTokens: 1, NumStepTokens: 1, Deferred: true}
	a.Step(&s)
	require.Equal(t, metrics.Lapse{Masking: 10}, a.Take())
	s.Began, s.Ended, s.Deferred = 160, 163, false
	a.Step(&s)
	require.Equal(t, metrics.Lapse{Prefill: 3}, a.Take())
}

// Whatever is booked, no part is below 0, and none of the time is there twice.
func TestAccountNeverExceedsTheClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var a metrics.Account
		var sum metrics.Lapse
		scheduled := 1 + rng.Int64N(1e6)
		now := scheduled - rng.Int64N(scheduled)
		preemptions := 0
		for range rng.IntN(30) {
			began := now
			now = max(now, scheduled) + rng.Int64N(1e6)
			if rng.IntN(4) == 0 {
				continue // a step of others
			}
			switch rng.IntN(8) {
			case 0:
				preemptions++
			case 1:
				a.Interrupt()
				preemptions = 0
			}
			others := rng.IntN(20)
			n := 1 + rng.IntN(9)
			a.Step(&metrics.StepShare{Scheduled: scheduled, Began: began, Ended: now, NumPreemptions: preemptions, StartPos: rng.IntN(30), NumTokens: n,
				HasOutput: rng.IntN(2) == 0, Deferred: rng.IntN(5) == 0, NumOtherPromptTokens: others, NumStepTokens: others + n})
			l := a.Take()
			for _, part := range []int64{l.Prefill, l.StalledByPrefill, l.Masking, l.Preempted, l.Recovering} {
				require.GreaterOrEqual(t, part, int64(0))
			}
			sum.Add(l)
			require.LessOrEqual(t, sum.Total(), now-scheduled)
		}
	}
}

func TestGaps(t *testing.T) {
	for _, g := range []*metrics.Gaps{nil, {}} {
		require.Zero(t, g.Num())
		require.Zero(t, g.Max())
		require.Zero(t, g.P99())
	}
	var g metrics.Gaps
	g.Observe(77_777)
	require.EqualValues(t, 77_777, g.P99(), "of few gaps the longest")

	rng := rand.New(rand.NewPCG(3, 4))
	for _, longest := range []int64{1 << 9, 1 << 12, 1e6, 1e9, 1e12} {
		g = metrics.Gaps{}
		all := make([]int64, 1000)
		for i := range all {
			all[i] = rng.Int64N(longest)
			g.Observe(all[i])
		}
		slices.Sort(all)
		exact := all[989]
		require.Equal(t, len(all), g.Num())
		require.Equal(t, all[len(all)-1], g.Max())
		require.GreaterOrEqual(t, g.P99(), exact)
		require.LessOrEqual(t, g.P99(), max(exact+exact/8, 1<<10), "longest %d", longest)
	}
}
