package computetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
)

// newRand returns a generator whose numbers depend on the test's name only.
func newRand(t *testing.T) *rand.Rand {
	seed := uint64(14695981039346656037)
	for _, c := range []byte(t.Name()) {
		seed = (seed ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, 1))
}

// uniform returns n values in [-scale, scale).
func uniform(r *rand.Rand, n int, scale float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = (2*r.Float32() - 1) * scale
	}
	return x
}

// tensor rounds values to d and returns them as a file would hold them, and as
// the numbers they now are.
func tensor(d compute.DType, rows, cols int, values []float32) (compute.RawTensor, []float64) {
	t := compute.RawTensor{Name: fmt.Sprintf("%v[%d,%d]", d, rows, cols), DType: d, Rows: rows, Cols: cols}
	rounded := make([]float64, len(values))
	for i, v := range values {
		switch d {
		case compute.F32:
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
			rounded[i] = float64(v)
		case compute.BF16:
			h := uint16(math.Float32bits(v) >> 16)
			t.Data = binary.LittleEndian.AppendUint16(t.Data, h)
			rounded[i] = float64(math.Float32frombits(uint32(h) << 16))
		case compute.F16:
			// Halves with few digits: multiples of 2^-10 in [-2, 2], by hand.
			n := int(math.Round(math.Max(-2, math.Min(2, float64(v))) * 1024))
			t.Data = binary.LittleEndian.AppendUint16(t.Data, halfOf1024ths(n))
			rounded[i] = float64(n) / 1024
		}
	}
	return t, rounded
}

// halfOf1024ths encodes n/1024, |n| <= 2048, as an IEEE half.
func halfOf1024ths(n int) uint16 {
	if n == 0 {
		return 0
	}
	sign := uint16(0)
	if n < 0 {
		sign, n = 0x8000, -n
	}
	exp := 0
	for n>>exp > 1 {
		exp++
	}
	return sign | uint16(exp+5)<<10 | uint16(n<<10>>exp&1023)
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// filled returns a buffer whose first rows hold values and whose spare rows and
// everything else hold NaN.
func filled(t *testing.T, b compute.Backend, spare, cols int, values []float32) compute.Buffer {
	rows := len(values)/cols + spare
	buf, err := b.NewBuffer(rows, cols)
	require.NoError(t, err)
	require.Equal(t, []int{rows, cols}, []int{buf.Cap(), buf.Cols()})
	all := make([]float32, rows*cols)
	poison(all[copy(all, values):])
	b.Upload(buf, 0, all)
	return buf
}

func poison(x []float32) {
	for i := range x {
		x[i] = float32(math.NaN())
	}
}

// result returns a copy of a buffer's first rows and requires the next ones,
// poisoned before, to be untouched.
func result(t *testing.T, b compute.Backend, buf compute.Buffer, rows int) []float32 {
	require.NoError(t, b.Sync())
	out := append([]float32(nil), b.Host(buf, 0, rows)...)
	for _, v := range b.Host(buf, rows, buf.Cap()-rows) {
		if v == v {
			require.Failf(t, "overrun", "a row after the first %d was written", rows)
		}
	}
	return out
}

// requireClose requires |got - want| <= tol * (1 + |want|) everywhere.
func requireClose(t *testing.T, want []float64, got []float32, tol float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if diff := math.Abs(float64(got[i]) - w); !(diff <= tol*(1+math.Abs(w))) {
			require.Failf(t, "too far", "element %d is %v, want %v", i, got[i], w)
		}
	}
}

// requireSameBits requires equality bit for bit.
func requireSameBits(t *testing.T, want, got []float32, msg ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if math.Float32bits(w) != math.Float32bits(got[i]) {
			require.Failf(t, "other bits", "element %d is %v, want %v: %v", i, got[i], w, fmt.Sprint(msg...))
		}
	}
}
