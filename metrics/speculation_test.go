package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

func TestSpecLevels(t *testing.T) {
	for word, want := range map[string]metrics.SpecLevel{
		"none": metrics.SpecNone, "summary": metrics.SpecSummary, "detailed": metrics.SpecDetailed,
	} {
		level, ok := metrics.ParseSpecLevel(word)
		require.True(t, ok)
		require.Equal(t, want, level)
	}
	_, ok := metrics.ParseSpecLevel("all")
	require.False(t, ok)
}

func TestSpecRecorderWithoutSteps(t *testing.T) {
	var none *metrics.SpecRecorder
	none.Observe(3, 1)
	require.Nil(t, none.Result())
	require.Nil(t, metrics.NewSpecRecorder(metrics.SpecNone, 3))

	r := metrics.NewSpecRecorder(metrics.SpecDetailed, 2)
	r.Observe(0, 0) // a step without drafts
	require.Equal(t, &infer.SpeculativeDecoding{
		NumSpecTokens: 2, AcceptanceHistogram: []int{0, 0, 0}, HistogramByDraftLength: [][]int{nil, nil, nil},
		MeanAcceptanceLength: 1, Detailed: true,
	}, r.Result())
}

// The sums of the specification hold: the histogram adds up to the steps, and
// weighted to the accepted tokens; the rows by draft length add up to it.
func TestSpecRecorderAddsUp(t *testing.T) {
	r := metrics.NewSpecRecorder(metrics.SpecDetailed, 3)
	for _, step := range [][2]int{{3, 3}, {3, 0}, {2, 1}, {3, 2}, {1, 1}, {3, 0}} {
		r.Observe(step[0], step[1])
	}
	steps, drafted, accepted := 6.0, 15.0, 7.0
	require.Equal(t, &infer.SpeculativeDecoding{
		NumSpecTokens: 3, NumSpecSteps: 6, NumDraftTokens: 15, NumAcceptedDraftTokens: 7,
		AcceptanceHistogram:    []int{2, 2, 1, 1},
		HistogramByDraftLength: [][]int{nil, {0, 1}, {0, 1, 0}, {2, 0, 1, 1}},
		MeanAcceptanceLength:   1 + accepted/steps, DraftAcceptanceRate: accepted / drafted,
		Detailed: true, PerStepAccepted: []int{3, 0, 1, 2, 1, 0}, PerStepDrafted: []int{3, 3, 2, 3, 1, 3},
	}, r.Result())
}
