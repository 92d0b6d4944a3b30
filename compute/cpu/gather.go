package cpu

import kernels "github.com/troupe-llm/troupe/kernels/cpu"

// gather copies the span's keys and values to pieces in order, as listPieces lists
// them, for blocks that are not whole tiles. That takes several times as long as
// the arithmetic.
func (p *panel) gather() {
	c, n := p.kv, p.end-p.start
	pieces := kernels.NumTiles(n)
	valueTile := kernels.TileBytes(c.format, kernels.TileRows)
	valueBytes := c.valueTiles * valueTile
	memory := p.ws.copies.bytes(pieces * (c.keyTile + valueBytes))
	keys, values := memory[:pieces*c.keyTile], memory[pieces*c.keyTile:]
	list := p.ws.offsets[:0]
	for i := range pieces {
		list = append(list, int64(i*c.keyTile))
	}
	for i := range pieces {
		list = append(list, int64(len(keys)+i*valueBytes))
	}
	for range kernels.Ahead {
		list = append(list, 0)
	}
	p.ws.offsets, p.ws.attend.Cache, p.ws.attend.TileBytes = list, memory, valueTile
	for i := 0; i < n; {
		pos, size := p.start+i, c.spec.BlockSize
		block, offset := int(p.seq.BlockTable[pos/size]), pos%size
		slot := block*size + offset
		// As far as the block, both tiles of keys and the piece of values go.
		run := min(size-offset, kernels.TileRows-slot%kernels.TileRows, kernels.TileRows-i%kernels.TileRows, n-i)
		piece := i / kernels.TileRows
		from, lane := slots{p.layer, p.head, slot, run}, i%kernels.TileRows
		c.copyKeys(keys[piece*c.keyTile:][:c.keyTile], lane, from)
		c.copyValues(values[piece*valueBytes:][:valueBytes], lane, from)
		if c.units != nil {
			p.ws.units.copy(i, c.unitsOf(from), from)
		}
		i += run
	}
}

// slots is n slots of a layer and head from first on, all in one block and tile.
type slots struct{ layer, head, first, n int }

// copyKeys copies the keys of slots to dst's lanes from lane on.
func (c *kvCache) copyKeys(dst []byte, lane int, s slots) {
	src := c.keysOf(s.layer, s.head)[c.keyOffset(s.first/kernels.TileRows):][:c.keyTile]
	width := kernels.ElemOffset(c.format, 0, 1)
	row, from, to, n := kernels.TileRows*width, s.first%kernels.TileRows*width, lane*width, s.n*width
	for at := 0; at < len(dst); at += row {
		copy(dst[at+to:][:n], src[at+from:][:n])
	}
}

// copyValues copies the values of slots to dst's columns from column on.
func (c *kvCache) copyValues(dst []byte, column int, s slots) {
	src := c.valuesOf(s.layer, s.head)[c.valueOffset(s.first/c.spec.BlockSize):]
	from, tile := s.first%c.spec.BlockSize, len(dst)/c.valueTiles
	for i := range c.valueTiles {
		for k := range s.n {
			kernels.CopyColumn(dst[i*tile:][:tile], column+k, src[i*c.valueTile:][:c.valueTile], from+k, c.format)
		}
	}
}
