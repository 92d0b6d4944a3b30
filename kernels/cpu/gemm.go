package cpu

import "fmt"

// Finish says what a [Gemm] does with the chains it starts from and ends with.
type Finish uint64

// The ways to finish.
const (
	Set      Finish = iota // chains start at 0; out = chain
	Add                    // chains start at 0; out = out + chain
	Continue               // chains start at out; out = chain
)

// Gemm is one product of packed weight tiles with a panel of activations:
//
//	out[j][r] = Σ_k W[r][k] * X[k][j]    r < Tiles*TileRows, j < NR, k < K
//
// Tiles may lie anywhere (Tile), and the columns of a tile may lie in several
// pieces (Segment): that is how attention reads a paged cache. The fields are
// read by assembly.
type Gemm struct {
	W         []byte    // tiles, TileBytes apart unless Tile says otherwise
	X         []float32 // panel [K*segments, NR]; with NR 1 this is simply a row
	Out       []float32 // NR rows, LDO apart, of Tiles*TileRows each
	K         int       // columns to sum over, of each segment; may be fewer than a tile holds
	NR        int       // columns of the panel, 1 … Tier.MaxCols()
	Tiles     int
	TileBytes int // distance of tiles
	LDO       int // distance of rows of Out, in elements
	Finish    Finish
	Format    Format

	// Tile, if not nil, holds where each tile starts in W, in bytes.
	Tile []int64
	// Segment, if not nil, holds where each K columns start in a tile, in bytes.
	// The sum goes on from segment to segment.
	Segment []int64

	pairs    int // K / 2
	segments int // len(Segment), or 1
}

// Run computes the product on tier t.
func (g *Gemm) Run(t Tier) {
	if g.Tiles <= 0 {
		return
	}
	g.pairs, g.segments = g.K/2, 1
	if g.Segment != nil {
		g.segments = len(g.Segment)
	}
	if !g.valid(t) {
		panic(fmt.Sprintf("kernels/cpu: Gemm %v k=%d*%d nr=%d tiles=%d tileBytes=%d ldo=%d over %d, %d, %d",
			t, g.K, g.segments, g.NR, g.Tiles, g.TileBytes, g.LDO, len(g.W), len(g.X), len(g.Out)))
	}
	if !gemmAsm(g, t) {
		g.generic()
	}
}

// valid guards the assembly, which reads and writes without bounds.
func (g *Gemm) valid(t Tier) bool {
	ok := g.K >= 0 && g.NR >= 1 && g.NR <= t.MaxCols() && g.Finish <= Continue && g.segments >= 1 &&
		(g.NR == 1 || g.LDO >= g.Tiles*TileRows) &&
		len(g.X) >= g.K*g.segments*g.NR &&
		len(g.Out) >= (g.NR-1)*g.LDO+g.Tiles*TileRows
	if !ok {
		return false
	}
	first, last := int64(0), int64(g.Tiles-1)*int64(g.TileBytes)
	if g.Tile != nil {
		if len(g.Tile) < g.Tiles {
			return false
		}
		first, last = bounds(g.Tile[:g.Tiles])
	} else if g.TileBytes < 0 {
		return false
	}
	if g.Segment != nil {
		lo, hi := bounds(g.Segment)
		first, last = first+lo, last+hi
	}
	return first >= 0 && last <= int64(len(g.W)-TileBytes(g.Format, g.K))
}

func bounds(x []int64) (lo, hi int64) {
	lo, hi = x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// generic is the reference: the same chains in pure Go, tile by tile.
func (g *Gemm) generic() {
	for tile := range g.Tiles {
		w := g.W[tile*g.TileBytes:]
		if g.Tile != nil {
			w = g.W[g.Tile[tile]:]
		}
		g.genericTile(w, g.Out[tile*TileRows:])
	}
}

// genericTile computes one tile for all columns.
func (g *Gemm) genericTile(w []byte, out []float32) {
	var acc [maxCols]lanes
	for j := range g.NR {
		if g.Finish == Continue {
			copy(acc[j][:], out[j*g.LDO:])
		}
	}
	x := g.X
	for s := range g.segments {
		columns := w
		if g.Segment != nil {
			columns = w[g.Segment[s]:]
		}
		for k := range g.K {
			weights := loadColumn(columns, g.Format, k)
			for j, v := range x[:g.NR] {
				chains := &acc[j]
				for lane, weight := range weights {
					chains[lane] = fma32(weight, v, chains[lane])
				}
			}
			x = x[g.NR:]
		}
	}
	for j := range g.NR {
		row := out[j*g.LDO:][:TileRows]
		for lane, v := range acc[j] {
			if g.Finish == Add {
				v = row[lane] + v
			}
			row[lane] = v
		}
	}
}

// PackPanel interleaves nr rows of k elements, ld apart in src, into dst [k, nr].
func PackPanel(t Tier, dst, src []float32, k, nr, ld int) {
	if k == 0 || nr == 0 {
		return
	}
	if len(dst) < k*nr || len(src) < (nr-1)*ld+k {
		panic(fmt.Sprintf("kernels/cpu: PackPanel %d x %d over %d, %d", k, nr, len(dst), len(src)))
	}
	done := packAsm(t, dst, src, k, nr, ld)
	for j := range nr {
		row := src[j*ld:][:k]
		for i, at := done, done*nr+j; i < k; i, at = i+1, at+nr {
			dst[at] = row[i]
		}
	}
}
