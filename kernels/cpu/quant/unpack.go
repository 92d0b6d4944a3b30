package quant

import "encoding/binary"

var le = binary.LittleEndian

// Unpack takes the first block of src apart. It sets what the type has and
// leaves the rest of b alone, but for Scales of 1 and a DMin of 0.
func (t Type) Unpack(b *Block, src []byte) {
	src = src[:t.Bytes()]
	switch t {
	case Q8_0:
		b.single(src)
		for i := 0; i < 32; i += 8 { // from signed to 128 above
			le.PutUint64(b.Q[i:], le.Uint64(src[2+i:])^0x80*ones)
		}
	case Q4_0:
		b.single(src)
		nibbles(b.Q[:16], b.Q[16:32], src[2:18])
	case Q4_K:
		b.scalesAndMins(src)
		b.fourBits(src[16:144])
	case Q5_K:
		b.scalesAndMins(src)
		b.fourBits(src[48:176])
		b.fifthBit(src[16:48])
	case Q6_K:
		b.sixBits(src)
	}
}

// single sets the one scale of a small block.
func (b *Block) single(src []byte) {
	b.D, b.DMin, b.Scales[0] = u16(src), 0, 1
}

// Eight bytes are handled at a time: lows is a mask of their low halves, ones has
// the lowest bit of each.
const (
	lows = 0x0f0f0f0f0f0f0f0f
	ones = 0x0101010101010101
)

// nibbles splits bytes, a multiple of eight, into their low and high halves.
func nibbles(low, high []uint8, src []byte) {
	for ; len(src) >= 8; low, high, src = low[8:], high[8:], src[8:] {
		v := le.Uint64(src)
		le.PutUint64(low, v&lows)
		le.PutUint64(high, v>>4&lows)
	}
}

// scalesAndMins sets eight scales and eight mins of six bits each, which lie in
// twelve bytes: the first four of both whole, of the last four the low four bits
// together and the high two bits above the first ones.
func (b *Block) scalesAndMins(src []byte) {
	b.D, b.DMin = u16(src), u16(src[2:])
	p := src[4:16]
	for i := range 4 {
		b.Scales[i], b.Mins[i] = int8(p[i]&63), p[i+4]&63
		b.Scales[i+4] = int8(p[i+8]&15 | p[i]>>6<<4)
		b.Mins[i+4] = p[i+8]>>4 | p[i+4]>>6<<4
	}
}

// fourBits sets 256 values: of each 32 bytes the low halves are 32 of them, the
// high halves the next 32.
func (b *Block) fourBits(src []byte) {
	for i := range 4 {
		nibbles(b.Q[64*i:64*i+32], b.Q[64*i+32:64*i+64], src[32*i:32*i+32])
	}
}

// fifthBit adds bit i of 32 bytes to the i-th 32 values.
func (b *Block) fifthBit(src []byte) {
	for group := range 8 {
		q := b.Q[32*group:][:32]
		for i := 0; i < 32; i += 8 {
			bits := le.Uint64(src[i:]) >> group & ones << 4
			le.PutUint64(q[i:], le.Uint64(q[i:])|bits)
		}
	}
}

// sixBits sets a block of Q6_K: each half of 128 values has its low four bits in
// 64 bytes, 32 low halves after another, and its high two bits in 32 bytes.
func (b *Block) sixBits(src []byte) {
	low, high := src[:128], src[128:192]
	for i, v := range src[192:208] {
		b.Scales[i] = int8(v)
	}
	b.D, b.DMin = u16(src[208:]), 0
	for half := range 2 {
		q, low, high := b.Q[128*half:][:128], low[64*half:][:64], high[32*half:][:32]
		for i := 0; i < 32; i += 8 {
			first, second, h := le.Uint64(low[i:]), le.Uint64(low[i+32:]), le.Uint64(high[i:])
			le.PutUint64(q[i:], first&lows|h&(3*ones)<<4)
			le.PutUint64(q[i+32:], second&lows|h>>2&(3*ones)<<4)
			le.PutUint64(q[i+64:], first>>4&lows|h>>4&(3*ones)<<4)
			le.PutUint64(q[i+96:], second>>4&lows|h>>6&(3*ones)<<4)
		}
	}
}
