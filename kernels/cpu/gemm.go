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
// Its fields are read by assembly; see asmgen for the offsets.
type Gemm struct {
	W         []byte    // tiles, one after the other, TileBytes apart
	X         []float32 // panel [K, NR]; with NR 1 this is simply a row
	Out       []float32 // NR rows, LDO apart, of Tiles*TileRows each
	K         int       // columns of the weight to sum over; may be fewer than a tile holds
	NR        int       // columns of the panel, 1 … Tier.MaxCols()
	Tiles     int
	TileBytes int // distance of tiles, at least TileBytes(Format, K)
	LDO       int // distance of rows of Out, in elements
	Finish    Finish
	Format    Format
}

// Run computes the product on tier t.
func (g *Gemm) Run(t Tier) {
	if g.Tiles <= 0 {
		return
	}
	g.check(t)
	if !gemmAsm(g, t) {
		g.generic()
	}
}

// check guards the assembly, which reads and writes without bounds.
func (g *Gemm) check(t Tier) {
	ok := g.K >= 0 && g.NR >= 1 && g.NR <= t.MaxCols() && g.Finish <= Continue &&
		g.TileBytes >= TileBytes(g.Format, g.K) &&
		len(g.W) >= (g.Tiles-1)*g.TileBytes+TileBytes(g.Format, g.K) &&
		len(g.X) >= g.K*g.NR &&
		(g.NR == 1 || g.LDO >= g.Tiles*TileRows) &&
		len(g.Out) >= (g.NR-1)*g.LDO+g.Tiles*TileRows
	if !ok {
		panic(fmt.Sprintf("kernels/cpu: Gemm %v k=%d nr=%d tiles=%d tileBytes=%d ldo=%d over %d, %d, %d",
			t, g.K, g.NR, g.Tiles, g.TileBytes, g.LDO, len(g.W), len(g.X), len(g.Out)))
	}
}

// generic is the reference: the same chains, one at a time.
func (g *Gemm) generic() {
	for tile := range g.Tiles {
		w := g.W[tile*g.TileBytes:][:TileBytes(g.Format, g.K)]
		for j := range g.NR {
			g.genericColumn(w, j, g.Out[j*g.LDO+tile*TileRows:][:TileRows])
		}
	}
}

func (g *Gemm) genericColumn(w []byte, j int, out []float32) {
	var acc [TileRows]float32
	if g.Finish == Continue {
		copy(acc[:], out)
	}
	for k := range g.K {
		x := g.X[k*g.NR+j]
		for lane := range acc {
			acc[lane] = fma32(loadElem(w, g.Format, k, lane), x, acc[lane])
		}
	}
	for lane, v := range acc {
		if g.Finish == Add {
			v = out[lane] + v
		}
		out[lane] = v
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
	j := packAsm(t, dst, src, k, nr, ld)
	for ; j < nr; j++ {
		row := src[j*ld:][:k]
		for i, at := 0, j; i < len(row); i, at = i+1, at+nr {
			dst[at] = row[i]
		}
	}
}
