package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// BenchmarkGemm reports arithmetic and weight traffic for weights that stay in a
// core's cache.
func BenchmarkGemm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const k, tiles = 192, 64
	for _, tier := range cpu.Tiers() {
		for _, f := range formats {
			w := packed(r, f, tiles, k)
			for _, nr := range []int{1, 2, 4, 6, 8, 12} {
				if nr > tier.MaxCols() {
					continue
				}
				b.Run(fmt.Sprintf("%v/%s/cols=%d", tier, [...]string{"f32", "f16", "bf16"}[f], nr), func(b *testing.B) {
					g := cpu.Gemm{
						W: w, X: normal(r, k*nr), Out: make([]float32, nr*tiles*cpu.TileRows),
						K: k, NR: nr, Tiles: tiles, TileBytes: cpu.TileBytes(f, k), LDO: tiles * cpu.TileRows, Format: f,
					}
					b.ReportAllocs()
					b.SetBytes(int64(len(w)))
					for b.Loop() {
						g.Run(tier)
					}
					flop := float64(2*k*tiles*cpu.TileRows*nr) * float64(b.N)
					b.ReportMetric(flop/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
				})
			}
		}
	}
}

// BenchmarkQGemm is BenchmarkGemm for quantised weights.
func BenchmarkQGemm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const cols, tiles = 512, 16
	for _, tier := range cpu.Tiers() {
		for _, typ := range quantTypes {
			w := packedQ(typ, randomBlocks(r, typ, tiles*cpu.TileRows, cols), tiles*cpu.TileRows, cols)
			for nr := 1; nr <= tier.MaxQCols(); nr++ {
				b.Run(fmt.Sprintf("%v/%v/cols=%d", tier, typ, nr), func(b *testing.B) {
					g := cpu.QGemm{
						W: w, X: qpanel(tier, typ, normal(r, cols*nr), cols, nr), Out: make([]float32, nr*tiles*cpu.TileRows), Blocks: cols / cpu.QBlock,
						NR: nr, Tiles: tiles, TileBytes: cpu.QTileBytes(typ, cols), LDO: tiles * cpu.TileRows, Type: typ,
					}
					b.ReportAllocs()
					b.SetBytes(int64(len(w)))
					for b.Loop() {
						g.Run(tier)
					}
					op := float64(2*cols*tiles*cpu.TileRows*nr) * float64(b.N)
					b.ReportMetric(op/float64(b.Elapsed().Nanoseconds()), "Gop/s")
				})
			}
		}
	}
}

// BenchmarkPackQRows reports the repacking of weights at load.
func BenchmarkPackQRows(b *testing.B) {
	const cols = 2048
	r := rand.New(rand.NewPCG(3, 3))
	for _, typ := range quantTypes {
		b.Run(typ.String(), func(b *testing.B) {
			blocks, tile := randomBlocks(r, typ, cpu.TileRows, cols), make([]byte, cpu.QTileBytes(typ, cols))
			b.ReportAllocs()
			b.SetBytes(int64(len(blocks)))
			for b.Loop() {
				cpu.PackQRows(tile, blocks, typ, cols, 0)
			}
		})
	}
}

// BenchmarkPackQPanel reports the quantisation of activations.
func BenchmarkPackQPanel(b *testing.B) {
	const cols = 2048
	x := normal(rand.New(rand.NewPCG(2, 2)), 6*cols)
	for _, tier := range cpu.Tiers() {
		for _, nr := range []int{1, 6} {
			b.Run(fmt.Sprintf("%v/cols=%d", tier, nr), func(b *testing.B) {
				dst := make([]float32, cpu.QPanelWords(quant.Q8_0, cols, nr))
				o := cpu.QPanelShape{Cols: cols, NR: nr, LD: cols, Scratch: make([]float32, cpu.QPanelScratch(cols, nr))}
				b.ReportAllocs()
				b.SetBytes(int64(4 * cols * nr))
				for b.Loop() {
					cpu.PackQPanel(tier, dst, quant.Q8_0, x, o)
				}
			})
		}
	}
}

// BenchmarkRows reports the row operations at the width of a small model.
func BenchmarkRows(b *testing.B) {
	r := rand.New(rand.NewPCG(2, 2))
	const n = 512
	x, w, dst := normal(r, n), normal(r, n), make([]float32, 12*n)
	rows := normal(r, 12*n)
	for _, tier := range cpu.Tiers() {
		for _, op := range []struct {
			name string
			run  func()
		}{
			{"SumSquares", func() { cpu.SumSquares(tier, x) }},
			{"ScaleMul", func() { cpu.ScaleMul(tier, dst, x, w, 0.5) }},
			{"SiluMul", func() { cpu.SiluMul(tier, dst, x, w) }},
			{"Softmax", func() { copy(dst, rows); cpu.Softmax(tier, dst, 2, n, n, 0.1, x[:2], w[:2]) }},
			{"PackPanel", func() { cpu.PackPanel(tier, dst, rows, n, 12, n) }},
		} {
			b.Run(fmt.Sprintf("%v/%s", tier, op.name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(4 * n)
				for b.Loop() {
					op.run()
				}
			})
		}
	}
}

// BenchmarkAttend reports the parts of attention over a span of 256 positions, for
// two queries of 32 dimensions.
func BenchmarkAttend(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, tier := range cpu.Tiers() {
		for _, f := range storeFormats {
			c := attendCase{f, 32, 2, 256}
			scores, _ := c.keys(r)
			values, _ := c.values(r)
			rows, largest, total := normal(r, 2*cpu.ScoreStride), make([]float32, 2), make([]float32, 2)
			for _, op := range []struct {
				name string
				run  func()
			}{
				{"Scores", func() { scores.Scores(tier) }},
				{"Softmax", func() { cpu.Softmax(tier, rows, 2, cpu.ScoreStride, 256, 0.1, largest, total) }},
				{"Values", func() { values.Values(tier) }},
			} {
				b.Run(fmt.Sprintf("%v/%v/%s", tier, f, op.name), func(b *testing.B) {
					for b.Loop() {
						op.run()
					}
				})
			}
		}
	}
}
