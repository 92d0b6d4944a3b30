package computetest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
)

// nanScenes have columns that see a part of a span only: before their own position,
// and from where their window starts.
var nanScenes = []sceneShape{
	{heads: 6, kvHeads: 3, dim: 32, blockSize: 16, lengths: []int{40}},
	{heads: 4, kvHeads: 1, dim: 20, blockSize: 7, lengths: []int{40}},
	{heads: 2, kvHeads: 2, dim: 16, blockSize: 16, lengths: []int{266}},
	{heads: 3, kvHeads: 1, dim: 16, blockSize: 16, lengths: []int{266}, window: 5, softCap: 1},
	{heads: 2, kvHeads: 1, dim: 24, blockSize: 5, lengths: []int{266}, window: 260},
}

// spoil puts a NaN into the key or the value of a position, and into no query.
func (sc *scene) spoil(pos int, value bool) {
	at := pos*sc.row() + sc.spec.NumHeads*sc.spec.HeadDim
	if value {
		at += sc.spec.NumKVHeads * sc.spec.HeadDim
	}
	for h := range sc.spec.NumKVHeads {
		sc.seqs[0][at+h*sc.spec.HeadDim+1] = float32(math.NaN())
	}
}

// testNaNs requires that a key or value that is NaN changes no bit of the rows that
// do not see it, those of the same step included, and that each that sees it is not
// finite either: it must not be lost on the way to the logits.
func testNaNs(t *testing.T, b *suite) {
	r := newRand(t)
	for _, d := range []compute.DType{compute.F16, compute.Int8} { // with values that may be NaN, and with units
		for _, s := range nanScenes {
			if s.dtype = d; !b.turn() {
				continue
			}
			sc := newScene(r, s)
			tables := sc.tables(r, true)
			want, _ := sc.play(t, b, tables, sc.whole())
			whole := slices.Clone(sc.seqs[0])
			for i, pos := range []int{8, 21, sc.positions(0) - 2} {
				sc.seqs[0] = slices.Clone(whole)
				sc.spoil(pos, i%2 == 0)
				got, _ := sc.play(t, b, tables, sc.whole())
				sc.requireNaNsWhereSeen(t, pos, want[0], got[0])
			}
		}
	}
}

func (sc *scene) requireNaNsWhereSeen(t *testing.T, pos int, want, got []float32) {
	width, end := len(want)/sc.positions(0), sc.positions(0)
	if w := sc.spec.Window; w > 0 {
		end = min(end, pos+w)
	}
	requireSameBits(t, want[:pos*width], got[:pos*width], "before ", pos)
	requireSameBits(t, want[end*width:], got[end*width:], "after the window of ", pos)
	for q := pos; q < end; q++ {
		require.True(t, slices.ContainsFunc(got[q*width:][:width], isNaN), "position %d sees %d", q, pos)
	}
}
