package cpu

import "fmt"

// Finish says what a [Gemm] does with its chains, which start at 0.
type Finish uint64

// The ways to finish.
const (
	Set Finish = iota // out = chain
	Add               // out = out + chain
)

// Gemm is one product of packed weight tiles with a panel of activations:
//
//	out[j][r] = Σ_k W[r][k] * X[k][j]    r < Tiles*TileRows, j < NR, k < K
//
// The fields are read by assembly.
type Gemm struct {
	W         []byte    // tiles, TileBytes apart
	X         []float32 // panel [K, NR]; with NR 1 this is simply a row
	Out       []float32 // NR rows, LDO apart, of Tiles*TileRows each
	K         int       // columns to sum over; may be fewer than a tile holds
	NR        int       // columns of the panel, 1 … Tier.MaxCols()
	Tiles     int
	TileBytes int // distance of tiles
	LDO       int // distance of rows of Out, in elements
	Finish    Finish
	Format    Format

	pairs int // K / 2
}

// Run computes the product on tier t.
func (g *Gemm) Run(t Tier) {
	if g.Tiles <= 0 {
		return
	}
	g.pairs = g.K / 2
	if !g.valid(t) {
		panic(fmt.Sprintf("kernels/cpu: Gemm %v k=%d nr=%d tiles=%d tileBytes=%d ldo=%d over %d, %d, %d",
			t, g.K, g.NR, g.Tiles, g.TileBytes, g.LDO, len(g.W), len(g.X), len(g.Out)))
	}
	if !gemmAsm(g, t) {
		g.generic()
	}
}

// valid guards the assembly, which reads and writes without bounds.
func (g *Gemm) valid(t Tier) bool {
	return g.K >= 0 && g.NR >= 1 && g.NR <= t.MaxCols() && g.Finish <= Add && g.TileBytes >= 0 &&
		(g.NR == 1 || g.LDO >= g.Tiles*TileRows) &&
		len(g.X) >= g.K*g.NR &&
		len(g.Out) >= (g.NR-1)*g.LDO+g.Tiles*TileRows &&
		len(g.W) >= (g.Tiles-1)*g.TileBytes+TileBytes(g.Format, g.K)
}

// generic is the reference: the same chains in pure Go, tile by tile.
func (g *Gemm) generic() {
	for tile := range g.Tiles {
		chains := tileChains(g.W[tile*g.TileBytes:], g.Format, g.X, g.K, g.NR)
		for j := range g.NR {
			row := g.Out[j*g.LDO+tile*TileRows:][:TileRows]
			for lane, v := range chains[j] {
				if g.Finish == Add {
					v = row[lane] + v
				}
				row[lane] = v
			}
		}
	}
}

// tileChains multiplies one tile with a panel [k, nr].
func tileChains(tile []byte, f Format, x []float32, k, nr int) (acc [maxCols]lanes) {
	for i := range k {
		weights := loadColumn(tile, f, i)
		for j, v := range x[i*nr:][:nr] {
			chains := &acc[j]
			for lane, weight := range weights {
				chains[lane] = fma32(weight, v, chains[lane])
			}
		}
	}
	return acc
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
