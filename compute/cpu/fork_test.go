package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
)

// TestForksShareMatrices counts memory: one copy of the weights for all forks,
// given back by the last to be closed, and all else by each.
func TestForksShareMatrices(t *testing.T) {
	first := newBackend(t, cpu.Options{Threads: 2})
	raw := compute.RawTensor{Name: "w", DType: compute.F32, Rows: 16, Cols: 8, Data: make([]byte, 16*8*4)}
	_, err := first.NewMatrix(raw)
	require.NoError(t, err)
	_, weights := first.Mapped()
	require.Positive(t, weights)

	var forks []*cpu.Backend
	for range 3 {
		f, err := first.Fork()
		require.NoError(t, err)
		fork := f.(*cpu.Backend)
		_, err = fork.NewBuffer(3, 5)
		require.NoError(t, err)
		own, shared := fork.Mapped()
		require.EqualValues(t, 3*5*4, own)
		require.Equal(t, weights, shared)
		require.Equal(t, first.Describe(), fork.Describe())
		forks = append(forks, fork)
	}
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second Close leaves once only")
	_, err = first.Fork()
	require.ErrorContains(t, err, "closed")
	for _, f := range forks {
		_, shared := f.Mapped()
		require.Equal(t, weights, shared)
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		own, _ := f.Mapped()
		require.Zero(t, own)
	}
	_, shared := first.Mapped()
	require.Zero(t, shared)
}
