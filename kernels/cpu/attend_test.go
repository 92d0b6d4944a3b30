package cpu_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/kernels/cpu/half"
)

// attendCase is a cache of random pieces in random order.
type attendCase struct {
	format             cpu.Format
	dim, nr, positions int
}

// pieces returns memory of more pieces of size bytes than the positions need, all
// NaN, and where those of the positions are, with Ahead more after them.
func (c attendCase) pieces(r *rand.Rand, size int) (cache []byte, list []int64) {
	n := cpu.NumTiles(c.positions) + cpu.Ahead
	cache = make([]byte, 2*n*size)
	for i := range cache {
		cache[i] = 0xff
	}
	for _, p := range r.Perm(2 * n)[:n] {
		list = append(list, int64(p*size))
	}
	return cache, list
}

// keys returns an Attend for Scores, whose keys of positions past the end are NaN,
// and the keys as [positions][dim].
func (c attendCase) keys(r *rand.Rand) (cpu.Attend, [][]float32) {
	size := cpu.TileBytes(c.format, c.dim)
	cache, list := c.pieces(r, size)
	keys := make([][]float32, c.positions)
	for pos := range keys {
		tile := cache[list[pos/cpu.TileRows]:][:size]
		(&cpu.Store{Tiles: tile, Format: c.format, At: pos % cpu.TileRows, Inverse: 40}).Lane(cpu.Generic, normal(r, c.dim))
		keys[pos] = make([]float32, c.dim)
		cpu.LoadRow(keys[pos], tile, c.format, pos%cpu.TileRows)
	}
	return cpu.Attend{
		Cache: cache, Pieces: list, X: normal(r, c.dim*c.nr), Out: poisoned((c.nr-1)*cpu.ScoreStride + 256),
		Dim: c.dim, NR: c.nr, Positions: c.positions, Format: c.format,
	}, keys
}

// values returns an Attend for Values and the values as [positions][dim].
func (c attendCase) values(r *rand.Rand) (cpu.Attend, [][]float32) {
	tiles, tileBytes := cpu.NumTiles(c.dim), 3*cpu.TileBytes(c.format, cpu.TileRows)
	cache, list := c.pieces(r, tiles*tileBytes)
	values := make([][]float32, c.positions)
	for pos := range values {
		values[pos] = normal(r, tiles*cpu.TileRows)
		for tile := range tiles {
			part := values[pos][tile*cpu.TileRows:][:cpu.TileRows]
			at := cache[int(list[pos/cpu.TileRows])+tile*tileBytes:][:tileBytes]
			(&cpu.Store{Tiles: at, Format: c.format, At: pos % cpu.TileRows, TileBytes: tileBytes, Inverse: 40}).Columns(cpu.Generic, part)
			for lane := range part {
				elem := at[cpu.ElemOffset(c.format, pos%cpu.TileRows, lane):]
				switch c.format {
				case cpu.I8:
					part[lane] = float32(int8(elem[0]))
				case cpu.F16:
					part[lane] = half.ToFloat32(binary.LittleEndian.Uint16(elem))
				case cpu.BF16:
					part[lane] = cpu.BF16ToF32(binary.LittleEndian.Uint16(elem))
				}
			}
		}
	}
	ldo := tiles*cpu.TileRows + 5
	return cpu.Attend{
		Cache: cache, Pieces: list, X: normal(r, c.nr*cpu.ScoreStride), Out: poisoned(c.nr * ldo),
		Dim: c.dim, NR: c.nr, Positions: c.positions, TileBytes: tileBytes, LDO: ldo, Format: c.format,
	}, values
}

// TestAttendTiersAgree compares every tier with a sum written out here, for each
// number of queries, pieces that are whole or not, and heads of odd sizes.
func TestAttendTiersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for i, f := range storeFormats {
		dims := []int{1, 7, 32, 48, 80}
		if i == 0 {
			dims = append(dims, 128) // twice the largest group of tiles, whatever the format
		}
		for _, dim := range dims {
			for _, positions := range []int{0, 1, 2, 15, 16, 17, 63, 95, 256} {
				for nr := 1; nr <= cpu.AVX512.MaxCols(); nr++ {
					c := attendCase{f, dim, nr, positions}
					c.checkScores(t, r)
					c.checkValues(t, r)
				}
			}
		}
	}
}

func (c attendCase) checkScores(t *testing.T, r *rand.Rand) {
	a, keys := c.keys(r)
	want := make([]float32, c.nr*c.positions)
	for i := range want {
		j, pos := i/c.positions, i%c.positions
		for d, k := range keys[pos] {
			want[i] = fma(k, a.X[d*c.nr+j], want[i])
		}
	}
	for _, tier := range cpu.Tiers() {
		if c.nr > tier.MaxCols() {
			continue
		}
		copy(a.Out, poisoned(len(a.Out)))
		a.Scores(tier)
		for j := range c.nr {
			row := a.Out[j*cpu.ScoreStride:]
			requireSameBits(t, want[j*c.positions:][:c.positions], row[:c.positions], "scores %v %+v", tier, c)
			requireUntouched(t, row[cpu.NumTiles(c.positions)*cpu.TileRows:min(len(row), cpu.ScoreStride)])
		}
	}
}

func (c attendCase) checkValues(t *testing.T, r *rand.Rand) {
	a, values := c.values(r)
	width := cpu.NumTiles(c.dim) * cpu.TileRows
	want, odd := make([]float32, c.nr*width), make([]float32, c.nr*width)
	for pos, v := range values {
		chains := [][]float32{want, odd}[pos%2]
		for i := range chains {
			chains[i] = fma(v[i%width], a.X[i/width*cpu.ScoreStride+pos], chains[i])
		}
	}
	for i, v := range odd {
		want[i] += v
	}
	for _, tier := range cpu.Tiers() {
		if c.nr > tier.MaxCols() {
			continue
		}
		copy(a.Out, poisoned(len(a.Out)))
		a.Values(tier)
		for j := range c.nr {
			row := a.Out[j*a.LDO:][:a.LDO]
			requireSameBits(t, want[j*width:][:width], row[:width], "values %v %+v", tier, c)
			requireUntouched(t, row[width:])
		}
	}
}

// fma returns a*b + c rounded once: the product is exact in float64, and rounding
// the sum to odd there makes the rounding to float32 right.
func fma(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	if rest := (p - (s - t)) + (q - t); rest != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), rest))
	}
	return float32(s)
}

func requireUntouched(t *testing.T, x []float32) {
	t.Helper()
	for _, v := range x {
		require.True(t, v != v, "nothing else is written")
	}
}

func TestAttendRefusesWrongShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	c := attendCase{cpu.F16, 32, 2, 40}
	for _, tier := range cpu.Tiers() {
		for i, spoil := range []func(a *cpu.Attend){
			func(a *cpu.Attend) { a.NR = 0 },
			func(a *cpu.Attend) { a.NR = tier.MaxCols() + 1 },
			func(a *cpu.Attend) { a.Positions = -1 },
			func(a *cpu.Attend) { a.Positions = 257 },
			func(a *cpu.Attend) { a.Dim = -1 },
			func(a *cpu.Attend) { a.Pieces = a.Pieces[:3+cpu.Ahead-1] },
			func(a *cpu.Attend) { a.Pieces[0] = -1 },
			func(a *cpu.Attend) { a.Pieces[2] = int64(len(a.Cache) - 1) },
			func(a *cpu.Attend) { a.X = a.X[:32] },
			func(a *cpu.Attend) { a.Out = a.Out[:32] },
		} {
			scores, _ := c.keys(r)
			scores.Scores(tier)
			spoil(&scores)
			require.Panics(t, func() { scores.Scores(tier) }, "%v scores %d", tier, i)
			values, _ := c.values(r)
			values.Values(tier)
			spoil(&values)
			if values.Positions <= c.positions {
				require.Panics(t, func() { values.Values(tier) }, "%v values %d", tier, i)
			}
		}
		values, _ := c.values(r)
		values.LDO = 31
		require.Panics(t, func() { values.Values(tier) })
		values, _ = c.values(r)
		values.TileBytes = -1
		require.Panics(t, func() { values.Values(tier) })
	}
}

func TestSoftmaxTiersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, tier := range cpu.Tiers() {
		for n := 1; n < 100; n++ {
			rows, padded := 1+n%4, cpu.NumTiles(n)*cpu.TileRows
			x := normal(r, rows*(padded+3))
			for i := range x {
				if i%(padded+3) >= n {
					x[i] = float32(math.Inf(-1))
				}
			}
			want, got := append([]float32(nil), x...), append([]float32(nil), x...)
			largest, total := poisoned(2*rows), poisoned(2*rows)
			cpu.Softmax(cpu.Generic, want, rows, padded+3, padded, 0.5, largest[:rows], total[:rows])
			cpu.Softmax(tier, got, rows, padded+3, padded, 0.5, largest[rows:], total[rows:])
			requireSameBits(t, want, got, "Softmax")
			requireSameBits(t, largest[:rows], largest[rows:], "largest")
			requireSameBits(t, total[:rows], total[rows:], "total")
			for j := range rows {
				require.InDelta(t, softmaxTotal(x[j*(padded+3):][:n], 0.5), total[j], 1e-4)
				for _, v := range got[j*(padded+3):][n:padded] {
					require.Zero(t, v, "padding weighs nothing")
				}
			}
		}
		require.Panics(t, func() { cpu.Softmax(tier, make([]float32, 15), 1, 16, 15, 1, make([]float32, 1), make([]float32, 1)) })
		require.Panics(t, func() { cpu.Softmax(tier, make([]float32, 31), 2, 16, 16, 1, make([]float32, 2), make([]float32, 2)) })
		require.Panics(t, func() { cpu.Softmax(tier, make([]float32, 32), 2, 16, 16, 1, make([]float32, 1), make([]float32, 2)) })
	}
}

// TestExp2TiersAgree also checks the results: exact powers, what becomes 0, and how
// far the rest is off.
func TestExp2TiersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	lowest := float32(math.Inf(-1))
	x := []float32{0, -1, -20, -126, 0.5, -127, -1000, lowest, 127, -0.5, -1.5, float32(math.NaN())}
	for len(x) < 160 {
		x = append(x, -100*r.Float32())
	}
	for _, tier := range cpu.Tiers() {
		want, got := append([]float32(nil), x...), append([]float32(nil), x...)
		cpu.Exp2(cpu.Generic, want)
		cpu.Exp2(tier, got)
		requireSameBits(t, want, got, "%v", tier)
		require.Equal(t, []float32{1, 0.5, 0x1p-20, 0x1p-126}, got[:4])
		require.Equal(t, []float32{0, 0, 0, 0x1p127}, got[5:9])
		require.True(t, got[11] != got[11], "NaN stays")
		for i, v := range x[12:] {
			require.InEpsilon(t, math.Exp2(float64(v)), float64(got[12+i]), 3e-7, "exp2(%v)", v)
		}
		require.Panics(t, func() { cpu.Exp2(tier, make([]float32, 15)) })
		require.Panics(t, func() { cpu.Exp2(tier, nil) })
	}
}

func softmaxTotal(x []float32, scale float64) (total float64) {
	largest := math.Inf(-1)
	for _, v := range x {
		largest = max(largest, float64(v)*scale)
	}
	for _, v := range x {
		total += math.Exp2(float64(v)*scale - largest)
	}
	return total
}
