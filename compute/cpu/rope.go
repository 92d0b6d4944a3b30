package cpu

import (
	"fmt"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// ropeTable holds rotations by position.
type ropeTable struct {
	half     int
	cos, sin []float32 // [positions, half]
}

// MaxPositions implements compute.Rope.
func (r *ropeTable) MaxPositions() int { return len(r.cos) / r.half }

// NewRope implements compute.Backend.
func (b *Backend) NewRope(t compute.RopeTable) (compute.Rope, error) {
	if t.HalfDim <= 0 || len(t.Cos) == 0 || len(t.Cos) != len(t.Sin) || len(t.Cos)%t.HalfDim != 0 {
		return nil, fmt.Errorf("compute/cpu: rope table of %d cosines and %d sines for half a head of %d", len(t.Cos), len(t.Sin), t.HalfDim)
	}
	memory, err := b.weights.take(int64(8*len(t.Cos)), "rope table")
	if err != nil {
		return nil, err
	}
	cos := floats(memory)[:len(t.Cos):len(t.Cos)]
	r := &ropeTable{half: t.HalfDim, cos: cos, sin: floats(memory)[len(t.Cos):][:len(t.Cos)]}
	copy(r.cos, t.Cos)
	copy(r.sin, t.Sin)
	return r, nil
}

// ropeTask rotates and stores rows.
type ropeTask struct {
	tier  kernels.Tier
	qkv   *buffer
	spec  compute.AttentionSpec
	rope  *ropeTable
	kv    *kvCache
	layer int
	batch *compute.Batch
}

// RopeStore implements compute.Backend.
func (b *Backend) RopeStore(qkv compute.Buffer, spec compute.AttentionSpec, rope compute.Rope, kv compute.KVCache, layer int, batch *compute.Batch) {
	t := &b.rope
	*t = ropeTask{tier: b.tier, qkv: qkv.(*buffer), spec: spec, rope: rope.(*ropeTable), kv: kv.(*kvCache), layer: layer, batch: batch}
	checkAttention(t.qkv, spec, t.kv, layer)
	n := len(batch.Positions)
	if !(len(batch.SlotMapping) == n && n <= t.qkv.rows) {
		fail("RopeStore: %d positions, %d slots, %d rows", n, len(batch.SlotMapping), t.qkv.rows)
	}
	if 2*t.rope.half > spec.HeadDim {
		fail("RopeStore: table for heads of %d, not %d", 2*t.rope.half, spec.HeadDim)
	}
	b.runRows(t, n, n*t.qkv.cols)
}

// checkAttention verifies that qkv, spec and cache belong together.
func checkAttention(qkv *buffer, spec compute.AttentionSpec, kv *kvCache, layer int) {
	s := kv.spec
	if !(spec.HeadDim == s.HeadDim && spec.NumKVHeads == s.NumKVHeads && layer >= 0 && layer < s.NumLayers) {
		fail("attention %+v at layer %d of cache %+v", spec, layer, s)
	}
	if !(spec.SoftCap >= 0 && spec.Window >= 0) {
		fail("attention %+v: soft cap and window must not be negative", spec)
	}
	if !(spec.NumHeads > 0 && spec.NumHeads%spec.NumKVHeads == 0) {
		fail("attention heads %d of %d", spec.NumHeads, spec.NumKVHeads)
	}
	if qkv.cols != (spec.NumHeads+2*spec.NumKVHeads)*spec.HeadDim {
		fail("attention %+v of %d columns", spec, qkv.cols)
	}
}

// run implements task.
func (t *ropeTask) run(chunk, _ int) {
	for i := chunk * rowChunk; i < min((chunk+1)*rowChunk, len(t.batch.Positions)); i++ {
		t.row(i)
	}
}

func (t *ropeTask) row(i int) {
	pos, slot := int(t.batch.Positions[i]), int(t.batch.SlotMapping[i])
	s := t.kv.spec
	if !(pos >= 0 && pos < t.rope.MaxPositions()) {
		fail("RopeStore: position %d of %d", pos, t.rope.MaxPositions())
	}
	if !(slot >= 0 && slot < s.NumBlocks*s.BlockSize) {
		fail("RopeStore: slot %d of %d", slot, s.NumBlocks*s.BlockSize)
	}
	half, dim, heads := t.rope.half, t.spec.HeadDim, t.spec.NumHeads
	cos, sin := t.rope.cos[pos*half:][:half], t.rope.sin[pos*half:][:half]
	row := t.qkv.row(i)
	for h := range heads + t.spec.NumKVHeads {
		kernels.Rotate(t.tier, row[h*dim:][:dim], cos, sin)
	}
	keys, values := row[heads*dim:], row[(heads+t.spec.NumKVHeads)*dim:]
	for h := range t.spec.NumKVHeads {
		t.kv.store(t.tier, slots{t.layer, h, slot, 1}, keys[h*dim:][:dim], values[h*dim:][:dim])
	}
}
