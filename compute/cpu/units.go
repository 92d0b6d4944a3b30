package cpu

import (
	"unsafe"

	kernels "github.com/troupe-llm/troupe/kernels/cpu"
)

// A cache of Int8 has a unit for every key and every value of a head: see
// kernels.UnitI8. The kernels know nothing of them: scores are multiplied by the
// keys' units before the softmax, and weights by the values' after it.

// unitPair holds the units of a tile's sixteen slots, keys' and values' side by side:
// two cache lines that are fetched together.
type unitPair struct{ keys, values [kernels.TileRows]float32 }

const unitPairBytes = 2 * kernels.TileRows * 4

// unitPairs views memory as pairs; nil if there is none.
func unitPairs(b []byte) []unitPair {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*unitPair)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/unitPairBytes)
}

// spanUnits are the units of a span's positions.
type spanUnits struct {
	keys, values [kernels.ScoreStride]float32
}

// copy copies the units of slots, all of one tile, to positions from at on.
func (u *spanUnits) copy(at int, pair *unitPair, s slots) {
	lane := s.first % kernels.TileRows
	copy(u.keys[at:at+s.n], pair.keys[lane:])
	copy(u.values[at:at+s.n], pair.values[lane:])
}

// unitsOf returns the units of the tile that slots are in.
func (c *kvCache) unitsOf(s slots) *unitPair {
	tile := s.layer*c.slotTiles + s.first/kernels.TileRows
	return &c.units[tile*c.spec.NumKVHeads+s.head]
}

// listUnits collects the units of a span's pieces, which listPieces has listed.
func (p *panel) listUnits(own pieceRange) {
	c, perBlock := p.kv, p.kv.spec.BlockSize/kernels.TileRows
	for piece := own.first; piece < own.end; piece++ {
		slot := (int(own.seq.BlockTable[piece/perBlock])*perBlock + piece%perBlock) * kernels.TileRows
		s := slots{p.layer, p.head, slot, kernels.TileRows}
		p.ws.units.copy((piece-own.first)*kernels.TileRows, c.unitsOf(s), s)
	}
}
