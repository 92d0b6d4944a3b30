package quant

import "encoding/binary"

// Unpack takes the first block of src apart. It sets what the type has and
// leaves the rest of b alone, but for Scales of 1 and a DMin of 0.
func (t Type) Unpack(b *Block, src []byte) {
	src = src[:t.Bytes()]
	switch t {
	case Q8_0:
		b.single(src)
		for i := 0; i < 32; i += 4 { // from signed to 128 above
			binary.LittleEndian.PutUint32(b.Q[i:], binary.LittleEndian.Uint32(src[2+i:])^0x80808080)
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

// nibbles splits bytes into their low and high halves.
func nibbles(low, high []uint8, src []byte) {
	low, high = low[:len(src)], high[:len(src)]
	for i, v := range src {
		low[i], high[i] = v&15, v>>4
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
		for i, v := range src[:32] {
			q[i] |= v >> group & 1 << 4
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
		for i, h := range high {
			q[i] = low[i]&15 | h&3<<4
			q[i+32] = low[i+32]&15 | h>>2&3<<4
			q[i+64] = low[i]>>4 | h>>4&3<<4
			q[i+96] = low[i+32]>>4 | h>>6<<4
		}
	}
}
