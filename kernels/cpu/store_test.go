package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/cpu"
)

var storeFormats = append([]cpu.Format{cpu.I8}, formats...)

// odd is a row in which are elements that are easily rounded wrong: ties, the ends of
// the ranges, what is too small for a half or nearly so, infinities.
func odd(r *rand.Rand, n int) []float32 {
	special := []float32{
		0, float32(math.Copysign(0, -1)), 0.5, -0.5, 1.5, 2.5, -2.5, 126.5, 127.4, 127.6, -127.5, 1e9, -1e9, 65504, 65519, 65520, -65536,
		0x1p-14, 0x1p-24, 0x1p-25, 0x1.8p-24, -0x1p-26, 1e-40, 1 + 0x1p-11, 1 + 0x3p-11, float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32,
	}
	x := normal(r, n)
	for i := range x {
		if r.IntN(3) == 0 {
			x[i] = special[r.IntN(len(special))]
		}
	}
	return x
}

// TestStoreTiersAgree compares every tier with plain Go, whose elements are checked
// one by one, and requires the rest of the tiles to stay as it is.
func TestStoreTiersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, f := range storeFormats {
		for _, n := range []int{1, 2, 15, 16, 17, 31, 32, 40, 64, 80, 128} {
			v, at := odd(r, n), r.IntN(cpu.TileRows)
			lane, columns := bytes.Repeat([]byte{0xa5}, cpu.TileBytes(f, n+1)), bytes.Repeat([]byte{0xa5}, (cpu.NumTiles(n)+1)*cpu.TileBytes(f, 24))
			l := cpu.Store{Tiles: lane, Format: f, At: at, Inverse: 0.75}
			c := cpu.Store{Tiles: columns, Format: f, At: at, TileBytes: cpu.TileBytes(f, 24), Inverse: 0.75}
			wantLane, wantColumns := bytes.Clone(lane), bytes.Clone(columns)
			for i, x := range v {
				copy(wantLane[cpu.ElemOffset(f, i, at):], stored(f, x, 0.75))
				copy(wantColumns[i/cpu.TileRows*c.TileBytes+cpu.ElemOffset(f, at, i%cpu.TileRows):], stored(f, x, 0.75))
			}
			for _, tier := range cpu.Tiers() {
				l.Tiles, c.Tiles = bytes.Clone(lane), bytes.Clone(columns)
				l.Lane(tier, v)
				c.Columns(tier, v)
				require.Equal(t, wantLane, l.Tiles, "%v lane of %d in format %d", tier, n, f)
				require.Equal(t, wantColumns, c.Tiles, "%v columns of %d in format %d", tier, n, f)
			}
		}
	}
}

// stored is one element as it should be: by the packing of rows, whose halves come
// from arithmetic of their own here.
func stored(f cpu.Format, x, inverse float32) []byte {
	switch f {
	case cpu.F32:
		u := math.Float32bits(x)
		return []byte{byte(u), byte(u >> 8), byte(u >> 16), byte(u >> 24)}
	case cpu.I8:
		return []byte{byte(int8(math.RoundToEven(math.Max(-127, math.Min(127, float64(x*inverse))))))}
	case cpu.F16:
		u := halfOf(math.Max(-65504, math.Min(65504, float64(x))))
		return []byte{byte(u), byte(u >> 8)}
	}
	u := cpu.F32ToBF16(x)
	return []byte{byte(u), byte(u >> 8)}
}

// halfOf rounds a number of the range of halves: its units are 2^-24 at the least.
func halfOf(x float64) (u uint16) {
	if math.Signbit(x) {
		u, x = 0x8000, -x
	}
	if x == 0 {
		return u
	}
	_, exp := math.Frexp(x)
	unit := max(exp-11, -24)
	n := uint16(math.RoundToEven(math.Ldexp(x, -unit)))
	// Where the eleventh bit is set it adds one to the exponent.
	return u + uint16(unit+24)<<10 + n
}

// TestStoreKeepsNaNs: those of halves stay, and a row of integers has a NaN for a
// unit.
func TestStoreKeepsNaNs(t *testing.T) {
	for _, tier := range cpu.Tiers() {
		for at := range 33 {
			v := make([]float32, 33)
			v[at], v[(at+5)%33] = float32(math.NaN()), float32(math.Inf(1))
			tile, got := make([]byte, cpu.TileBytes(cpu.F16, 33)), make([]float32, 33)
			(&cpu.Store{Tiles: tile, Format: cpu.F16, At: 7}).Lane(tier, v)
			cpu.LoadRow(got, tile, cpu.F16, 7)
			require.True(t, got[at] != got[at], "%v at %d", tier, at)
			require.EqualValues(t, 65504, got[(at+5)%33])
			unit, _ := cpu.UnitI8(tier, v)
			require.True(t, unit != unit, "%v at %d", tier, at)
		}
	}
}

// TestUnitI8 also checks that the elements of a row come back to half a unit.
func TestUnitI8(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for n := 1; n < 140; n++ {
		v := normal(r, n)
		v[r.IntN(n)] *= -9
		largest := 0.0
		for _, x := range v {
			largest = max(largest, math.Abs(float64(x)))
		}
		for _, tier := range cpu.Tiers() {
			unit, inverse := cpu.UnitI8(tier, v)
			require.Equal(t, float32(largest)/127, unit)
			tile, got := make([]byte, cpu.TileBytes(cpu.I8, n)), make([]float32, n)
			(&cpu.Store{Tiles: tile, Format: cpu.I8, At: 3, Inverse: inverse}).Lane(tier, v)
			cpu.LoadRow(got, tile, cpu.I8, 3)
			for i, x := range v {
				require.InDelta(t, x, got[i]*unit, float64(unit)*0.50001)
				require.LessOrEqual(t, math.Abs(float64(got[i])), 127.0)
			}
		}
	}
	for _, tiny := range [][]float32{nil, make([]float32, 40), {1e-31, -1e-40}} {
		unit, inverse := cpu.UnitI8(cpu.Best(), tiny)
		require.Equal(t, []float32{0, 0}, []float32{unit, inverse})
	}
	unit, inverse := cpu.UnitI8(cpu.Best(), []float32{1, float32(math.Inf(-1))})
	require.Equal(t, float32(math.MaxFloat32)/127, unit)
	require.Positive(t, inverse)
}

func TestRotateTiersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	for _, n := range []int{1, 5, 15, 16, 17, 32, 40, 64} {
		x, cos, sin := normal(r, 2*n+3), normal(r, n), normal(r, n)
		want := append([]float32(nil), x...)
		for i := range n {
			want[i] = float32(x[i]*cos[i]) - float32(x[n+i]*sin[i])
			want[n+i] = float32(x[n+i]*cos[i]) + float32(x[i]*sin[i])
		}
		for _, tier := range cpu.Tiers() {
			got := append([]float32(nil), x...)
			cpu.Rotate(tier, got, cos, sin)
			requireSameBits(t, want, got, "%v of %d", tier, n)
		}
	}
}

func TestStoreRefusesWrongShapes(t *testing.T) {
	for _, tier := range cpu.Tiers() {
		for _, f := range storeFormats {
			v, tile := make([]float32, 32), make([]byte, cpu.TileBytes(f, 32))
			for _, s := range []cpu.Store{
				{Tiles: tile, At: -1, TileBytes: len(tile) / 2}, {Tiles: tile, At: 32, TileBytes: len(tile) / 2}, {Tiles: tile[1:], TileBytes: len(tile) / 2}, {TileBytes: -1},
			} {
				s.Format = f
				require.Panics(t, func() { s.Lane(tier, v) })
				require.Panics(t, func() { s.Columns(tier, v) })
			}
		}
		require.Panics(t, func() { cpu.Rotate(tier, make([]float32, 31), make([]float32, 16), make([]float32, 16)) })
		require.Panics(t, func() { cpu.Rotate(tier, make([]float32, 32), make([]float32, 16), make([]float32, 15)) })
	}
}
