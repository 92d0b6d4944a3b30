package computetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
)

// testFork uses forks at the same time over one matrix and requires the bits of
// the backend they come from, also after another fork was closed.
func testFork(t *testing.T, b *suite) {
	const rows, cols, n = 70, 33, 5
	r := newRand(t)
	raw, _ := tensor(compute.BF16, rows, cols, uniform(r, rows*cols, 1))
	m, err := b.NewMatrix(raw)
	require.NoError(t, err)
	x := uniform(r, n*cols, 1)
	want := linearOf(t, b, m, x, n)

	forks := make([]compute.Backend, 4)
	got := make([][]float32, len(forks))
	for i := range forks {
		forks[i], err = b.Fork()
		require.NoError(t, err)
	}
	require.NoError(t, forks[0].Close())
	require.NoError(t, forks[0].Close())
	var running sync.WaitGroup
	for i, f := range forks[1:] {
		src, dst := filled(t, f, 0, cols, x), filled(t, f, n, rows, nil)
		running.Go(func() {
			for range 50 {
				f.Linear(dst, src, m, n)
			}
			got[i+1] = append(got[i+1], f.Host(dst, 0, n)...)
		})
	}
	for range 50 {
		requireSameBits(t, want, linearOf(t, b, m, x, n), "beside forks")
	}
	running.Wait()
	for i, f := range forks[1:] {
		requireSameBits(t, want, got[i+1], "fork ", i+1)
		made, err := f.NewMatrix(raw)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		requireSameBits(t, want, linearOf(t, b, made, x, n), "a matrix outlives the fork that made it")
	}
}

// linearOf returns x · mᵀ for n rows.
func linearOf(t *testing.T, b compute.Backend, m compute.Matrix, x []float32, n int) []float32 {
	src, dst := filled(t, b, 0, m.Cols(), x), filled(t, b, n, m.Rows(), nil)
	defer src.Free()
	defer dst.Free()
	b.Linear(dst, src, m, n)
	return result(t, b, dst, n)
}
