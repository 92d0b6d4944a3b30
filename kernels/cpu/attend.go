package cpu

import "fmt"

const (
	// ScoreStride is the distance of rows of scores: a span of 256 positions, and
	// a tile more, so that rows do not fall on the same places of the cache.
	ScoreStride = 256 + TileRows
	// Ahead is how many pieces are fetched before their turn.
	Ahead = 4
)

// Attend is one of the two products of attention over a paged cache, for up to
// Tier.MaxCols() queries of one key-value head. The cache is read in pieces of
// TileRows positions. A score is one chain of fused multiply-adds over the head's
// elements; a weighted sum of values is two, of the even positions and of the odd
// ones, and their sum. I8 counts in units that its caller keeps: it multiplies
// scores, and weights beforehand, by them.
type Attend struct {
	Cache []byte
	// Pieces holds where each piece starts in Cache, in bytes, and then Ahead more
	// places, of what will be read next.
	Pieces    []int64
	X         []float32 // Scores: packed queries [Dim, NR]; Values: rows of weights, ScoreStride apart
	Out       []float32 // Scores: rows of scores, ScoreStride apart; Values: rows, LDO apart
	Dim       int       // elements of a head
	NR        int       // queries
	Positions int
	TileBytes int // of Values: distance of a piece's tiles, each of TileRows dimensions
	LDO       int
	Format    Format

	pairs int // Dim / 2
	tiles int // of Scores: pieces; of Values: tiles of dimensions
}

// Scores sets Out[j][i] to query j · key i for all positions, those of a piece
// that is not all used included: a piece is a tile of Dim columns.
func (a *Attend) Scores(t Tier) {
	a.pairs, a.tiles = a.Dim/2, NumTiles(a.Positions)
	if !(a.valid(t, TileBytes(a.Format, a.Dim)) && a.Positions <= ScoreStride-TileRows &&
		len(a.X) >= a.Dim*a.NR && len(a.Out) >= (a.NR-1)*ScoreStride+a.tiles*TileRows) {
		a.fail(t)
	}
	if a.tiles > 0 && !scoresAsm(a, t) {
		a.genericScores()
	}
}

// Values sets Out[j] to the sum of the values of all positions, each times its
// weight in row j of X: a piece is a tile of TileRows columns for each TileRows
// dimensions. Out gets whole tiles.
func (a *Attend) Values(t Tier) {
	a.checkValues(t)
	if a.tiles > 0 && !valuesAsm(a, t) {
		a.genericValues(0)
	}
}

// ValuesFrom is Values of the positions from first on: those before are not looked
// at, whereas a weight of zero would let a NaN of theirs through. The chains stay
// those of even and of odd positions. It is plain Go on every tier, for the few
// columns that need it.
func (a *Attend) ValuesFrom(t Tier, first int) {
	a.checkValues(t)
	if first < 0 {
		a.fail(t)
	}
	if a.tiles > 0 {
		a.genericValues(first)
	}
}

// checkValues guards the products with values.
func (a *Attend) checkValues(t Tier) {
	a.tiles = NumTiles(a.Dim)
	size := TileBytes(a.Format, min(a.Positions, TileRows))
	if !(a.TileBytes >= 0 && a.valid(t, (a.tiles-1)*a.TileBytes+size) && a.LDO >= a.tiles*TileRows &&
		len(a.X) >= (a.NR-1)*ScoreStride+a.Positions && len(a.Out) >= (a.NR-1)*a.LDO+a.tiles*TileRows) {
		a.fail(t)
	}
}

// valid guards the assembly; size is how much of the cache a piece covers.
func (a *Attend) valid(t Tier, size int) bool {
	pieces := NumTiles(a.Positions)
	if !(a.NR >= 1 && a.NR <= t.MaxCols() && a.Dim >= 0 && a.Positions >= 0 && len(a.Pieces) >= pieces+Ahead) {
		return false
	}
	if pieces == 0 {
		return true
	}
	lo, hi := bounds(a.Pieces[:pieces])
	return lo >= 0 && hi <= int64(len(a.Cache)-size)
}

func (a *Attend) fail(t Tier) {
	panic(fmt.Sprintf("kernels/cpu: Attend %v dim=%d nr=%d positions=%d tileBytes=%d ldo=%d over %d, %d, %d, %d pieces",
		t, a.Dim, a.NR, a.Positions, a.TileBytes, a.LDO, len(a.Cache), len(a.X), len(a.Out), len(a.Pieces)))
}

func bounds(x []int64) (lo, hi int64) {
	lo, hi = x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// genericScores is the reference of Scores.
func (a *Attend) genericScores() {
	for i, piece := range a.Pieces[:a.tiles] {
		chains := tileChains(a.Cache[piece:], a.Format, a.X, a.Dim, a.NR)
		for j := range a.NR {
			copy(a.Out[j*ScoreStride+i*TileRows:], chains[j][:])
		}
	}
}

// genericValues is the reference of Values, of the positions from first on.
func (a *Attend) genericValues(first int) {
	for tile := range a.tiles {
		var acc [2][maxCols]lanes
		for pos := first; pos < a.Positions; pos++ {
			piece := a.Cache[a.Pieces[pos/TileRows]+int64(tile*a.TileBytes):]
			values := loadColumn(piece, a.Format, pos%TileRows)
			for j := range a.NR {
				weight, chains := a.X[j*ScoreStride+pos], &acc[pos%2][j]
				for lane, v := range values {
					chains[lane] = fma32(v, weight, chains[lane])
				}
			}
		}
		for j := range a.NR {
			row := a.Out[j*a.LDO+tile*TileRows:][:TileRows]
			for lane := range row {
				row[lane] = acc[0][j][lane] + acc[1][j][lane]
			}
		}
	}
}
