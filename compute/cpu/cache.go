package cpu

import (
	"fmt"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// kvCache keeps keys and values as weight tiles, so that attention is two
// products with the same kernels as everything else:
//
//	keys   [layer][slot / 16][kv head] tile of head_dim columns, slot % 16 is the lane
//	values [layer][block][kv head][dim / 16] tile of block_size columns, dim % 16 is the lane
//	units  [layer][slot / 16][kv head] unitPair, slot % 16 is the lane; of Int8 only
//
// A slot is block*block_size + offset. Untouched memory is not real, unless the spec
// wants it to be.
type kvCache struct {
	spec   compute.KVSpec
	format kernels.Format
	raw    []byte
	keys   []byte
	values []byte
	units  []unitPair
	mem    *arena

	keyTile    int // bytes of one key tile
	valueTile  int // bytes of one value tile
	slotTiles  int // key tiles per layer and kv head
	valueTiles int // value tiles per block and kv head
}

// Spec implements compute.KVCache.
func (c *kvCache) Spec() compute.KVSpec { return c.spec }

// Free implements compute.KVCache.
func (c *kvCache) Free() {
	// A failed unmap loses address space, nothing else.
	_ = c.mem.free(c.raw)
	c.raw, c.keys, c.values, c.units = nil, nil, nil, nil
}

// NewKVCache implements compute.Backend.
func (b *Backend) NewKVCache(spec compute.KVSpec) (compute.KVCache, error) {
	format, err := cacheFormatOf(spec.DType)
	if err != nil {
		return nil, err
	}
	if spec.NumLayers <= 0 || spec.NumBlocks <= 0 || spec.BlockSize <= 0 || spec.NumKVHeads <= 0 || spec.HeadDim <= 0 {
		return nil, fmt.Errorf("compute/cpu: KV cache of %+v: every size must be at least 1", spec)
	}
	tooLarge := fmt.Errorf("compute/cpu: KV cache of %+v is too large", spec)
	slots, ok := compute.Product(spec.NumBlocks, spec.BlockSize)
	if _, fits := compute.Product(max(spec.HeadDim, spec.BlockSize)+1, kernels.TileRows*4); !ok || !fits || slots > 1<<31-1 {
		return nil, tooLarge
	}
	c := &kvCache{
		spec: spec, format: format, mem: &b.mem,
		keyTile:    kernels.TileBytes(format, spec.HeadDim),
		valueTile:  kernels.TileBytes(format, spec.BlockSize),
		slotTiles:  kernels.NumTiles(int(slots)),
		valueTiles: kernels.NumTiles(spec.HeadDim),
	}
	keyBytes, ok1 := compute.Product(spec.NumLayers, c.slotTiles, spec.NumKVHeads, c.keyTile)
	valueBytes, ok2 := compute.Product(spec.NumLayers, spec.NumBlocks, spec.NumKVHeads, c.valueTiles, c.valueTile)
	unitBytes, ok3 := compute.Product(spec.NumLayers, c.slotTiles, spec.NumKVHeads, unitPairBytes)
	if !ok1 || !ok2 || !ok3 {
		return nil, tooLarge
	}
	if format != kernels.I8 {
		unitBytes = 0
	}
	unitStart := (keyBytes + valueBytes + unitPairBytes - 1) / unitPairBytes * unitPairBytes
	if c.raw, err = b.mem.alloc(unitStart+unitBytes, "KV cache"); err != nil {
		return nil, err
	}
	if len(c.raw) >= hugeBytes {
		adviseHuge(c.raw, true)
	}
	if spec.Prefault {
		b.prefault(c.raw)
	}
	c.keys, c.values = c.raw[:keyBytes:keyBytes], c.raw[keyBytes:keyBytes+valueBytes:keyBytes+valueBytes]
	c.units = unitPairs(c.raw[unitStart:])
	return c, nil
}

// keysOf returns a layer's keys from those of head on; keyOffset is where in it
// a tile of slots is.
func (c *kvCache) keysOf(layer, head int) []byte {
	perLayer := c.slotTiles * c.spec.NumKVHeads
	return c.keys[(layer*perLayer+head)*c.keyTile : (layer+1)*perLayer*c.keyTile]
}

func (c *kvCache) keyOffset(slotTile int) int64 {
	return int64(slotTile) * int64(c.spec.NumKVHeads*c.keyTile)
}

// valuesOf returns a layer's values from those of head on; valueOffset is where
// in it a block's tiles are.
func (c *kvCache) valuesOf(layer, head int) []byte {
	perHead := c.valueTiles * c.valueTile
	perLayer := c.spec.NumBlocks * c.spec.NumKVHeads
	return c.values[(layer*perLayer+head)*perHead : (layer+1)*perLayer*perHead]
}

func (c *kvCache) valueOffset(block int) int64 {
	return int64(block) * int64(c.spec.NumKVHeads*c.valueTiles*c.valueTile)
}

// store writes one position's key and value of one head.
func (c *kvCache) store(t kernels.Tier, at slots, key, value []float32) {
	keys := kernels.Store{
		Tiles: c.keysOf(at.layer, at.head)[c.keyOffset(at.first/kernels.TileRows):][:c.keyTile], Format: c.format, At: at.first % kernels.TileRows,
	}
	values := kernels.Store{
		Tiles: c.valuesOf(at.layer, at.head)[c.valueOffset(at.first/c.spec.BlockSize):], Format: c.format, At: at.first % c.spec.BlockSize,
		TileBytes: c.valueTile,
	}
	if c.units != nil {
		units := c.unitsOf(at)
		units.keys[keys.At], keys.Inverse = kernels.UnitI8(t, key)
		units.values[keys.At], values.Inverse = kernels.UnitI8(t, value)
	}
	keys.Lane(t, key)
	values.Columns(t, value)
}
