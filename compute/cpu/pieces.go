package cpu

import (
	"github.com/troupe-llm/troupe/compute"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// Attention reads the cache in pieces of one tile's positions, by kernels that fetch
// the next pieces while they compute. Blocks of whole tiles are such pieces. Those of
// other sizes share tiles with their neighbours and are copied first: see gather.

// pieces reports whether blocks are whole tiles.
func (c *kvCache) pieces() bool { return c.spec.BlockSize%kernels.TileRows == 0 }

// place says where the pieces of a layer's and head's keys or values are in the
// cache: base + block*block + i*piece for piece i of a block, in bytes.
type place struct{ base, block, piece int }

func (c *kvCache) keyPlace(layer, head int) place {
	heads := c.spec.NumKVHeads
	return place{
		base:  (layer*c.slotTiles*heads + head) * c.keyTile,
		block: c.spec.BlockSize / kernels.TileRows * heads * c.keyTile, piece: heads * c.keyTile,
	}
}

func (c *kvCache) valuePlace(layer, head int) place {
	heads, perHead := c.spec.NumKVHeads, c.valueTiles*c.valueTile
	return place{
		base:  len(c.keys) + (layer*c.spec.NumBlocks*heads+head)*perHead,
		block: heads * perHead, piece: kernels.ElemOffset(c.format, kernels.TileRows, 0),
	}
}

// pieceRange is pieces first … end-1 of a sequence.
type pieceRange struct {
	seq        *compute.BatchSeq
	first, end int
}

// appendPieces appends where the pieces of a range are, in bytes.
func (c *kvCache) appendPieces(list []int64, at place, r pieceRange) []int64 {
	if r.first >= r.end {
		return list
	}
	perBlock := c.spec.BlockSize / kernels.TileRows
	table, piece := r.seq.BlockTable[r.first/perBlock:], r.first%perBlock
	for range r.end - r.first {
		if !(table[0] >= 0 && int(table[0]) < c.spec.NumBlocks) { // the kernels will not see it
			fail("Attention: block %d of %d", table[0], c.spec.NumBlocks)
		}
		list = append(list, int64(at.base+int(table[0])*at.block+piece*at.piece))
		if piece++; piece == perBlock {
			table, piece = table[1:], 0
		}
	}
	return list
}

// listPieces lists the span's keys, then its values, then what is read after it,
// so that each list goes on with what should be fetched meanwhile.
func (p *panel) listPieces(span int) {
	c, own := p.kv, pieceRange{p.seq, p.start / kernels.TileRows, kernels.NumTiles(p.end)}
	list := c.appendPieces(p.ws.offsets[:0], c.keyPlace(p.layer, p.head), own)
	list = c.appendPieces(list, c.valuePlace(p.layer, p.head), own)
	next, nextSpan := p.attentionPanel, span+1
	if p.split || nextSpan >= p.lastSpan {
		next, nextSpan = p.next, p.nextSpan
	}
	if next != nil {
		from := nextSpan * spanPositions / kernels.TileRows
		to := min(from+kernels.Ahead, kernels.NumTiles(p.context(next, next.to-1)))
		list = c.appendPieces(list, c.keyPlace(p.layer, next.head), pieceRange{&p.batch.Seqs[next.seq], from, to})
	}
	for len(list) < 2*(own.end-own.first)+kernels.Ahead {
		list = append(list, list[len(list)-1])
	}
	p.ws.offsets, p.ws.attend.Cache, p.ws.attend.TileBytes = list, c.raw, c.valueTile
	if c.units != nil {
		p.listUnits(own)
	}
}
