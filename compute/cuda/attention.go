package cuda

import (
	"math"
	"math/bits"

	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cuda"
)

// Of kernels/cuda/src/attend.cu.
const (
	tile             = 256 // positions
	maxHeadDim       = 256
	attentionThreads = 128
)

// maxPartialBytes bounds the memory for attention's parts; what would need more has
// blocks enough without.
const maxPartialBytes = 64 << 20

// RopeStore implements compute.Backend.
func (b *Backend) RopeStore(qkv compute.Buffer, spec compute.AttentionSpec, rope compute.Rope, kv compute.KVCache, layer int, batch *compute.Batch) {
	f, r, c := qkv.(*buffer), rope.(*ropeTable), kv.(*kvCache)
	checkAttention(f, spec, c, layer)
	n := len(batch.Positions)
	if !(len(batch.SlotMapping) == n && n <= f.rows && 2*r.half <= spec.HeadDim) {
		fail("RopeStore: %d positions, %d slots, %d rows, table for %d of %d elements", n, len(batch.SlotMapping), f.rows, 2*r.half, spec.HeadDim)
	}
	for i, pos := range batch.Positions {
		if slot := batch.SlotMapping[i]; !(pos >= 0 && int(pos) < r.positions && slot >= 0 && int(slot) < c.spec.NumBlocks*c.spec.BlockSize) {
			fail("RopeStore: position %d of %d, slot %d", pos, r.positions, slot)
		}
	}
	u := b.upload(batch, c.spec)
	p := kernels.RopeStore{Qkv: f.p, Cs: r.p, Pos: u.positions, Slots: u.slots,
		Heads: spec.NumHeads, KvHeads: spec.NumKVHeads, Dim: spec.HeadDim, Half: r.half}
	p.Keys, p.Values, p.KeyUnits, p.ValueUnits = c.layer(layer)
	b.queue.RopeStore(cacheKernels[c.spec.DType].store, kernels.Grid{X: n, Y: 1, Z: 1, Threads: attentionThreads}, &p)
}

// checkAttention verifies that qkv, spec and cache belong together.
func checkAttention(qkv *buffer, spec compute.AttentionSpec, kv *kvCache, layer int) {
	s := kv.spec
	if !(spec.HeadDim == s.HeadDim && spec.NumKVHeads == s.NumKVHeads && layer >= 0 && layer < s.NumLayers) {
		fail("attention %+v at layer %d of cache %+v", spec, layer, s)
	}
	if !(spec.SoftCap >= 0 && spec.Window >= 0 && spec.NumHeads > 0 && spec.NumHeads%spec.NumKVHeads == 0) {
		fail("attention %+v", spec)
	}
	if qkv.cols != (spec.NumHeads+2*spec.NumKVHeads)*spec.HeadDim {
		fail("attention %+v of %d columns", spec, qkv.cols)
	}
}

// Attention implements compute.Backend.
func (b *Backend) Attention(dst, qkv compute.Buffer, spec compute.AttentionSpec, kv compute.KVCache, layer int, batch *compute.Batch) {
	d, f, c := dst.(*buffer), qkv.(*buffer), kv.(*kvCache)
	checkAttention(f, spec, c, layer)
	if d.cols != spec.NumHeads*spec.HeadDim {
		fail("Attention: %d columns for %+v", d.cols, spec)
	}
	for i := range batch.Seqs {
		if q := &batch.Seqs[i]; !(q.QueryStart >= 0 && q.QueryLen >= 0 && q.QueryLen <= q.ContextLen &&
			q.QueryStart+q.QueryLen <= min(d.rows, f.rows) && len(q.BlockTable)*c.spec.BlockSize >= q.ContextLen) {
			fail("Attention: rows %d+%d, context %d, %d blocks", q.QueryStart, q.QueryLen, q.ContextLen, len(q.BlockTable))
		}
	}
	u := b.upload(batch, c.spec)
	p := kernels.Attend{Dst: d.p, Qkv: f.p, Rows: u.rows, Pos: u.pos, Starts: u.starts, Tables: u.tables,
		Heads: spec.NumHeads, KvHeads: spec.NumKVHeads, Dim: spec.HeadDim, BlockSize: c.spec.BlockSize, Window: spec.Window}
	p.Keys, p.Values, p.KeyUnits, p.ValueUnits = c.layer(layer)
	setScores(&p, spec)
	b.attend(u, c, &p)
}

// setScores sets what becomes of q·k: scores in units of log2, capped or not.
func setScores(p *kernels.Attend, spec compute.AttentionSpec) {
	p.Scale = float32(float64(spec.Scale) * math.Log2E)
	if spec.SoftCap > 0 {
		p.Scale, p.Cap, p.InvCap = spec.Scale, float32(float64(spec.SoftCap)*math.Log2E), 1/spec.SoftCap
	}
}

// attend launches attention: a block per tile and query if the queries alone would leave
// processors idle, and else a block per query.
func (b *Backend) attend(u *uploaded, c *kvCache, p *kernels.Attend) {
	group := p.Heads / p.KvHeads
	wide := min(bits.Len(uint(group))-1, 2) // 1, 2 or 4 heads at a time
	g := kernels.Grid{X: u.queries, Y: p.KvHeads * ceil(group, 1<<wide), Z: 1, Threads: attentionThreads}
	tiles := u.maxTiles
	if p.Window > 0 {
		tiles = min(tiles, ceil(p.Window, tile)+1)
	}
	k := cacheKernels[c.spec.DType].attend[wide]
	bytes, ok := compute.Product(4, u.queries, p.Heads, tiles, p.Dim+2)
	if tiles < 2 || g.X*g.Y >= 2*b.dev.NumProcessors() || !ok || bytes > maxPartialBytes {
		b.queue.Attend(k, g, p)
		return
	}
	p.Part = b.partial.grow(bytes)
	g.Z = tiles
	b.queue.Attend(k, g, p)
	g.Y, g.Z = p.Heads, 1
	b.queue.AttendMerge(kernels.KernelAttendMerge, g, &kernels.AttendMerge{Dst: p.Dst, Part: p.Part, Rows: p.Rows, Pos: p.Pos,
		Tiles: tiles, Heads: p.Heads, Dim: p.Dim, Window: p.Window})
}
