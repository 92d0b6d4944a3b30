package metrics

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokenBuckets(t *testing.T) {
	require.Equal(t, []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000}, tokenBuckets(2048))
	require.Equal(t, []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}, tokenBuckets(1000))
	require.Equal(t, []float64{1, 2, 5, 10, 20, 50, 100, 200, 500}, tokenBuckets(999))
	require.Equal(t, []float64{1}, tokenBuckets(1))
	require.Equal(t, []float64{1}, tokenBuckets(0))
	require.Equal(t, 100000.0, slices.Max(tokenBuckets(131072)))
}

func TestBucketSets(t *testing.T) {
	for name, set := range map[string]struct {
		buckets     []float64
		n           int
		first, last float64
	}{
		"TTFT": {bucketsTTFT, 22, 0.001, 2560},
		"ITL":  {bucketsITL, 19, 0.01, 80},
		"LAT":  {bucketsLatency, 21, 0.3, 7680},
		"STEP": {bucketsStep, 13, 1, 16384},
	} {
		require.Len(t, set.buckets, set.n, name)
		require.True(t, slices.IsSorted(set.buckets), name)
		require.Equal(t, set.first, set.buckets[0], name)
		require.Equal(t, set.last, set.buckets[set.n-1], name)
	}
}
