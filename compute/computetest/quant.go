package computetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/kernels/cpu/quant"
	"github.com/troupe-llm/troupe/kernels/ref"
)

var quantised = []compute.DType{compute.Q8_0, compute.Q4_0, compute.Q4_K, compute.Q5_K, compute.Q6_K}

// blocks makes a weight of random blocks with scales near 2^-8, and returns the
// numbers that it stands for.
func blocks(r *rand.Rand, d compute.DType, rows, cols int) (compute.RawTensor, []float64) {
	q, _ := d.Quant()
	t := compute.RawTensor{Name: fmt.Sprintf("%v[%d,%d]", d, rows, cols), DType: d, Rows: rows, Cols: cols, Data: make([]byte, rows*d.RowBytes(cols))}
	for i := range t.Data {
		t.Data[i] = byte(r.Uint32())
	}
	half := func(at int) { binary.LittleEndian.PutUint16(t.Data[at:], uint16(r.Uint32())&0x83ff|7<<10) }
	for i := 0; i < len(t.Data); i += q.Bytes() {
		switch {
		case d == compute.Q6_K:
			half(i + 208)
		case q.HasMin():
			half(i + 2)
			fallthrough
		default:
			half(i)
		}
	}
	values := make([]float32, rows*cols)
	q.Dequantize(values, t.Data)
	return t, widen(values)
}

// requireRounded requires got to be x·wᵀ but for the rounding of activations to
// 127 steps of the largest of each 32, half a step at most.
func requireRounded(t *testing.T, x []float32, w []float64, cols int, got []float32) {
	t.Helper()
	want := ref.Linear(widen(x), w, cols)
	rows := len(w) / cols
	for i, v := range got {
		bound := 1e-4
		for k := range cols {
			largest := 0.0
			for _, a := range x[i/rows*cols+k/32*32:][:32] {
				largest = math.Max(largest, math.Abs(float64(a)))
			}
			bound += math.Abs(w[i%rows*cols+k]) * largest / 127 * 0.501
		}
		require.InDelta(t, want[i], v, bound, "element %d", i)
	}
}

func testQuantisedLinear(t *testing.T, b *suite) {
	r := newRand(t)
	for _, d := range quantised {
		for _, rows := range []int{1, 16, 33, 80} {
			q, _ := d.Quant()
			cols := 2 * q.Elements()
			raw, w := blocks(r, d, rows, cols)
			m, err := b.NewMatrix(raw)
			require.NoError(t, err)
			clear(raw.Data)
			for _, n := range []int{0, 1, 2, 3, 7, 13} {
				if !b.turn() {
					continue
				}
				x := uniform(r, n*cols, 1)
				src, dst := filled(t, b, 1, cols, x), filled(t, b, n+1, rows, nil)
				b.Linear(dst, src, m, n)
				got := result(t, b, dst, n)
				requireRounded(t, x, w, cols, got)

				old := uniform(r, n*rows, 1)
				sum := filled(t, b, 2, rows, old)
				b.LinearAdd(sum, src, m, n)
				for i, v := range result(t, b, sum, n) {
					require.Equal(t, old[i]+got[i], v)
				}
			}
			ids := []int32{0, int32(rows - 1)}
			dst := filled(t, b, len(ids), cols, nil)
			b.Embed(dst, m, ids)
			for i, v := range result(t, b, dst, len(ids)) {
				require.Equal(t, w[int(ids[i/cols])*cols+i%cols], float64(v), "nothing is rounded")
			}
		}
	}
}

// A row has the bits that it has alone.
func testQuantisedRows(t *testing.T, b *suite) {
	r := newRand(t)
	const rows, n = 70, 33
	for _, d := range quantised {
		if !b.turn() {
			continue
		}
		const cols = quant.MaxElements
		raw, _ := blocks(r, d, rows, cols)
		m, err := b.NewMatrix(raw)
		require.NoError(t, err)
		x := uniform(r, n*cols, 1)
		x[5*cols] = float32(math.Inf(1)) // one row's trouble is its own
		src, dst := filled(t, b, 0, cols, x), filled(t, b, n, rows, nil)
		b.Linear(dst, src, m, n)
		together := result(t, b, dst, n)
		for i := range n {
			one, alone := filled(t, b, 0, cols, x[i*cols:(i+1)*cols]), filled(t, b, 1, rows, nil)
			b.Linear(alone, one, m, 1)
			got := result(t, b, alone, 1)
			for j, v := range got {
				require.Equal(t, i == 5, v != v, "only the row with the infinity has no result")
				require.True(t, i == 5 || v == together[i*rows+j], "row %d of %v", i, d)
			}
		}
	}
}

// Parts of different types are one matrix.
func testStackedTypes(t *testing.T, b *suite) {
	r := newRand(t)
	const cols, n = quant.MaxElements, 5
	x := uniform(r, n*cols, 0.1)
	var parts []compute.RawTensor
	var all []float64
	for i, d := range []compute.DType{compute.Q4_K, compute.Q4_K, compute.Q6_K, compute.F32, compute.BF16, compute.Q8_0} {
		rows := 7 + 9*i
		if _, ok := d.Quant(); ok {
			raw, w := blocks(r, d, rows, cols)
			parts, all = append(parts, raw), append(all, w...)
			continue
		}
		raw, w := tensor(d, rows, cols, uniform(r, rows*cols, 1))
		parts, all = append(parts, raw), append(all, w...)
	}
	m, err := b.NewMatrix(parts...)
	require.NoError(t, err)
	require.Equal(t, len(all)/cols, m.Rows())
	src, dst := filled(t, b, 0, cols, x), filled(t, b, n, m.Rows(), nil)
	b.Linear(dst, src, m, n)
	requireRounded(t, x, all, cols, result(t, b, dst, n))
	table := filled(t, b, m.Rows(), cols, nil)
	for row := range m.Rows() {
		b.Embed(table, m, []int32{int32(row)})
		require.NoError(t, b.Sync())
		require.Equal(t, all[row*cols:(row+1)*cols], widen(b.Host(table, 0, 1)), "row %d", row)
	}
}

// What is quantised at load is as if its file held the blocks.
func testQuantiseAtLoad(t *testing.T, b *suite) {
	r := newRand(t)
	const rows, cols, n = 37, 96, 3
	x := uniform(r, n*cols, 1)
	run := func(raw compute.RawTensor) []float32 {
		m, err := b.NewMatrix(raw)
		require.NoError(t, err)
		src, dst := filled(t, b, 0, raw.Cols, x[:n*raw.Cols]), filled(t, b, n, rows, nil)
		b.Linear(dst, src, m, n)
		return result(t, b, dst, n)
	}
	for _, to := range []compute.DType{compute.Q8_0, compute.Q4_0} {
		q, _ := to.Quant()
		for _, d := range dtypes {
			raw, w := tensor(d, rows, cols, uniform(r, rows*cols, 1))
			values := make([]float32, len(w))
			for i, v := range w {
				values[i] = float32(v)
			}
			made := compute.RawTensor{Name: "made", DType: to, Rows: rows, Cols: cols, Data: q.Append(nil, values)}
			raw.Quantize = to
			requireSameBits(t, run(made), run(raw), to, d)
			requireSameBits(t, run(made), run(compute.RawTensor{Name: "made", DType: to, Rows: rows, Cols: cols, Data: made.Data, Quantize: to}), "blocks stay")
		}
		odd, _ := tensor(compute.F32, rows, 31, uniform(r, rows*31, 1))
		want := run(odd)
		odd.Quantize = to
		requireSameBits(t, want, run(odd), "rows that are no whole blocks stay as they are")
	}
}
