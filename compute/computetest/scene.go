package computetest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/kernels/ref"
)

// scene is an attention layer and sequences whose every position has a qkv row.
type scene struct {
	spec compute.AttentionSpec
	kv   compute.KVSpec
	rope compute.RopeTable
	seqs [][]float32 // per sequence: [positions, row]
}

// sceneShape sizes a scene.
type sceneShape struct {
	heads, kvHeads, dim int
	blockSize           int
	lengths             []int
	dtype               compute.DType
	rotary              int // dimensions of a head that are rotated; 0 = all
	window              int
	softCap             float32
}

func newScene(r *rand.Rand, s sceneShape) *scene {
	sc := &scene{
		spec: compute.AttentionSpec{NumHeads: s.heads, NumKVHeads: s.kvHeads, HeadDim: s.dim, Scale: float32(1 / math.Sqrt(float64(s.dim))),
			SoftCap: s.softCap, Window: s.window},
		kv: compute.KVSpec{NumLayers: 2, BlockSize: s.blockSize, NumKVHeads: s.kvHeads, HeadDim: s.dim, DType: s.dtype},
	}
	longest := 0
	for _, n := range s.lengths {
		sc.seqs = append(sc.seqs, uniform(r, n*sc.row(), 1.5))
		sc.kv.NumBlocks += (n + s.blockSize - 1) / s.blockSize
		longest = max(longest, n)
	}
	sc.kv.NumBlocks += 3
	sc.rope.HalfDim = cmp.Or(s.rotary, s.dim) / 2
	for pos := range longest {
		for i := range sc.rope.HalfDim {
			angle := float64(pos) * math.Pow(10000, -2*float64(i)/float64(s.dim))
			sc.rope.Cos = append(sc.rope.Cos, float32(math.Cos(angle)))
			sc.rope.Sin = append(sc.rope.Sin, float32(math.Sin(angle)))
		}
	}
	return sc
}

func (sc *scene) row() int {
	return (sc.spec.NumHeads + 2*sc.spec.NumKVHeads) * sc.spec.HeadDim
}

func (sc *scene) positions(seq int) int { return len(sc.seqs[seq]) / sc.row() }

// tables gives every sequence its blocks: in shuffled order, or consecutive.
func (sc *scene) tables(r *rand.Rand, shuffled bool) [][]int32 {
	order := make([]int32, sc.kv.NumBlocks)
	for i := range order {
		order[i] = int32(i)
	}
	if shuffled {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	tables := make([][]int32, len(sc.seqs))
	for s := range tables {
		n := (sc.positions(s) + sc.kv.BlockSize - 1) / sc.kv.BlockSize
		tables[s], order = order[:n:n], order[n:]
	}
	return tables
}

// share is how many next positions of a sequence a step computes.
type share struct{ seq, n int }

// play computes all positions of the scene's sequences in the given steps and
// returns each sequence's outputs [positions, heads*dim] and its rotated rows.
func (sc *scene) play(t *testing.T, b compute.Backend, tables [][]int32, steps [][]share) (outs, rotated [][]float32) {
	const layer = 1
	cache, err := b.NewKVCache(sc.kv)
	require.NoError(t, err)
	require.Equal(t, sc.kv, cache.Spec())
	rope, err := b.NewRope(sc.rope)
	require.NoError(t, err)
	sc.poisonCache(t, b, cache, rope)
	outs, rotated = make([][]float32, len(sc.seqs)), make([][]float32, len(sc.seqs))
	done := make([]int, len(sc.seqs))
	for _, step := range steps {
		batch, rows := sc.batch(step, done, tables)
		n := len(batch.Positions)
		qkv := filled(t, b, 1, sc.row(), rows)
		dst := filled(t, b, n+1, sc.spec.NumHeads*sc.spec.HeadDim, nil)
		b.RopeStore(qkv, sc.spec, rope, cache, layer, batch)
		b.Attention(dst, qkv, sc.spec, cache, layer, batch)
		out, turned := result(t, b, dst, n), result(t, b, qkv, n)
		for i, sh := range step {
			start := batch.Seqs[i].QueryStart
			outs[sh.seq] = append(outs[sh.seq], out[start*dst.Cols():(start+sh.n)*dst.Cols()]...)
			rotated[sh.seq] = append(rotated[sh.seq], turned[start*sc.row():(start+sh.n)*sc.row()]...)
		}
		qkv.Free()
		dst.Free()
	}
	cache.Free()
	cache.Free()
	return outs, rotated
}

// batch builds a step's batch and its qkv rows, and moves done on.
func (sc *scene) batch(step []share, done []int, tables [][]int32) (*compute.Batch, []float32) {
	batch := &compute.Batch{}
	var rows []float32
	for _, sh := range step {
		start := done[sh.seq]
		done[sh.seq] += sh.n
		rows = append(rows, sc.seqs[sh.seq][start*sc.row():done[sh.seq]*sc.row()]...)
		table := tables[sh.seq]
		batch.Seqs = append(batch.Seqs, compute.BatchSeq{
			QueryStart: len(batch.Positions), QueryLen: sh.n, ContextLen: done[sh.seq],
			BlockTable: table[:(done[sh.seq]+sc.kv.BlockSize-1)/sc.kv.BlockSize],
		})
		for pos := start; pos < done[sh.seq]; pos++ {
			batch.TokenIDs = append(batch.TokenIDs, 0)
			batch.Positions = append(batch.Positions, int32(pos))
			batch.SlotMapping = append(batch.SlotMapping, table[pos/sc.kv.BlockSize]*int32(sc.kv.BlockSize)+int32(pos%sc.kv.BlockSize))
		}
	}
	return batch, rows
}

// poisonCache stores NaN in every slot of both layers.
func (sc *scene) poisonCache(t *testing.T, b compute.Backend, cache compute.KVCache, rope compute.Rope) {
	slots := sc.kv.NumBlocks * sc.kv.BlockSize
	batch := &compute.Batch{Positions: make([]int32, slots), SlotMapping: make([]int32, slots)}
	for i := range slots {
		batch.SlotMapping[i] = int32(i)
	}
	buf := filled(t, b, slots, sc.row(), nil)
	for layer := range sc.kv.NumLayers {
		b.RopeStore(buf, sc.spec, rope, cache, layer, batch)
	}
	require.NoError(t, b.Sync())
	buf.Free()
}

// oracle returns what play must return, in float64.
func (sc *scene) oracle() (outs, rotated [][]float64) {
	s := ref.Shape{NumHeads: sc.spec.NumHeads, NumKVHeads: sc.spec.NumKVHeads, HeadDim: sc.spec.HeadDim,
		Scale: float64(sc.spec.Scale), SoftCap: float64(sc.spec.SoftCap)}
	cos, sin := widen(sc.rope.Cos), widen(sc.rope.Sin)
	half := sc.rope.HalfDim
	for i := range sc.seqs {
		rows := widen(sc.seqs[i])
		cache := ref.NewCache(s, sc.positions(i))
		var out []float64
		var slots []int
		for pos := range sc.positions(i) {
			row := rows[pos*s.Row():][:s.Row()]
			ref.Rope(row, s, cos[pos*half:][:half], sin[pos*half:][:half])
			cache.Store(row, s, pos)
			if slots = append(slots, pos); sc.spec.Window > 0 && len(slots) > sc.spec.Window {
				slots = slots[1:]
			}
			out = append(out, cache.Attention(row, s, slots)...)
		}
		outs, rotated = append(outs, out), append(rotated, rows)
	}
	return outs, rotated
}
