package cuda

import (
	"encoding/binary"
	"math"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/kernels/cpu/quant"
)

// A unit, of kernels/cuda/src/weights.h.
const (
	unitRows = 16
	unitCols = 32
)

// place returns where the element of a unit is among its elements.
func place(row, col int) int {
	lane := row%8*4 + col%8/2
	return lane*16 + col/16*8 + col%16/8*4 + row/8*2 + col%2
}

// places are those of a unit's columns, in its first row. A row's are that much further.
var places, rowPlaces = func() (cols [unitCols]int, rows [unitRows]int) {
	for c := range cols {
		cols[c] = place(0, c)
	}
	for r := range rows {
		rows[r] = place(r, 0)
	}
	return cols, rows
}()

// packer lays 16 rows at a time out as a band holds them.
type packer struct {
	w      *band
	units  int
	data   []byte // of 16 rows
	scales []byte
	values []float32 // of one row
	blocks []byte    // of one row, quantised
	block  quant.Block
}

// pack brings the elements of parts to the device.
func (b *Backend) pack(w *band, parts []compute.RawTensor) {
	cols := parts[0].Cols
	k := &packer{w: w, units: ceil(cols, unitCols), values: make([]float32, cols)}
	k.data = make([]byte, k.units*w.kernels().unitBytes)
	if w.scales != 0 {
		k.scales = make([]byte, k.units*2*unitRows)
	}
	row := 0
	flush := func() {
		group := (row - 1) / unitRows
		write(b, w.data+Ptr(group*len(k.data)), k.data)
		if w.scales != 0 {
			write(b, w.scales+Ptr(group*len(k.scales)), k.scales)
		}
		clear(k.data)
	}
	for _, p := range parts {
		bytes := p.DType.RowBytes(cols)
		for i := range p.Rows {
			k.row(p, p.Data[i*bytes:(i+1)*bytes], row%unitRows)
			if row++; row%unitRows == 0 {
				flush()
			}
		}
	}
	if row%unitRows != 0 {
		flush()
	}
}

// row lays a row out as row r of the 16.
func (k *packer) row(t compute.RawTensor, src []byte, r int) {
	if k.scales != nil {
		k.quantised(t, src, r)
		return
	}
	if t.DType == k.w.dtype && t.DType != compute.F32 {
		for c := 0; c+1 < len(src)/2; c += 2 { // two columns lie side by side
			copy(k.data[2*k.at(r, c):][:4], src[2*c:2*c+4])
		}
		if last := len(src)/2 - 1; last%2 == 0 {
			copy(k.data[2*k.at(r, last):][:2], src[2*last:])
		}
		return
	}
	if q, ok := t.DType.Quant(); ok {
		q.Dequantize(k.values, src)
	} else {
		compute.Widen(k.values, src, t.DType)
	}
	for c, v := range k.values {
		binary.LittleEndian.PutUint32(k.data[4*k.at(r, c):], math.Float32bits(v))
	}
}

// at returns where the element of row r and column c is among those of the 16 rows.
func (k *packer) at(r, c int) int {
	return c/unitCols*unitRows*unitCols + rowPlaces[r] + places[c%unitCols]
}

// quantised lays out a row of blocks, which it makes if there are none yet.
func (k *packer) quantised(t compute.RawTensor, src []byte, r int) {
	q, _ := k.w.dtype.Quant()
	if t.DType != k.w.dtype {
		compute.Widen(k.values, src, t.DType)
		k.blocks = q.Append(k.blocks[:0], k.values)
		src = k.blocks
	}
	for unit := 0; len(src) > 0; unit, src = unit+1, src[q.Bytes():] {
		q.Unpack(&k.block, src)
		binary.LittleEndian.PutUint16(k.scales[(unit*unitRows+r)*2:], k.block.D)
		for c, v := range k.block.Q[:unitCols] {
			at := k.at(r, unit*unitCols+c)
			if k.w.dtype == compute.Q8_0 {
				k.data[at] = byte(int(v) - q.Offset())
			} else { // elements of both halves share a byte
				k.data[at/16*8+at%8] |= v << (at & 8 / 2)
			}
		}
	}
}
