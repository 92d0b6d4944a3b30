package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

const (
	// cacheSlots bounds the words that are remembered.
	cacheSlots = 1 << 15
	// maxCachedWord bounds the bytes of one of them; together at most
	// cacheSlots * maxCachedWord * 5 bytes, about 8 MB, and far less in practice.
	maxCachedWord = 48
)

// wordCache remembers the ids of words. It is a direct-mapped table of atomic
// pointers: a reader never waits, a writer replaces whatever had its slot, and
// its size is fixed.
type wordCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cachedWord]
}

// cachedWord is never changed once it is in the table.
type cachedWord struct {
	word string
	ids  []int32
}

func newWordCache(slots int) *wordCache {
	return &wordCache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[cachedWord], slots)}
}

func (c *wordCache) slot(word string) *atomic.Pointer[cachedWord] {
	return &c.slots[maphash.String(c.seed, word)%uint64(len(c.slots))]
}

// get returns the ids of word, which must not be changed.
func (c *wordCache) get(word string) ([]int32, bool) {
	w := c.slot(word).Load()
	if w == nil || w.word != word {
		return nil, false
	}
	return w.ids, true
}

// put remembers the ids of word. It copies both, as a word is a part of a
// request's text that must not be kept alive.
func (c *wordCache) put(word string, ids []int32) {
	c.slot(word).Store(&cachedWord{word: strings.Clone(word), ids: append([]int32(nil), ids...)})
}
