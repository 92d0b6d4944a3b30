package cpu_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

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
