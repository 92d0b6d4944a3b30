package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
)

// TileRows is the number of rows of a packed tile: the lanes of one AVX-512
// register, of two AVX2 registers.
const TileRows = 16

// Format is the element type of packed weights.
type Format uint8

// The formats.
const (
	F32 Format = iota
	F16
	BF16
	I8 // integers from -127 to 127, whose units are kept elsewhere: see UnitI8. Of caches only.
)

// Size returns bytes per element.
func (f Format) Size() int {
	switch f {
	case F32:
		return 4
	case I8:
		return 1
	}
	return 2
}

// TileBytes returns the bytes of a packed tile of k columns.
func TileBytes(f Format, k int) int {
	switch f {
	case F32:
		return k * TileRows * 4
	case F16:
		return k * TileRows * 2
	case I8:
		return k * TileRows
	}
	return (k + 1) / 2 * TileRows * 4
}

// NumTiles returns how many tiles hold rows rows.
func NumTiles(rows int) int { return (rows + TileRows - 1) / TileRows }

// ElemOffset returns where column k of lane is within a tile, in bytes.
func ElemOffset(f Format, k, lane int) int {
	switch f {
	case F32:
		return (k*TileRows + lane) * 4
	case F16:
		return (k*TileRows + lane) * 2
	case I8:
		return k*TileRows + lane
	}
	return (k/2*TileRows+lane)*4 + k%2*2
}

// LoadRow widens one lane of a tile: dst[k] for every k below len(dst).
func LoadRow(dst []float32, tile []byte, f Format, lane int) {
	for k := range dst {
		dst[k] = loadElem(tile, f, k, lane)
	}
}

func loadElem(tile []byte, f Format, k, lane int) float32 {
	at := tile[ElemOffset(f, k, lane):]
	switch f {
	case F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(at))
	case F16:
		return half.ToFloat32(binary.LittleEndian.Uint16(at))
	case I8:
		return float32(int8(at[0]))
	}
	return BF16ToF32(binary.LittleEndian.Uint16(at))
}

// loadColumn widens column k of a tile.
func loadColumn(tile []byte, f Format, k int) (v lanes) {
	at := tile[ElemOffset(f, k, 0):]
	switch f {
	case F32:
		for lane := range v {
			v[lane] = math.Float32frombits(binary.LittleEndian.Uint32(at[4*lane:]))
		}
	case F16:
		for lane := range v {
			v[lane] = half.ToFloat32(binary.LittleEndian.Uint16(at[2*lane:]))
		}
	case BF16:
		for lane := range v {
			v[lane] = BF16ToF32(binary.LittleEndian.Uint16(at[4*lane:]))
		}
	case I8:
		for lane := range v {
			v[lane] = float32(int8(at[lane]))
		}
	}
	return v
}

// PackRows copies len(src)/(cols*f.Size()) row-major rows of little-endian
// elements to the lanes of tile that start at lane, as they are: nothing is
// rounded. The rest of tile is left alone.
func PackRows(tile, src []byte, f Format, cols, lane int) {
	size := f.Size()
	rowBytes := cols * size
	rows := len(src) / max(rowBytes, 1)
	if lane+rows > TileRows || len(tile) < TileBytes(f, cols) {
		panic(fmt.Sprintf("kernels/cpu: PackRows of %d rows at lane %d", rows, lane))
	}
	for r := range rows {
		row := src[r*rowBytes:][:rowBytes]
		switch f {
		case F32:
			packWords(tile, row, lane+r)
		case F16:
			for k := range cols {
				at := ElemOffset(f, k, lane+r)
				tile[at], tile[at+1] = row[2*k], row[2*k+1]
			}
		case BF16:
			packWords(tile, row, lane+r)
		}
	}
}

// packWords spreads a row's 32-bit words (one F32 column or two BF16 columns)
// over the tile; an odd last BF16 column is half a word.
func packWords(tile, row []byte, lane int) {
	at := lane * 4
	for ; len(row) >= 4; row = row[4:] {
		binary.LittleEndian.PutUint32(tile[at:], binary.LittleEndian.Uint32(row))
		at += TileRows * 4
	}
	if len(row) == 2 {
		binary.LittleEndian.PutUint16(tile[at:], binary.LittleEndian.Uint16(row))
	}
}

// CopyColumn copies column from of tile src to column to of tile dst, as it is.
func CopyColumn(dst []byte, to int, src []byte, from int, f Format) {
	dst, src = dst[ElemOffset(f, to, 0):], src[ElemOffset(f, from, 0):]
	if f != BF16 {
		copy(dst[:TileRows*f.Size()], src)
		return
	}
	for lane := range TileRows {
		dst[4*lane], dst[4*lane+1] = src[4*lane], src[4*lane+1]
	}
}
