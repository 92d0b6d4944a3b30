package cpu_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

func TestOptions(t *testing.T) {
	for _, o := range []cpu.Options{{Threads: -1}, {Threads: 1 << 20}, {Tier: 77}} {
		_, err := cpu.New(o)
		require.Error(t, err)
	}
	require.Contains(t, newBackend(t, cpu.Options{Threads: 1}).Describe(), kernels.Best().String()+", 1 thread)")
	require.Contains(t, newBackend(t, cpu.Options{Threads: 3, Tier: kernels.Generic}).Describe(), "generic, 3 threads)")
}

// step returns the logits of one step of a random decoder.
func step(t *testing.T, o cpu.Options, w workload) []float32 {
	b := newBackend(t, o)
	shape := decoderShape{hidden: 72, layers: 2, heads: 6, kvHeads: 3, headDim: 24, ffn: 100, vocab: 130, dtype: compute.BF16}
	d := newDecoder(t, b, shape, w.seqs*w.query, w.blocks())
	batch, last := uniformBatch(w.seqs, w.query, w.context)
	d.step(batch, last)
	require.NoError(t, b.Sync())
	logits := append([]float32(nil), b.Host(d.logits, 0, w.seqs)...)
	for _, v := range logits {
		require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0))
	}
	require.NotEqual(t, logits[0], logits[1])
	return logits
}

// TestBitsDependOnNothingElse compares tiers and numbers of threads.
func TestBitsDependOnNothingElse(t *testing.T) {
	for _, w := range []workload{{1, 1, 1}, {1, 40, 40}, {7, 3, 3}, {40, 1, 1}} {
		want := step(t, cpu.Options{Tier: kernels.Generic, Threads: 1}, w)
		for _, tier := range kernels.Tiers() {
			for _, threads := range []int{1, 2, 5} {
				got := step(t, cpu.Options{Tier: tier, Threads: threads}, w)
				for i := range want {
					require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "%v %v, %d threads: logit %d", w, tier, threads, i)
				}
			}
		}
	}
}

// TestLargeProduct covers weights in huge pages and work of many chunks.
func TestLargeProduct(t *testing.T) {
	const rows, cols, n = 2100, 1030, 300
	data := make([]byte, rows*cols*2)
	x := make([]float32, n*cols)
	for i := range rows * cols {
		data[2*i+1] = []byte{0x3e, 0xbe, 0x3f, 0xbf}[i*i/7%4] // ±0.125, ±0.5
	}
	for i := range x {
		x[i] = float32(i%13-6) / 8
	}
	var results [2][]float32
	for i, threads := range []int{1, 4} {
		b := newBackend(t, cpu.Options{Threads: threads})
		m, err := b.NewMatrix(compute.RawTensor{Name: "w", DType: compute.BF16, Rows: rows, Cols: cols, Data: data})
		require.NoError(t, err)
		src, err := b.NewBuffer(n, cols)
		require.NoError(t, err)
		dst, err := b.NewBuffer(n, rows)
		require.NoError(t, err)
		b.Upload(src, 0, x[:n*src.Cols()])
		b.Linear(dst, src, m, n)
		results[i] = append(results[i], b.Host(dst, 0, n)...)
		b.Linear(dst, src, m, 1)
		require.Equal(t, results[i][:rows], b.Host(dst, 0, 1), "one row alone")
	}
	require.Equal(t, results[0], results[1])
	for _, at := range [][2]int{{0, 0}, {299, 2099}, {150, 1025}, {7, 16}} {
		want := 0.0 // all values are multiples of 1/64 and small: exact
		for c := range cols {
			w := math.Float32frombits(uint32(data[2*(at[1]*cols+c)+1]) << 24)
			want += float64(w) * float64(x[at[0]*cols+c])
		}
		require.EqualValues(t, want, results[0][at[0]*rows+at[1]])
	}
}

func TestNoAllocationPerStep(t *testing.T) {
	for _, threads := range []int{1, 3} {
		b := newBackend(t, cpu.Options{Threads: threads})
		for _, shape := range []decoderShape{small, small.quantised(compute.Q8_0), small.quantised(compute.Q4_0)} {
			for _, w := range []workload{{1, 1, 50}, {9, 1, 33}, {1, 64, 64}} {
				d := newDecoder(t, b, shape, w.seqs*w.query, w.blocks())
				batch, last := uniformBatch(w.seqs, w.query, w.context)
				d.step(batch, last)
				allocs := testing.AllocsPerRun(20, func() { d.step(batch, last) })
				require.Zero(t, allocs, "%v, %d threads", w, threads)
			}
		}
	}
}

// TestWrongShapesPanic: a caller's mistake is seen at once and does not corrupt
// memory.
func TestWrongShapesPanic(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 2})
	d := newDecoder(t, b, small, 4, 4)
	batch, _ := uniformBatch(1, 4, 4)
	change := func(f func(*compute.Batch)) *compute.Batch {
		bad, _ := uniformBatch(1, 4, 4)
		f(bad)
		return bad
	}
	narrow, err := b.NewBuffer(4, 7)
	require.NoError(t, err)
	spec := d.spec
	spec.NumKVHeads = 2
	for i, f := range []func(){
		func() { b.Linear(narrow, d.x, d.qkv[0], 1) },
		func() { b.Linear(d.qkvBuf, narrow, d.qkv[0], 1) },
		func() { b.LinearAdd(d.x, d.att, d.out[0], 5) },
		func() { b.RMSNorm(narrow, d.x, d.norm, 1e-5, 1) },
		func() { b.RMSNorm(d.h, d.x, d.norm, 1e-5, -1) },
		func() { b.SiluMul(d.h, d.gate, 1) },
		func() { b.SiluMul(d.act, d.gate, 5) },
		func() { b.Embed(d.x, d.embed, []int32{2048}) },
		func() { b.Embed(d.x, d.embed, []int32{-1}) },
		func() { b.Embed(narrow, d.embed, []int32{0}) },
		func() { b.Gather(d.h, d.x, []int32{4}) },
		func() { b.Gather(d.h, narrow, []int32{0}) },
		func() { b.Host(d.x, 3, 2) },
		func() { b.RopeStore(d.qkvBuf, spec, d.rope, d.kv, 0, batch) },
		func() { b.RopeStore(d.qkvBuf, d.spec, d.rope, d.kv, 6, batch) },
		func() {
			b.RopeStore(d.qkvBuf, d.spec, d.rope, d.kv, 0, change(func(b *compute.Batch) { b.SlotMapping[1] = 64 }))
		},
		func() {
			b.RopeStore(d.qkvBuf, d.spec, d.rope, d.kv, 0, change(func(b *compute.Batch) { b.Positions[1] = 64 }))
		},
		func() {
			b.RopeStore(d.qkvBuf, d.spec, d.rope, d.kv, 0, change(func(b *compute.Batch) { b.SlotMapping = nil }))
		},
		func() { b.Attention(d.x, d.gate, d.spec, d.kv, 0, batch) },
		func() {
			b.Attention(d.att, d.qkvBuf, d.spec, d.kv, 5, change(func(b *compute.Batch) { b.Seqs[0].BlockTable[0] = 4 }))
		},
		func() {
			b.Attention(d.att, d.qkvBuf, d.spec, d.kv, 0, change(func(b *compute.Batch) { b.Seqs[0].BlockTable[0] = -1 }))
		},
		func() {
			b.Attention(d.att, d.qkvBuf, d.spec, d.kv, 0, change(func(b *compute.Batch) { b.Seqs[0].BlockTable = nil }))
		},
		func() {
			b.Attention(d.att, d.qkvBuf, d.spec, d.kv, 0, change(func(b *compute.Batch) { b.Seqs[0].QueryLen = 5 }))
		},
	} {
		require.Panics(t, f, "call %d", i)
	}
	b.RopeStore(d.qkvBuf, d.spec, d.rope, d.kv, 0, batch)
	b.Attention(d.att, d.qkvBuf, d.spec, d.kv, 0, batch)
	require.NoError(t, b.Sync(), "the backend goes on")
}
