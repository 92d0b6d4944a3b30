package cpu

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-llm/troupe/kernels/cpu/half"
	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// The packed tiles of quantised weights hold, for [TileRows] rows, the unsigned
// integers of all blocks first and then what turns them into numbers:
//
//	8 bits   [cols/4][row][4]: of every four columns, a lane per row
//	4 bits   [cols/8][row][4]: of every eight columns, the first four in the low halves
//	5, 6     per 32 columns: the low four bits as above; then what is above them,
//	         [1][row][4] of eight times a bit or [2][row][4] of four times two bits,
//	         of every four columns, those of the first ones lowest
//
//	Q8_0, Q4_0   per 32 columns: [row] d
//	Q4_K, Q5_K   per 256 columns: [row] d, [row] dmin, then 8 times [row] scale, [row] min
//	Q6_K         per 256 columns: [row] d, then 16 times [row] scale
//
// d and dmin are halves, scales and mins bytes. Nothing is rounded, and a tile takes
// what its blocks take, but for scales and mins of six bits, which take a byte.

// QBlock is the number of columns that kernels take at a time.
const QBlock = 32

// qbits returns the bits of a packed element.
func qbits(t quant.Type) int {
	switch t {
	case quant.Q4_0, quant.Q4_K:
		return 4
	case quant.Q5_K:
		return 5
	case quant.Q6_K:
		return 6
	}
	return 8
}

// qweightBytes returns the bytes of the integers of [QBlock] columns of a tile.
func qweightBytes(t quant.Type) int { return QBlock * TileRows * qbits(t) / 8 }

// qscaleBytes returns the bytes of the scales of a whole block of a tile.
func qscaleBytes(t quant.Type) int {
	switch t {
	case quant.Q4_K, quant.Q5_K:
		return TileRows * (2 + 2 + 8*2)
	case quant.Q6_K:
		return TileRows * (2 + 16)
	}
	return TileRows * 2
}

// QTileBytes returns the bytes of a packed tile of cols columns, which whole
// blocks make up. Tiles begin on cache lines.
func QTileBytes(t quant.Type, cols int) int {
	n := cols/QBlock*qweightBytes(t) + cols/t.Elements()*qscaleBytes(t)
	return (n + 63) / 64 * 64
}

// PackQRows packs len(src)/t.RowBytes(cols) rows of blocks into the lanes of tile
// that start at lane. The rest of tile is left alone.
func PackQRows(tile, src []byte, t quant.Type, cols, lane int) {
	rowBytes := t.RowBytes(cols)
	rows := len(src) / max(rowBytes, 1)
	if cols%t.Elements() != 0 || lane+rows > TileRows || len(tile) < QTileBytes(t, cols) {
		panic(fmt.Sprintf("kernels/cpu: PackQRows of %d rows of %d %v at lane %d", rows, cols, t, lane))
	}
	var b quant.Block
	for i := range cols / t.Elements() { // a block of all rows at a time: their lines are in cache
		quants := tile[i*t.Elements()/QBlock*qweightBytes(t):]
		scales := tile[cols/QBlock*qweightBytes(t)+i*qscaleBytes(t):]
		for r := range rows {
			t.Unpack(&b, src[r*rowBytes+i*t.Bytes():])
			packQuants(quants, b.Q[:t.Elements()], qbits(t), lane+r)
			packScales(scales, &b, t, lane+r)
		}
	}
}

// packQuants writes a block's integers to one lane, [QBlock] columns at a time.
func packQuants(dst []byte, q []uint8, bits, lane int) {
	for ; len(q) >= QBlock; q = q[QBlock:] {
		block := (*[QBlock]uint8)(q)
		switch bits {
		case 4:
			packNarrow((*[256]byte)(dst), block, lane)
		case 5:
			packNarrow((*[256]byte)(dst), block, lane)
			packFifth((*[64]byte)(dst[256:]), block, lane)
		case 6:
			packNarrow((*[256]byte)(dst), block, lane)
			packFifthAndSixth((*[128]byte)(dst[256:]), block, lane)
		default:
			packWide((*[512]byte)(dst), block, lane)
		}
		dst = dst[QBlock*TileRows*bits/8:]
	}
}

func packWide(dst *[512]byte, q *[QBlock]uint8, lane int) {
	at := lane % TileRows * 4
	for i := range 8 {
		binary.LittleEndian.PutUint32(dst[i*TileRows*4+at:], binary.LittleEndian.Uint32(q[4*i:]))
	}
}

func packNarrow(dst *[256]byte, q *[QBlock]uint8, lane int) {
	at := lane % TileRows * 4
	for i := range 4 {
		v := binary.LittleEndian.Uint64(q[8*i:]) & 0x0f0f0f0f0f0f0f0f
		binary.LittleEndian.PutUint32(dst[i*TileRows*4+at:], uint32(v)|uint32(v>>32)<<4)
	}
}

// packFifth packs the fifth bits of 32 columns: bit i is that of the i-th four.
func packFifth(dst *[64]byte, q *[QBlock]uint8, lane int) {
	var bits uint32
	for i := range 8 {
		bits |= binary.LittleEndian.Uint32(q[4*i:]) >> 4 & 0x01010101 << i
	}
	binary.LittleEndian.PutUint32(dst[lane%TileRows*4:], bits)
}

// packFifthAndSixth packs the two bits above the low four, of 16 columns at a time.
func packFifthAndSixth(dst *[128]byte, q *[QBlock]uint8, lane int) {
	for half := range 2 {
		var bits uint32
		for i := range 4 {
			bits |= binary.LittleEndian.Uint32(q[16*half+4*i:]) >> 4 & 0x03030303 << (2 * i)
		}
		binary.LittleEndian.PutUint32(dst[half*TileRows*4+lane%TileRows*4:], bits)
	}
}

// packScales writes a block's scales to one lane.
func packScales(dst []byte, b *quant.Block, t quant.Type, lane int) {
	le := binary.LittleEndian
	le.PutUint16(dst[lane*2:], b.D)
	dst = dst[TileRows*2:]
	switch t {
	case quant.Q4_K, quant.Q5_K:
		le.PutUint16(dst[lane*2:], b.DMin)
		dst = dst[TileRows*2:]
		for i := range 8 {
			dst[i*2*TileRows+lane], dst[(i*2+1)*TileRows+lane] = uint8(b.Scales[i]), b.Mins[i]
		}
	case quant.Q6_K:
		for i, s := range b.Scales {
			dst[i*TileRows+lane] = uint8(s)
		}
	}
}

// qcolumn is a group of columns of a tile, taken apart for the reference: what
// quant.Block is to a row.
type qcolumn struct {
	q     [QBlock][TileRows]uint8
	scale [2]lanes // of the first and of the second 16 columns
	min   lanes    // 0 without mins
}

// load takes the block-th [QBlock] columns of a tile of cols columns apart.
func (c *qcolumn) load(tile []byte, t quant.Type, cols, block int) {
	for row := range TileRows {
		c.loadRow(tile, t, cols/QBlock, block, row)
	}
}

// loadRow is load for one row of a tile of blocks blocks.
func (c *qcolumn) loadRow(tile []byte, t quant.Type, blocks, block, row int) {
	weights := tile[block*qweightBytes(t):][:qweightBytes(t)]
	for k := range QBlock {
		c.q[k][row] = qinteger(weights, t, k, row)
	}
	perBlock := t.Elements() / QBlock
	scales := tile[blocks*qweightBytes(t)+block/perBlock*qscaleBytes(t):]
	c.loadScale(scales, t, block%perBlock, row)
}

// qinteger returns the integer of a row in the k-th of [QBlock] columns.
func qinteger(weights []byte, t quant.Type, k, row int) uint8 {
	at, step := row*4+k%4, k/4
	if qbits(t) == 8 {
		return weights[step*TileRows*4+at]
	}
	q := weights[step/2*TileRows*4+at] >> (step % 2 * 4) & 15
	high := weights[QBlock*TileRows/2:]
	switch qbits(t) {
	case 5:
		q |= high[at] >> step & 1 << 4
	case 6:
		q |= high[step/4*TileRows*4+at] >> (step % 4 * 2) & 3 << 4
	}
	return q
}

// loadScale sets the scales of one row from those of its whole block, of which
// these columns are the part-th.
func (c *qcolumn) loadScale(scales []byte, t quant.Type, part, row int) {
	d := half.ToFloat32(binary.LittleEndian.Uint16(scales[row*2:]))
	first, second := d, d
	scales = scales[TileRows*2:]
	switch t {
	case quant.Q4_K, quant.Q5_K:
		dmin := half.ToFloat32(binary.LittleEndian.Uint16(scales[row*2:]))
		pair := scales[TileRows*2+part*2*TileRows:]
		first = float32(d * float32(pair[row]))
		second = first
		c.min[row] = float32(dmin * float32(pair[TileRows+row]))
	case quant.Q6_K:
		pair := scales[part*2*TileRows:]
		first, second = float32(d*float32(int8(pair[row]))), float32(d*float32(int8(pair[TileRows+row])))
	}
	c.scale[0][row], c.scale[1][row] = first, second
}

// LoadQRow sets dst to one lane of a tile of len(dst) columns: the numbers that
// the blocks stand for, as quant.Type.Dequantize has them.
func LoadQRow(dst []float32, tile []byte, t quant.Type, lane int) {
	var c qcolumn
	for block := range len(dst) / QBlock {
		c.loadRow(tile, t, len(dst)/QBlock, block, lane)
		for k := range QBlock {
			v := float32(c.scale[k/16][lane] * float32(int(c.q[k][lane])-t.Offset()))
			if t.HasMin() {
				v -= c.min[lane]
			}
			dst[block*QBlock+k] = v
		}
	}
}
