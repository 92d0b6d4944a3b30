package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
)

// Store is where a head's key or value of one position goes in a cache. What is too
// large for F16 becomes the largest half.
type Store struct {
	Tiles     []byte
	Format    Format
	At        int     // of Lane: the lane of the tile; of Columns: the column of the tiles
	TileBytes int     // of Columns: distance of tiles
	Inverse   float32 // of I8: that of the unit that elements are counted in
}

// Lane rounds v and writes it to one lane of a tile: v[k] to column k.
func (s *Store) Lane(t Tier, v []float32) {
	if !(s.At >= 0 && s.At < TileRows && len(s.Tiles) >= TileBytes(s.Format, len(v))) {
		s.fail(len(v))
	}
	for k := s.laneAsm(t, v); k < len(v); k++ {
		s.put(s.Tiles[ElemOffset(s.Format, k, s.At):], v[k])
	}
}

// Columns rounds v and writes it to one column of tiles: v[i] to lane i%TileRows of
// tile i/TileRows.
func (s *Store) Columns(t Tier, v []float32) {
	if !(s.At >= 0 && s.TileBytes >= TileBytes(s.Format, s.At+1) && len(s.Tiles) >= NumTiles(len(v))*s.TileBytes) {
		s.fail(len(v))
	}
	for i := s.columnsAsm(t, v); i < len(v); i++ {
		s.put(s.Tiles[i/TileRows*s.TileBytes+ElemOffset(s.Format, s.At, i%TileRows):], v[i])
	}
}

func (s *Store) fail(n int) {
	panic(fmt.Sprintf("kernels/cpu: Store of %d elements at %d of tiles of %d in %d bytes", n, s.At, s.TileBytes, len(s.Tiles)))
}

// put rounds one element.
func (s *Store) put(at []byte, x float32) {
	switch s.Format {
	case F32:
		binary.LittleEndian.PutUint32(at, math.Float32bits(x))
	case F16:
		binary.LittleEndian.PutUint16(at, finiteF16(x))
	case BF16:
		binary.LittleEndian.PutUint16(at, F32ToBF16(x))
	case I8:
		at[0] = toI8(x * s.Inverse)
	}
}

// maxF16 is the largest IEEE half.
const maxF16 = 65504

// finiteF16 rounds to the nearest finite half: an infinite key would make NaNs of
// scores.
func finiteF16(x float32) uint16 { return half.FromFloat32(min(max(x, -maxF16), maxF16)) }

// Rotate turns the pairs (x[i], x[i+n]), n = len(cos), by angles of which the cosines
// and sines are given. The conversions keep compilers from fusing, so that every
// platform rounds alike.
func Rotate(t Tier, x, cos, sin []float32) {
	n := len(cos)
	a, b, sin := x[:n], x[n:][:n], sin[:n]
	for i := rotateAsm(t, x, cos, sin); i < n; i++ {
		s, c, u, v := sin[i], cos[i], a[i], b[i]
		a[i] = float32(u*c) - float32(v*s)
		b[i] = float32(v*c) + float32(u*s)
	}
}
