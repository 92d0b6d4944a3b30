package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

var quantTypes = []quant.Type{quant.Q8_0, quant.Q4_0, quant.Q4_K, quant.Q5_K, quant.Q6_K}

// randomBlocks makes rows of blocks with random bits and scales near 2^-6, of
// either sign.
func randomBlocks(r *rand.Rand, t quant.Type, rows, cols int) []byte {
	b := make([]byte, rows*t.RowBytes(cols))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for i := 0; i < len(b); i += t.Bytes() {
		half := func() uint16 { return uint16(r.Uint32())&0x83ff | 9<<10 }
		switch t {
		case quant.Q4_K, quant.Q5_K:
			binary.LittleEndian.PutUint16(b[i+2:], half())
			fallthrough
		case quant.Q8_0, quant.Q4_0:
			binary.LittleEndian.PutUint16(b[i:], half())
		case quant.Q6_K:
			binary.LittleEndian.PutUint16(b[i+208:], half())
		}
	}
	return b
}

// packedQ packs blocks into tiles, in pieces of different heights.
func packedQ(t quant.Type, blocks []byte, rows, cols int) []byte {
	size := cpu.QTileBytes(t, cols)
	w := make([]byte, cpu.NumTiles(rows)*size)
	for row := 0; row < rows; {
		n := min(1+row%5, rows-row, cpu.TileRows-row%cpu.TileRows)
		cpu.PackQRows(w[row/cpu.TileRows*size:][:size], blocks[row*t.RowBytes(cols):][:n*t.RowBytes(cols)], t, cols, row%cpu.TileRows)
		row += n
	}
	return w
}

// qpanel makes a panel of nr rows of x.
func qpanel(tier cpu.Tier, t quant.Type, x []float32, cols, nr int) []float32 {
	p := make([]float32, cpu.QPanelWords(t, cols, nr))
	cpu.PackQPanel(tier, p, t, x, cpu.QPanelShape{Cols: cols, NR: nr, LD: cols, Scratch: make([]float32, cpu.QPanelScratch(cols, nr))})
	return p
}

func newQRow(cols int) *cpu.QRow {
	return &cpu.QRow{Q: make([]int8, cols), Scale: make([]float32, cols/cpu.QBlock), Sums: make([]int32, cols/cpu.QBlock*2)}
}

// TestQGemm compares every tier with the generic one bit by bit, and that with
// sums of float64 over the numbers that blocks and quantised activations stand for.
func TestQGemm(t *testing.T) {
	for _, typ := range quantTypes {
		for _, cols := range []int{typ.Elements(), 3 * typ.Elements()} {
			for _, tiles := range []int{1, 2, 3, 4, 7} {
				for nr := 1; nr <= cpu.Generic.MaxQCols(); nr++ {
					t.Run(fmt.Sprintf("%v/cols=%d/tiles=%d/nr=%d", typ, cols, tiles, nr), func(t *testing.T) {
						testQGemm(t, typ, cols, tiles, nr)
					})
				}
			}
		}
	}
}

func testQGemm(t *testing.T, typ quant.Type, cols, tiles, nr int) {
	r := rand.New(rand.NewPCG(uint64(cols*10+tiles), uint64(nr)))
	rows := tiles * cpu.TileRows
	blocks := randomBlocks(r, typ, rows, cols)
	x := normal(r, nr*cols)
	ldo := rows + 3
	before := normal(r, nr*ldo)
	run := func(tier cpu.Tier, finish cpu.Finish) []float32 {
		out := append([]float32{}, before...)
		g := cpu.QGemm{
			W: packedQ(typ, blocks, rows, cols), X: qpanel(tier, typ, x, cols, nr), Out: out, Blocks: cols / cpu.QBlock,
			NR: nr, Tiles: tiles, TileBytes: cpu.QTileBytes(typ, cols), LDO: ldo, Finish: finish, Type: typ,
			Ahead: make([]byte, cpu.AheadBytes(tiles, cols/cpu.QBlock)),
		}
		g.Run(tier)
		return out
	}
	set, added := run(cpu.Generic, cpu.Set), run(cpu.Generic, cpu.Add)
	w := make([]float32, rows*cols)
	typ.Dequantize(w, blocks)
	for j := range nr {
		q := newQRow(cols)
		q.Quantize(cpu.Generic, x[j*cols:][:cols])
		for row := range rows {
			want, size := 0.0, 0.0
			for k, v := range q.Q {
				p := float64(w[row*cols+k]) * float64(v) * float64(q.Scale[k/cpu.QBlock])
				want, size = want+p, size+math.Abs(p)
			}
			if typ.HasMin() { // scales and mins are summed apart, and are larger than their difference
				size *= 4
			}
			at := j*ldo + row
			require.InDelta(t, want, set[at], 1e-6*size+1e-6)
			require.InDelta(t, want+float64(before[at]), added[at], 1e-6*size+1e-5)
		}
		require.Equal(t, before[j*ldo+rows:(j+1)*ldo], set[j*ldo+rows:(j+1)*ldo], "nothing is written behind a row")
	}
	for _, tier := range cpu.Tiers() {
		if nr <= tier.MaxQCols() {
			require.Equal(t, set, run(tier, cpu.Set), tier)
			require.Equal(t, added, run(tier, cpu.Add), tier)
		}
	}
}

// Integers at the ends of their range do not overflow anything.
func TestQGemmAtTheEndsOfTheRange(t *testing.T) {
	for _, typ := range quantTypes {
		for _, fill := range []byte{0x00, 0x7f, 0x80, 0xff} {
			cols := 2 * typ.Elements()
			blocks := make([]byte, cpu.TileRows*typ.RowBytes(cols))
			for i := range blocks {
				blocks[i] = fill
			}
			for i := 0; i < len(blocks); i += typ.Bytes() { // scales of 1
				binary.LittleEndian.PutUint16(blocks[i:], 0x3c00)
				if typ == quant.Q6_K {
					binary.LittleEndian.PutUint16(blocks[i+208:], 0x3c00)
				}
			}
			for _, sign := range []float32{1, -1} {
				x := make([]float32, cols)
				for i := range x {
					x[i] = 127 * sign
				}
				var want []float32
				for _, tier := range cpu.Tiers() {
					out := make([]float32, cpu.TileRows)
					g := cpu.QGemm{
						W: packedQ(typ, blocks, cpu.TileRows, cols), X: qpanel(tier, typ, x, cols, 1), Out: out, Blocks: cols / cpu.QBlock,
						NR: 1, Tiles: 1, TileBytes: cpu.QTileBytes(typ, cols), Type: typ,
					}
					g.Run(tier)
					if want == nil {
						want = out
					}
					require.Equal(t, bitsOf(want), bitsOf(out), "%v %v %#02x", tier, typ, fill)
				}
			}
		}
	}
}

func bitsOf(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
		if v != v {
			b[i] = math.MaxUint32 // payloads are not defined
		}
	}
	return b
}

// TestQGemmWithoutVNNI runs the tiers as on processors without dot products.
func TestQGemmWithoutVNNI(t *testing.T) {
	cpu.WithoutVNNI(t)
	for _, typ := range quantTypes {
		for nr := 1; nr <= 2; nr++ {
			testQGemm(t, typ, 256, 5, nr)
		}
	}
}

func TestLoadQRow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, typ := range quantTypes {
		cols, rows := 2*quant.MaxElements, 21
		blocks := randomBlocks(r, typ, rows, cols)
		want := make([]float32, rows*cols)
		typ.Dequantize(want, blocks)
		w := packedQ(typ, blocks, rows, cols)
		for row := range rows {
			got := make([]float32, cols)
			cpu.LoadQRow(got, w[row/cpu.TileRows*cpu.QTileBytes(typ, cols):], typ, row%cpu.TileRows)
			require.Equal(t, want[row*cols:(row+1)*cols], got, "%v row %d", typ, row)
		}
	}
}

// Packed weights take no more memory than their blocks, but for scales of six bits.
func TestQTileBytes(t *testing.T) {
	const cols = 4096
	for _, typ := range quantTypes {
		blocks, packed := cpu.TileRows*typ.RowBytes(cols), cpu.QTileBytes(typ, cols)
		require.GreaterOrEqual(t, packed, blocks, typ)
		require.LessOrEqual(t, float64(packed), 1.03*float64(blocks), typ)
	}
}

func TestQRow(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	x := normal(r, 32*12)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	clear(x[32:64])
	x[70], x[100], x[130], x[165] = nan, inf, -inf, 1e-38
	for i := range 32 {
		x[160+i] *= 1e-37
		x[192+i] *= 1e37
		x[224+i] = float32(i) - 15.5
		x[256+i] = math.MaxFloat32
		x[288+i] = -math.SmallestNonzeroFloat32
	}
	for _, tier := range cpu.Tiers() {
		q, want := newQRow(len(x)), newQRow(len(x))
		q.Quantize(tier, x)
		want.Quantize(cpu.Generic, x)
		require.Equal(t, want.Q, q.Q, tier)
		require.Equal(t, bitsOf(want.Scale), bitsOf(q.Scale), tier)
		require.Equal(t, want.Sums, q.Sums, tier)
		for b, scale := range q.Scale {
			var low, high int32
			for i, v := range q.Q[b*32:][:32] {
				if i < 16 {
					low += int32(v)
				} else {
					high += int32(v)
				}
				switch {
				case b >= 2 && b <= 4:
					require.True(t, scale != scale, "a block with a NaN or an infinity")
				case b == 1 || b == 5 || b == 9:
					require.Zero(t, scale)
				default:
					require.InDelta(t, x[b*32+i]/scale, float32(v), 0.5001)
				}
			}
			require.Equal(t, []int32{low, high}, q.Sums[2*b:2*b+2])
		}
	}
}
