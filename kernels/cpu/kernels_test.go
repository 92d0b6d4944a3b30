package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/cpu"
)

var formats = []cpu.Format{cpu.F32, cpu.F16, cpu.BF16}

// poisoned returns n NaNs.
func poisoned(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	return x
}

// normal returns n values around 0 whose sizes differ widely, so that the order
// of additions shows in the last bits.
func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(12)-6)))
	}
	return x
}

// requireSameBits treats all NaNs as one.
func requireSameBits(t *testing.T, want, got []float32, msg string, args ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if math.Float32bits(w) != math.Float32bits(got[i]) && (w == w || got[i] == got[i]) {
			require.Failf(t, "other bits", "element %d is %v, want %v: %s", i, got[i], w, fmt.Sprintf(msg, args...))
		}
	}
}

// packed is a weight with random tiles.
func packed(r *rand.Rand, f cpu.Format, tiles, k int) []byte {
	size := cpu.TileBytes(f, k)
	w := make([]byte, tiles*size)
	for t := range tiles {
		for lane := range cpu.TileRows {
			(&cpu.Store{Tiles: w[t*size:][:size], Format: f, At: lane}).Lane(cpu.Generic, normal(r, k))
		}
	}
	return w
}

// TestGemmTiersAgree computes every shape on every tier, whole and column by
// column, and requires the bits of the pure Go chains.
func TestGemmTiersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range formats {
		for _, k := range []int{0, 1, 2, 17, 32} {
			for _, tiles := range []int{1, 2, 3, 7} {
				for nr := 1; nr <= cpu.AVX512.MaxCols(); nr++ {
					for _, finish := range []cpu.Finish{cpu.Set, cpu.Add} {
						gemmCase{f, k, tiles, nr, finish}.check(t, r)
					}
				}
			}
		}
	}
}

type gemmCase struct {
	format       cpu.Format
	k, tiles, nr int
	finish       cpu.Finish
}

func (c gemmCase) check(t *testing.T, r *rand.Rand) {
	w, x := packed(r, c.format, c.tiles, c.k), normal(r, c.k*c.nr)
	ldo := c.tiles*cpu.TileRows + 3
	start := poisoned((c.nr-1)*ldo + c.tiles*cpu.TileRows)
	if c.finish != cpu.Set {
		start = normal(r, len(start))
	}
	run := func(tier cpu.Tier) []float32 {
		out := append([]float32(nil), start...)
		g := cpu.Gemm{
			W: w, X: x, Out: out, K: c.k, NR: c.nr, Tiles: c.tiles,
			TileBytes: cpu.TileBytes(c.format, c.k), LDO: ldo, Finish: c.finish, Format: c.format,
		}
		g.Run(tier)
		return out
	}
	want := run(cpu.Generic)
	for _, tier := range cpu.Tiers() {
		if c.nr <= tier.MaxCols() {
			requireSameBits(t, want, run(tier), "%v %+v", tier, c)
		}
		requireSameBits(t, want, c.byColumns(tier, w, x, start, ldo), "%v by columns %+v", tier, c)
	}
}

// byColumns computes one column at a time.
func (c gemmCase) byColumns(tier cpu.Tier, w []byte, x, start []float32, ldo int) []float32 {
	out := append([]float32(nil), start...)
	for j := range c.nr {
		column := make([]float32, c.k)
		for k := range column {
			column[k] = x[k*c.nr+j]
		}
		g := cpu.Gemm{
			W: w, X: column, Out: out[j*ldo:], K: c.k, NR: 1, Tiles: c.tiles,
			TileBytes: cpu.TileBytes(c.format, c.k), Finish: c.finish, Format: c.format,
		}
		g.Run(tier)
	}
	return out
}

// TestGemmReadsNoMoreThanK gives tiles more columns than are summed, with NaN
// in the rest.
func TestGemmReadsNoMoreThanK(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const whole = 9
	for _, f := range formats {
		for k := range whole {
			size := cpu.TileBytes(f, whole)
			w := make([]byte, 2*size)
			for lane := range 2 * cpu.TileRows {
				row := append(normal(r, k), poisoned(whole-k)...)
				(&cpu.Store{Tiles: w[lane/cpu.TileRows*size:][:size], Format: f, At: lane % cpu.TileRows}).Lane(cpu.Generic, row)
			}
			for _, tier := range cpu.Tiers() {
				out := poisoned(2 * cpu.TileRows)
				g := cpu.Gemm{W: w, X: normal(r, k), Out: out, K: k, NR: 1, Tiles: 2, TileBytes: size, Format: f}
				g.Run(tier)
				for _, v := range out {
					require.False(t, v != v, "%v %v %d", tier, f, k)
				}
			}
		}
	}
}

func TestGemmRefusesWrongShapes(t *testing.T) {
	good := func() cpu.Gemm {
		return cpu.Gemm{
			W: make([]byte, 2*cpu.TileBytes(cpu.F32, 4)), X: make([]float32, 8), Out: make([]float32, 64),
			K: 4, NR: 2, Tiles: 2, TileBytes: cpu.TileBytes(cpu.F32, 4), LDO: 32,
		}
	}
	for _, tier := range cpu.Tiers() {
		g := good()
		g.Run(tier)
		for i, spoil := range []func(*cpu.Gemm){
			func(g *cpu.Gemm) { g.W = g.W[1:] },
			func(g *cpu.Gemm) { g.X = g.X[1:] },
			func(g *cpu.Gemm) { g.Out = g.Out[1:] },
			func(g *cpu.Gemm) { g.K = 5 },
			func(g *cpu.Gemm) { g.K = -1 },
			func(g *cpu.Gemm) { g.NR = 0 },
			func(g *cpu.Gemm) { g.NR = tier.MaxCols() + 1 },
			func(g *cpu.Gemm) { g.Tiles = 3 },
			func(g *cpu.Gemm) { g.LDO = 31 },
			func(g *cpu.Gemm) { g.TileBytes++ },
			func(g *cpu.Gemm) { g.TileBytes = -4 },
			func(g *cpu.Gemm) { g.Finish = 2 },
		} {
			g := good()
			spoil(&g)
			require.Panics(t, func() { g.Run(tier) }, "%v %d", tier, i)
		}
	}
}

func TestPackPanel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, tier := range cpu.Tiers() {
		for nr := 1; nr <= 13; nr++ {
			for k := range 23 {
				ld := k + 2
				src, dst := normal(r, nr*ld), poisoned(k*nr+4)
				cpu.PackPanel(tier, dst, src, k, nr, ld)
				for j := range nr {
					for c := range k {
						require.Equal(t, src[j*ld+c], dst[c*nr+j])
					}
				}
				for _, v := range dst[k*nr:] {
					require.True(t, v != v, "nothing is written after the panel")
				}
			}
		}
	}
}

// TestPackRows compares whole packed rows with the layout's definition.
func TestPackRows(t *testing.T) {
	for _, f := range formats {
		for _, cols := range []int{1, 2, 7} {
			raw := make([]byte, 3*cols*f.Size())
			for i := range raw {
				raw[i] = byte(i*7 + 1)
			}
			tile := make([]byte, cpu.TileBytes(f, cols))
			cpu.PackRows(tile, raw, f, cols, 5)
			for row := range 3 {
				for c := range cols {
					want := raw[(row*cols+c)*f.Size():][:f.Size()]
					require.Equal(t, want, tile[cpu.ElemOffset(f, c, 5+row):][:f.Size()])
				}
			}
			require.Panics(t, func() { cpu.PackRows(tile, raw, f, cols, 14) })
		}
	}
}

// TestRowKernelsTiersAgree also covers what exp makes of extreme arguments.
func TestRowKernelsTiersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, tier := range cpu.Tiers() {
		for n := range 70 {
			x, w := normal(r, n), normal(r, n)
			want, got := poisoned(n), poisoned(n)
			require.Equal(t, cpu.SumSquares(cpu.Generic, x), cpu.SumSquares(tier, x))
			cpu.ScaleMul(cpu.Generic, want, x, w, 0.37)
			cpu.ScaleMul(tier, got, x, w, 0.37)
			requireSameBits(t, want, got, "ScaleMul")
			cpu.Blend(cpu.Generic, want, w, 0.37, -1.7)
			cpu.Blend(tier, got, w, 0.37, -1.7)
			requireSameBits(t, want, got, "Blend")
			cpu.Scale(cpu.Generic, want, x, -2.9)
			cpu.Scale(tier, got, x, -2.9)
			requireSameBits(t, want, got, "Scale")
			for i := range x {
				x[i] *= 8
			}
			copy(x, []float32{float32(math.Inf(1)), float32(math.NaN()), -87.5, 0, float32(math.Inf(-1)), 88.2, -90})
			cpu.SiluMul(cpu.Generic, want, x, w)
			cpu.SiluMul(tier, got, x, w)
			requireSameBits(t, want, got, "SiluMul")
			cpu.GeluMul(cpu.Generic, want, x, w)
			cpu.GeluMul(tier, got, x, w)
			requireSameBits(t, want, got, "GeluMul")
			copy(want, x)
			copy(got, x)
			cpu.SoftCap(cpu.Generic, want, 0.3, 30)
			cpu.SoftCap(tier, got, 0.3, 30)
			requireSameBits(t, want, got, "SoftCap")
		}
	}
}
