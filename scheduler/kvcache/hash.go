package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash names the contents of a full block: the tokens in it, all tokens before
// them, and the salt.
type Hash [sha256.Size]byte

// rootDomain keeps the hash of a salt apart from the hash of a block.
const rootDomain = "troupe kv prefix root\x00"

// rootHash is the parent of the first block. It carries the salt, so that
// sequences of different salts share nothing from their first block on.
func rootHash(salt string) Hash {
	return sha256.Sum256([]byte(rootDomain + salt))
}

// hasher hashes blocks of one size with one scratch buffer.
type hasher struct {
	buf []byte // parent hash, then BlockSize little-endian token ids
}

func newHasher(blockSize int) hasher {
	return hasher{buf: make([]byte, sha256.Size+4*blockSize)}
}

// block returns the hash of a block of tokens that follows parent.
func (h *hasher) block(parent Hash, tokens []int32) Hash {
	copy(h.buf, parent[:])
	for i, id := range tokens {
		binary.LittleEndian.PutUint32(h.buf[sha256.Size+4*i:], uint32(id))
	}
	return sha256.Sum256(h.buf)
}
