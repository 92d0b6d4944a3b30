package cpu

import (
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// QGemm is one product of packed tiles of quantised weights with a panel of
// quantised activations:
//
//	out[j][r] = Σ_b x.scale[b][j] * scale[b][r] * Σ_k (q[r][k] - offset) * x.q[k][j]   k in block b
//
// and with mins, less Σ_b min[b][r] * x.scale[b][j] * Σ_k x.q[k][j]. The inner sums
// are exact, times a scale they are rounded once; the outer one is a chain of fused
// multiply-adds over the groups of columns that have a scale, of a block the min
// last. The fields are read by assembly.
type QGemm struct {
	W         []byte    // tiles, TileBytes apart
	X         []float32 // words: the integers [blocks*8][NR], four columns of weights each; then QRow.PackSide's
	Out       []float32 // NR rows, LDO apart, of Tiles*TileRows each
	Blocks    int       // columns / QBlock
	NR        int       // columns of the panel, 1 … Tier.MaxQCols()
	Tiles     int
	TileBytes int
	LDO       int    // distance of rows of Out, in elements
	Finish    Finish // Set or Add
	Type      quant.Type
	Ahead     []byte // weights that are wanted later, to be fetched on the way: up to AheadBytes(); nil = none

	end int // bytes of the integers of a tile
}

// AheadBytes returns how many bytes of [QGemm.Ahead] a product of so many tiles
// fetches, if its panel has several columns.
func AheadBytes(tiles, blocks int) int { return aheadBytes * tiles * blocks }

// aheadBytes is what kernels fetch ahead per tile and block.
const aheadBytes = 128

// Run computes the product on tier t.
func (g *QGemm) Run(t Tier) {
	if g.Tiles <= 0 {
		return
	}
	cols := g.Blocks * QBlock
	ok := g.Blocks >= 1 && cols%g.Type.Elements() == 0 && g.NR >= 1 && g.NR <= t.MaxQCols() && g.Finish <= Add &&
		(g.NR == 1 || g.LDO >= g.Tiles*TileRows) && g.TileBytes >= QTileBytes(g.Type, cols) &&
		len(g.W) >= (g.Tiles-1)*g.TileBytes+QTileBytes(g.Type, cols) &&
		len(g.X) >= QPanelWords(g.Type, cols, g.NR) &&
		len(g.Out) >= (g.NR-1)*g.LDO+g.Tiles*TileRows
	if !ok {
		panic(fmt.Sprintf("kernels/cpu: QGemm %v %v blocks=%d nr=%d tiles=%d tileBytes=%d ldo=%d over %d, %d, %d",
			t, g.Type, g.Blocks, g.NR, g.Tiles, g.TileBytes, g.LDO, len(g.W), len(g.X), len(g.Out)))
	}
	if len(g.Ahead) == 0 {
		g.Ahead = g.W
	}
	g.end = g.Blocks * qweightBytes(g.Type)
	if !qgemmAsm(g, t) {
		g.generic()
	}
}

// Sums of integers start at the bits of a float, magic: those of the float that is
// magic larger come out, as long as sums are less than 2^22 in size. Kernels take
// magic times the scale away when they multiply by the scale, with nothing rounded
// in between, and need not convert integers.
const (
	magic     = 3 << 22
	magicBits = 0x4b400000
)

// generic is the reference: the same sums in pure Go.
func (g *QGemm) generic() {
	var c qcolumn
	var acc [maxQCols]lanes
	for tile := range g.Tiles {
		clear(acc[:])
		w := g.W[tile*g.TileBytes:]
		for block := range g.Blocks {
			c.load(w, g.Type, g.Blocks*QBlock, block)
			for j := range g.NR {
				g.add(&acc[j], &c, block, j)
			}
		}
		for j := range g.NR {
			row := g.Out[j*g.LDO+tile*TileRows:][:TileRows]
			for lane, v := range acc[j] {
				if g.Finish == Add {
					v = row[lane] + v
				}
				row[lane] = v
			}
		}
	}
}

// add adds a block's part of column j.
func (g *QGemm) add(acc *lanes, c *qcolumn, block, j int) {
	n := QSide(g.Type)
	side := g.X[g.Blocks*8*g.NR+block*n*g.NR+j:]
	group := g.Type.Group()
	for first := 0; first < QBlock; first += group {
		var dot [TileRows]int32
		start := int32(magicBits)
		if !g.Type.HasMin() {
			start = int32(math.Float32bits(side[(1+first/group)*g.NR]))
		}
		for lane := range dot {
			dot[lane] = start
		}
		for k := first; k < first+group; k++ {
			word := math.Float32bits(g.X[(block*8+k/4)*g.NR+j])
			x := int32(int8(word >> (k % 4 * 8)))
			for lane, q := range c.q[k] {
				dot[lane] += int32(q) * x
			}
		}
		for lane, v := range dot {
			scale := c.scale[first/16][lane]
			scaled := fma32(math.Float32frombits(uint32(v)), scale, float32(-magic*scale))
			acc[lane] = fma32(scaled, side[0], acc[lane])
		}
	}
	if g.Type.HasMin() {
		for lane, m := range c.min {
			acc[lane] = fma32(m, side[g.NR], acc[lane])
		}
	}
}
