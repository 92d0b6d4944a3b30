package openai

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Times are written as strconv would write them.
func TestMicrosAreTheShortestDecimals(t *testing.T) {
	check := func(t require.TestingT, v float64) {
		want := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(want, ".") {
			want += ".0"
		}
		require.Equal(t, want, string(appendFloat(nil, v, 64)))
	}
	for _, v := range []float64{1e-6, -1e-6, 0.1, 0.3, 1, 10, 999999999.999999, 1e9, 1e9 + 1e-6, 123456789012, math.Pi, 1e-7, math.MaxFloat64,
		math.SmallestNonzeroFloat64, math.Nextafter(0.1, 1)} {
		check(t, v)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, float64(rapid.Int64Range(1, 1<<60).Draw(t, "nanoseconds"))/1e6)
		if v := rapid.Float64().Draw(t, "any"); v != 0 {
			check(t, v)
		}
	})
}
