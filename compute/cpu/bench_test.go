package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
)

// decoder is a decoder's weights and buffers with random numbers: the
// operations of one forward pass, in order.
type decoder struct {
	b                            *cpu.Backend
	shape                        decoderShape
	spec                         compute.AttentionSpec
	embed                        compute.Matrix
	qkv, out, up, down           []compute.Matrix
	norm                         compute.Vector
	rope                         compute.Rope
	kv                           compute.KVCache
	x, h, qkvBuf, att, gate, act compute.Buffer
	last, logits                 compute.Buffer
}

type decoderShape struct {
	hidden, layers, heads, kvHeads, headDim, ffn, vocab int
	dtype                                               compute.DType
	quantize                                            compute.DType // of the matrices, at load; F32 = not at all
}

// quantised returns the shape with quantised matrices.
func (s decoderShape) quantised(to compute.DType) decoderShape {
	s.quantize = to
	return s
}

// Two shapes: the embedded model's, and layers of a 1.1B one.
var (
	small = decoderShape{192, 6, 6, 3, 32, 512, 2048, compute.BF16, compute.F32}
	large = decoderShape{2048, 2, 32, 4, 64, 5632, 2048, compute.BF16, compute.F32}
)

// multiplyAdds returns those of the weights for so many tokens and rows of logits.
func (s decoderShape) multiplyAdds(tokens, logits int) int {
	perLayer := s.hidden * ((s.heads+2*s.kvHeads)*s.headDim + s.heads*s.headDim + 3*s.ffn)
	return tokens*s.layers*perLayer + logits*s.vocab*s.hidden
}

const benchBlock = 16

func newDecoder(t testing.TB, b *cpu.Backend, s decoderShape, rows, blocks int) *decoder {
	r := rand.New(rand.NewPCG(1, 2))
	matrix := func(rows, cols int) compute.Matrix {
		data := make([]byte, rows*cols*s.dtype.Size())
		for i := range data {
			data[i] = byte(r.Uint32())
			if i%2 == 1 { // keep the exponent small
				data[i] = data[i]&0x80 | 0x3c
			}
		}
		m, err := b.NewMatrix(compute.RawTensor{Name: "w", DType: s.dtype, Rows: rows, Cols: cols, Data: data, Quantize: s.quantize})
		require.NoError(t, err)
		return m
	}
	buffer := func(rows, cols int) compute.Buffer {
		buf, err := b.NewBuffer(rows, cols)
		require.NoError(t, err)
		return buf
	}
	d := &decoder{b: b, shape: s, spec: compute.AttentionSpec{NumHeads: s.heads, NumKVHeads: s.kvHeads, HeadDim: s.headDim, Scale: 0.1}}
	qkv, inner := (s.heads+2*s.kvHeads)*s.headDim, s.heads*s.headDim
	d.embed = matrix(s.vocab, s.hidden)
	for range s.layers {
		d.qkv, d.out = append(d.qkv, matrix(qkv, s.hidden)), append(d.out, matrix(s.hidden, inner))
		d.up, d.down = append(d.up, matrix(2*s.ffn, s.hidden)), append(d.down, matrix(s.hidden, s.ffn))
	}
	d.x, d.h, d.qkvBuf, d.att = buffer(rows, s.hidden), buffer(rows, s.hidden), buffer(rows, qkv), buffer(rows, inner)
	d.gate, d.act, d.last, d.logits = buffer(rows, 2*s.ffn), buffer(rows, s.ffn), buffer(rows, s.hidden), buffer(rows, s.vocab)
	ones := make([]byte, 2*s.hidden)
	for i := range s.hidden {
		ones[2*i], ones[2*i+1] = 0x80, 0x3f // 1 in BF16
	}
	var err error
	d.norm, err = b.NewVector(compute.RawTensor{DType: compute.BF16, Rows: 1, Cols: s.hidden, Data: ones})
	require.NoError(t, err)
	table := compute.RopeTable{HalfDim: s.headDim / 2}
	for i := range blocks * benchBlock * s.headDim / 2 {
		sin, cos := math.Sincos(float64(i))
		table.Cos, table.Sin = append(table.Cos, float32(cos)), append(table.Sin, float32(sin))
	}
	d.rope, err = b.NewRope(table)
	require.NoError(t, err)
	d.kv, err = b.NewKVCache(compute.KVSpec{NumLayers: s.layers, NumBlocks: blocks, BlockSize: benchBlock, NumKVHeads: s.kvHeads, HeadDim: s.headDim})
	require.NoError(t, err)
	return d
}

// step runs one forward pass with logits for the last row of every sequence.
func (d *decoder) step(batch *compute.Batch, lastRows []int32) {
	n := len(batch.TokenIDs)
	d.b.Embed(d.x, d.embed, batch.TokenIDs)
	for l := range d.shape.layers {
		d.b.RMSNorm(d.h, d.x, d.norm, 1e-5, n)
		d.b.Linear(d.qkvBuf, d.h, d.qkv[l], n)
		d.b.RopeStore(d.qkvBuf, d.spec, d.rope, d.kv, l, batch)
		d.b.Attention(d.att, d.qkvBuf, d.spec, d.kv, l, batch)
		d.b.LinearAdd(d.x, d.att, d.out[l], n)
		d.b.RMSNorm(d.h, d.x, d.norm, 1e-5, n)
		d.b.Linear(d.gate, d.h, d.up[l], n)
		d.b.SiluMul(d.act, d.gate, n)
		d.b.LinearAdd(d.x, d.act, d.down[l], n)
	}
	d.b.Gather(d.last, d.x, lastRows)
	d.b.RMSNorm(d.h, d.last, d.norm, 1e-5, len(lastRows))
	d.b.Linear(d.logits, d.h, d.embed, len(lastRows))
}

// uniformBatch gives seqs sequences query new tokens at the end of context.
func uniformBatch(seqs, query, context int) (*compute.Batch, []int32) {
	b := &compute.Batch{}
	var last []int32
	blocks := (context + benchBlock - 1) / benchBlock
	for s := range seqs {
		seq := compute.BatchSeq{QueryStart: s * query, QueryLen: query, ContextLen: context}
		for i := range blocks {
			seq.BlockTable = append(seq.BlockTable, int32(i*seqs+s))
		}
		for pos := context - query; pos < context; pos++ {
			b.TokenIDs, b.Positions = append(b.TokenIDs, int32(pos)), append(b.Positions, int32(pos))
			b.SlotMapping = append(b.SlotMapping, seq.BlockTable[pos/benchBlock]*benchBlock+int32(pos%benchBlock))
		}
		b.Seqs, last = append(b.Seqs, seq), append(last, int32((s+1)*query-1))
	}
	return b, last
}

// workload is seqs sequences that each compute query tokens at the end of context.
type workload struct{ seqs, query, context int }

func (w workload) String() string {
	return fmt.Sprintf("seqs=%d,query=%d,context=%d", w.seqs, w.query, w.context)
}

func (w workload) blocks() int { return w.seqs * ((w.context + benchBlock - 1) / benchBlock) }

var workloads = []workload{
	{1, 1, 16}, {1, 1, 300}, {1, 1, 900}, {8, 1, 128}, {32, 1, 128}, {32, 1, 600}, {256, 1, 128}, {1, 512, 512}, {1, 1024, 1024},
}

// fill writes the batch's whole contexts: memory never written is one page of
// zeros, and fast as no real cache is.
func (d *decoder) fill(t testing.TB, batch *compute.Batch) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, q := range batch.Seqs {
		whole := &compute.Batch{}
		for pos := range int32(q.ContextLen) {
			whole.Positions = append(whole.Positions, pos)
			whole.SlotMapping = append(whole.SlotMapping, q.BlockTable[pos/benchBlock]*benchBlock+pos%benchBlock)
		}
		rows, err := d.b.NewBuffer(q.ContextLen, d.qkvBuf.Cols())
		require.NoError(t, err)
		values := make([]float32, q.ContextLen*d.qkvBuf.Cols())
		for i := range values {
			values[i] = r.Float32() - 0.5
		}
		d.b.Upload(rows, 0, values)
		for layer := range d.shape.layers {
			d.b.RopeStore(rows, d.spec, d.rope, d.kv, layer, whole)
		}
		rows.Free()
	}
}

// BenchmarkStep reports forward passes: tokens per second, and the arithmetic
// of the weights alone.
func BenchmarkStep(b *testing.B) {
	for name, shape := range map[string]decoderShape{
		"small": small, "large": large, "large-q8_0": large.quantised(compute.Q8_0), "large-q4_0": large.quantised(compute.Q4_0),
	} {
		for _, w := range workloads {
			b.Run(name+"/"+w.String(), func(b *testing.B) {
				d := newDecoder(b, newBackend(b, cpu.Options{}), shape, w.seqs*w.query, w.blocks())
				batch, last := uniformBatch(w.seqs, w.query, w.context)
				d.fill(b, batch)
				d.step(batch, last)
				b.ReportAllocs()
				for b.Loop() {
					d.step(batch, last)
				}
				steps := float64(b.N)
				b.ReportMetric(steps*float64(w.seqs*w.query)/b.Elapsed().Seconds(), "tok/s")
				flop := 2 * steps * float64(shape.multiplyAdds(w.seqs*w.query, w.seqs))
				b.ReportMetric(flop/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
			})
		}
	}
}
