package computetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
)

// whole prefills every sequence in one step, one sequence per step.
func (sc *scene) whole() (steps [][]share) {
	for s := range sc.seqs {
		steps = append(steps, []share{{s, sc.positions(s)}})
	}
	return steps
}

// mixed advances all sequences together, sequence s by sizes[(s+step)%len(sizes)]
// positions at a time.
func (sc *scene) mixed(sizes ...int) (steps [][]share) {
	left := make([]int, len(sc.seqs))
	for s := range left {
		left[s] = sc.positions(s)
	}
	for i := 0; ; i++ {
		var step []share
		for s := range left {
			if n := min(left[s], sizes[(s+i)%len(sizes)]); n > 0 {
				step = append(step, share{s, n})
				left[s] -= n
			}
		}
		if len(step) == 0 {
			return steps
		}
		steps = append(steps, step)
	}
}

func testRope(t *testing.T, b *suite) {
	r := newRand(t)
	for _, dim := range []int{2, 8, 30, 32, 34, 64, 128} {
		sc := newScene(r, sceneShape{heads: 3, kvHeads: 1, dim: dim, blockSize: 16, lengths: []int{40}})
		_, rotated := sc.play(t, b, sc.tables(r, true), sc.whole())
		_, want := sc.oracle()
		requireClose(t, want[0], rotated[0], tolerance)
	}
	for _, rotary := range []int{2, 10, 24} {
		sc := newScene(r, sceneShape{heads: 3, kvHeads: 1, dim: 26, blockSize: 16, lengths: []int{40}, rotary: rotary})
		_, rotated := sc.play(t, b, sc.tables(r, true), sc.whole())
		_, want := sc.oracle()
		requireClose(t, want[0], rotated[0], tolerance)
	}
}

// testAttention compares with the oracle: contexts that end just before, at and
// after the edges of blocks and tiles, blocks in shuffled order.
func testAttention(t *testing.T, b *suite) {
	r := newRand(t)
	for _, d := range cacheDTypes {
		for _, s := range []sceneShape{
			{heads: 6, kvHeads: 3, dim: 32, blockSize: 16, lengths: []int{1, 15, 16, 17, 33, 80}},
			{heads: 4, kvHeads: 4, dim: 16, blockSize: 32, lengths: []int{31, 32, 33, 65}},
			{heads: 8, kvHeads: 1, dim: 64, blockSize: 8, lengths: []int{7, 8, 9, 47}},
			{heads: 32, kvHeads: 2, dim: 20, blockSize: 16, lengths: []int{5, 34}},
			{heads: 3, kvHeads: 1, dim: 6, blockSize: 1, lengths: []int{3, 20}},
			{heads: 2, kvHeads: 1, dim: 48, blockSize: 12, lengths: []int{11, 12, 13, 50}},
			{heads: 2, kvHeads: 2, dim: 128, blockSize: 5, lengths: []int{4, 5, 6, 41}},
			{heads: 3, kvHeads: 1, dim: 80, blockSize: 16, lengths: []int{1, 40}},
			{heads: 7, kvHeads: 1, dim: 96, blockSize: 32, lengths: []int{2, 35}},
			{heads: 16, kvHeads: 1, dim: 256, blockSize: 16, lengths: []int{3, 18}},
			{heads: 2, kvHeads: 1, dim: 16, blockSize: 16, lengths: []int{255, 256, 257, 300}},
			{heads: 1, kvHeads: 1, dim: 8, blockSize: 100, lengths: []int{301, 610}},
			{heads: 6, kvHeads: 3, dim: 32, blockSize: 16, lengths: []int{1, 17, 80}, window: 1},
			{heads: 4, kvHeads: 2, dim: 16, blockSize: 16, lengths: []int{9, 33, 80, 300}, window: 9},
			{heads: 5, kvHeads: 1, dim: 10, blockSize: 7, lengths: []int{40, 530}, window: 16, softCap: 2},
			{heads: 2, kvHeads: 1, dim: 8, blockSize: 16, lengths: []int{256, 610}, window: 256},
			{heads: 1, kvHeads: 1, dim: 8, blockSize: 16, lengths: []int{790}, window: 300},
			{heads: 2, kvHeads: 1, dim: 8, blockSize: 16, lengths: []int{40}, window: 1000},
			{heads: 6, kvHeads: 2, dim: 32, blockSize: 16, lengths: []int{15, 280}, softCap: 0.5},
		} {
			if s.dtype = d; !b.turn() {
				continue
			}
			sc := newScene(r, s)
			outs, _ := sc.play(t, b, sc.tables(r, true), sc.whole())
			want, _ := sc.oracle()
			for i := range want {
				requireClose(t, want[i], outs[i], cacheTolerance(d))
			}
		}
	}
}

// testAttentionSchedules requires the same bits however a sequence came about:
// at once, in chunks, token by token, alone or among others, wherever its
// blocks lie.
func testAttentionSchedules(t *testing.T, b *suite) {
	r := newRand(t)
	for _, d := range cacheDTypes {
		for _, s := range []sceneShape{
			{heads: 6, kvHeads: 3, dim: 32, blockSize: 16, lengths: []int{37, 1, 33, 17}},
			{heads: 9, kvHeads: 1, dim: 40, blockSize: 8, lengths: []int{29, 40}},
			{heads: 2, kvHeads: 2, dim: 18, blockSize: 3, lengths: []int{31, 5, 16}},
			{heads: 2, kvHeads: 1, dim: 16, blockSize: 16, lengths: []int{270}},
			{heads: 3, kvHeads: 1, dim: 8, blockSize: 7, lengths: []int{2, 530}},
			{heads: 3, kvHeads: 1, dim: 8, blockSize: 16, lengths: []int{70, 530}, window: 5, softCap: 1},
			{heads: 5, kvHeads: 1, dim: 16, blockSize: 7, lengths: []int{300, 3}, window: 250},
		} {
			if s.dtype = d; !b.turn() {
				continue
			}
			sc := newScene(r, s)
			want, wantRows := sc.play(t, b, sc.tables(r, false), sc.whole())
			for i, steps := range [][][]share{sc.mixed(1), sc.mixed(7), sc.mixed(1, 16, 5), sc.mixed(64)} {
				got, rows := sc.play(t, b, sc.tables(r, i%2 == 0), steps)
				for q := range want {
					requireSameBits(t, wantRows[q], rows[q], "rows of schedule ", i)
					requireSameBits(t, want[q], got[q], "outputs of schedule ", i)
				}
			}
		}
	}
}

// testBlockSizes requires the same bits whatever the size of a block.
func testBlockSizes(t *testing.T, b *suite) {
	r := newRand(t)
	for _, d := range cacheDTypes {
		sc := newScene(r, sceneShape{heads: 4, kvHeads: 2, dim: 24, blockSize: 16, lengths: []int{3, 290}, dtype: d})
		var want [][]float32
		for _, size := range []int{1, 3, 8, 20, 32, 300} {
			if !b.turn() {
				continue
			}
			if want == nil {
				want, _ = sc.play(t, b, sc.tables(r, true), sc.mixed(50))
			}
			sc.kv.BlockSize, sc.kv.NumBlocks = size, 2+300/size
			got, _ := sc.play(t, b, sc.tables(r, true), sc.mixed(50))
			for q := range want {
				requireSameBits(t, want[q], got[q], "blocks of ", size)
			}
		}
	}
}

// testFreeAndReuse gives memory back and takes it again; what is new is zero or
// at least usable, and the rest is untouched.
func testFreeAndReuse(t *testing.T, b *suite) {
	keep := filled(t, b, 0, 8, []float32{1, 2, 3, 4, 5, 6, 7, 8})
	spec := compute.KVSpec{NumLayers: 2, NumBlocks: 64, BlockSize: 16, NumKVHeads: 3, HeadDim: 32}
	for i := range 20 {
		buf, err := b.NewBuffer(100+i, 64)
		require.NoError(t, err)
		kv, err := b.NewKVCache(spec)
		require.NoError(t, err)
		buf.Free()
		buf.Free()
		kv.Free()
		kv.Free()
	}
	require.Equal(t, fmt.Sprint([]float32{1, 2, 3, 4, 5, 6, 7, 8}), fmt.Sprint(b.Host(keep, 0, 1)))
}
