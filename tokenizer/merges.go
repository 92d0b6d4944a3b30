package tokenizer

import (
	"math/bits"
	"strconv"
)

// noRank is greater than every rank: the pair does not merge.
const noRank = int32(1<<31 - 1)

// mergeTable maps pairs of ids to the rank of their merge, the lowest rank
// merging first. Open addressing with linear probing, at most half full; the
// built-in map costs twice the time in the innermost loop of encoding.
type mergeTable struct {
	keys   []uint64 // left<<32 | right, or freeKey
	ranks  []int32  // parallel to keys
	merged []int32  // by rank: the id of the merged token
	shift  uint     // 64 - log2(len(keys))
}

const freeKey = ^uint64(0) // ids are not negative, so no pair has this key

func newMergeTable(n int) *mergeTable {
	log := max(4, bits.Len(uint(2*n)))
	t := &mergeTable{keys: make([]uint64, 1<<log), ranks: make([]int32, 1<<log), merged: make([]int32, 0, n), shift: uint(64 - log)}
	for i := range t.keys {
		t.keys[i] = freeKey
	}
	return t
}

// slot returns where the pair is or would be.
func (t *mergeTable) slot(key uint64) int {
	// Multiplicative hashing; the constant is 2^64 over the golden ratio.
	i := int(key * 0x9E3779B97F4A7C15 >> t.shift)
	for t.keys[i] != key && t.keys[i] != freeKey {
		i = (i + 1) & (len(t.keys) - 1)
	}
	return i
}

// add gives the pair the next rank. A pair that comes twice keeps the later
// rank, as in the reference.
func (t *mergeTable) add(left, right, merged int32) {
	key := uint64(uint32(left))<<32 | uint64(uint32(right))
	i := t.slot(key)
	t.keys[i] = key
	t.ranks[i] = int32(len(t.merged))
	t.merged = append(t.merged, merged)
}

// rank returns the rank of the pair, or noRank. A negative id, which stands for
// no token, merges with nothing.
func (t *mergeTable) rank(left, right int32) int32 {
	if left < 0 || right < 0 {
		return noRank
	}
	key := uint64(uint32(left))<<32 | uint64(uint32(right))
	if i := t.slot(key); t.keys[i] == key {
		return t.ranks[i]
	}
	return noRank
}

// buildMerges resolves the merges of the file against the vocabulary.
func buildMerges(merges [][2]string, vocab *index) (*mergeTable, error) {
	t := newMergeTable(len(merges))
	var text []byte
	for n, m := range merges {
		left, right := vocab.find(m[0]), vocab.find(m[1])
		text = append(append(text[:0], m[0]...), m[1]...)
		merged := vocab.find(string(text))
		if left < 0 || right < 0 || merged < 0 {
			return nil, missingMerge(n, m, [3]bool{left < 0, right < 0, merged < 0})
		}
		t.add(left, right, merged)
	}
	return t, nil
}

// missingMerge names the first token of a merge that the vocabulary lacks.
func missingMerge(n int, m [2]string, missing [3]bool) error {
	for i, s := range []string{m[0], m[1], m[0] + m[1]} {
		if missing[i] {
			return invalid("model.merges["+strconv.Itoa(n)+"]", "%q is not in model.vocab", clip(s))
		}
	}
	return nil
}
