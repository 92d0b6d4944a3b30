package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// A histogram that takes samples by the run shows what the client library's shows.
func TestRunHistogramEqualsTheLibrarys(t *testing.T) {
	labels := prometheus.Labels{"engine": "0"}
	bounds := []float64{0.01, 0.025, 1}
	ours, theirs := prometheus.NewRegistry(), prometheus.NewRegistry()
	run := factory{reg: ours, labels: labels}.runHistogram("h", "Help.", bounds)
	library := factory{reg: theirs, labels: labels}.histogram("h", "Help.", bounds)
	for _, samples := range [][]int64{nil, {0}, {10e6, 10e6 + 1, 24e6}, {25e6, 999e6, 1e9, 2e9, -1}} {
		run.observe(samples)
		for _, ns := range samples {
			library.Observe(seconds(ns))
		}
		got, err := ours.Gather()
		require.NoError(t, err)
		want, err := theirs.Gather()
		require.NoError(t, err)
		got[0].Metric[0].Histogram.CreatedTimestamp, want[0].Metric[0].Histogram.CreatedTimestamp = nil, nil
		require.Equal(t, want[0].String(), got[0].String())
	}
}
