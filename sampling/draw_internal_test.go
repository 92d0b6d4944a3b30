package sampling

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A token wins if it is behind by no more than its noise. The quick test may let
// losers through, though few, but must not rule out a winner.
func TestQuickTestKeepsWinners(t *testing.T) {
	const steps = 1 << 16
	behind := []float64{0, 0.01, 0.5, 1, 1.5, 3, 10, 36}
	passed := 0
	for i := range steps {
		u := (float64(i) + 0.5) / steps
		for _, b := range behind {
			require.False(t, loses(u, gumbel(u)-b), "u=%v: a winner by %v", u, b)
		}
		if !loses(u, 20) {
			passed++
		}
	}
	for _, u := range []float64{0x1p-53, 1 - 0x1p-53} { // the ends of what uniform gives
		require.False(t, loses(u, gumbel(u)))
	}
	require.Less(t, passed, steps/200, "tokens that are behind by 20 and need a logarithm")
	require.True(t, loses(1-0x1p-53, math.Inf(1)), "a masked token")
}
