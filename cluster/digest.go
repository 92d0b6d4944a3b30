package cluster

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// Prefixes of prompts are told apart by hashes at multiples of ChunkTokens tokens,
// up to MaxChunks of them. Nodes compare hashes of each other, so neither may
// differ between nodes of one protocol.
const (
	ChunkTokens = 64
	MaxChunks   = 64
)

// FNV-1a, 64 bits.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// PrefixHashes returns the hashes of a prompt's beginnings: the i-th is of its first
// (i+1)*ChunkTokens tokens. salt separates prompts that must not share anything.
func PrefixHashes(salt string, prompt []int32) []uint64 {
	n := min(len(prompt)/ChunkTokens, MaxChunks)
	if n == 0 {
		return nil
	}
	h := uint64(fnvOffset)
	for i := range len(salt) {
		h = (h ^ uint64(salt[i])) * fnvPrime
	}
	hashes := make([]uint64, n)
	for i := range hashes {
		for _, id := range prompt[i*ChunkTokens : (i+1)*ChunkTokens] {
			h = (h ^ uint64(uint32(id))) * fnvPrime
		}
		hashes[i] = mix(h)
	}
	return hashes
}

// mix spreads what FNV leaves in the low bits over all of them.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Digest remembers which prefixes a device has computed lately: a Bloom filter in
// two generations, of which the older one is forgotten when the younger is full.
// It may name a prefix that was never there (about one in eighty), and forgets
// what is older than some hundreds of others; a wrong guess costs time, no token.
type Digest struct {
	young, old [digestWords]uint64
	numYoung   int
	version    uint64 // changes when the filter does
}

const (
	digestWords = 128 // of 64 bits: a KiB per generation
	digestBits  = 64 * digestWords
	numProbes   = 4
	// maxYoung keeps a generation at one wrong answer in eighty.
	maxYoung = digestBits / 10
	// DigestBytes is the length of an encoded digest.
	DigestBytes = digestBits / 8
)

// Add notes prefixes.
func (d *Digest) Add(hashes []uint64) {
	for _, h := range hashes {
		if has(&d.young, h) {
			continue
		}
		if d.numYoung == maxYoung {
			d.old, d.young, d.numYoung = d.young, [digestWords]uint64{}, 0
		}
		for i := range numProbes {
			bit := probe(h, i)
			d.young[bit/64] |= 1 << (bit % 64)
		}
		d.numYoung++
		d.version++
	}
}

// Version tells digests apart: equal ones of one Digest have equal contents.
func (d *Digest) Version() uint64 { return d.version }

// AppendBinary appends both generations as one filter of DigestBytes bytes.
func (d *Digest) AppendBinary(b []byte) []byte {
	for i := range d.young {
		b = binary.LittleEndian.AppendUint64(b, d.young[i]|d.old[i])
	}
	return b
}

// ParseDigest reads what AppendBinary wrote. It can be asked, not added to.
func ParseDigest(b []byte) (*Digest, error) {
	if len(b) != DigestBytes {
		return nil, errors.New("cluster: a digest of prefixes has the wrong length")
	}
	d := &Digest{}
	for i := range d.young {
		d.young[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return d, nil
}

// Match counts the leading tokens of a prompt that the device is thought to have
// computed. A nil digest has none.
func (d *Digest) Match(hashes []uint64) int {
	if d == nil {
		return 0
	}
	n := 0
	for n < len(hashes) && (has(&d.young, hashes[n]) || has(&d.old, hashes[n])) {
		n++
	}
	return n * ChunkTokens
}

func has(filter *[digestWords]uint64, h uint64) bool {
	for i := range numProbes {
		if bit := probe(h, i); filter[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// probe returns the i-th bit of a hash: two hashes of 32 bits make all of them.
func probe(h uint64, i int) uint64 {
	return (h + uint64(i)*(bits.RotateLeft64(h, 32)|1)) % digestBits
}
