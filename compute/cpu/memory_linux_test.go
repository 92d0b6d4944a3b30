package cpu_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
)

// residentBytes reads the process's resident memory.
func residentBytes(t *testing.T) int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var size, resident int64
	_, err = fmt.Sscan(string(raw), &size, &resident)
	require.NoError(t, err)
	return resident * int64(os.Getpagesize())
}

// TestCacheTakesMemoryAsItIsUsed makes a cache of a gigabyte and uses a little.
func TestCacheTakesMemoryAsItIsUsed(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 1})
	d := newDecoder(t, b, small, 16, 1)
	before := residentBytes(t)
	spec := compute.KVSpec{NumLayers: 6, NumBlocks: 1 << 14, BlockSize: 16, NumKVHeads: 3, HeadDim: 32}
	require.EqualValues(t, 6*(1<<14)*16*3*32*2*4, spec.Bytes())
	kv, err := b.NewKVCache(spec)
	require.NoError(t, err)
	batch, _ := uniformBatch(1, 16, 16)
	for layer := range 6 {
		b.RopeStore(d.qkvBuf, d.spec, d.rope, kv, layer, batch)
	}
	require.Less(t, residentBytes(t)-before, int64(64<<20))
	kv.Free()
}

// TestPrefaultedCacheIsReal makes all of a cache real, and no more.
func TestPrefaultedCacheIsReal(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 2})
	spec := compute.KVSpec{NumLayers: 3, NumBlocks: 1 << 10, BlockSize: 16, NumKVHeads: 3, HeadDim: 32, Prefault: true}
	before := residentBytes(t)
	kv, err := b.NewKVCache(spec)
	require.NoError(t, err)
	require.Equal(t, spec, kv.Spec())
	require.InDelta(t, spec.Bytes(), residentBytes(t)-before, 8<<20)
	kv.Free()
	require.InDelta(t, 0, residentBytes(t)-before, 8<<20)
}

// TestTruncatedFileIsAnError cuts a mapped weight file short before it is read.
func TestTruncatedFileIsAnError(t *testing.T) {
	const rows, cols = 256, 64
	f, err := os.CreateTemp(t.TempDir(), "weights")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(rows*cols*4))
	data, err := unix.Mmap(int(f.Fd()), 0, rows*cols*4, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(data)) }()
	raw := compute.RawTensor{Name: "short", DType: compute.F32, Rows: rows, Cols: cols, Data: data}
	for _, threads := range []int{1, 3} {
		b := newBackend(t, cpu.Options{Threads: threads})
		require.NoError(t, f.Truncate(rows*cols*4))
		_, err := b.NewMatrix(raw)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(4096))
		_, err = b.NewMatrix(raw)
		require.ErrorContains(t, err, "short")
		vector := raw
		vector.Rows, vector.Cols = 1, rows*cols
		_, err = b.NewVector(vector)
		require.ErrorContains(t, err, "short")
	}
}
