package tokenizer

import (
	"sync"
	"unicode/utf8"
)

const (
	// maxScanned is the number of symbols up to which a word is merged by
	// scanning for the best pair; beyond it a heap finds the pair.
	maxScanned = 40
	maxPart    = 64 << 10
	partGuard  = 4 << 10
)

// bpe is the model of the tokenizer: it turns one word into ids, by byte-pair
// encoding with a table of merges or by another segmenter.
type bpe struct {
	vocab        *index
	merges       *mergeTable
	other        segmenter   // in place of merges, nil = merges
	byteLevel    bool        // words are raw bytes, spelled in the byte alphabet in the vocabulary
	byteID       [256]int32  // id of each byte (byte fallback for character-level models), -1 = none
	byteFallback bool        // character-level: unknown characters become their bytes
	unk          int32       // id for what is unknown, -1 = none
	fuseUnk      bool        // adjacent unknown symbols become one unk
	ignoreMerges bool        // a word that is in the vocabulary is one token
	longest      int         // bytes of the longest vocabulary form
	breaks       *wordBreaks // nil = words stay whole
	cache        *wordCache
	scratch      sync.Pool // of *mergeScratch
	// maxPart bounds the bytes that are merged at once, and with them the
	// memory; partGuard is how far before the end of a part its tokens are
	// trusted, as the end of a text changes only the merges close to it.
	maxPart, partGuard int
}

// mergeScratch is the working memory of merging, reused between words.
type mergeScratch struct {
	ids     []int32 // symbols
	offsets []int32 // byte offset of each initial symbol; empty if that is its index
	ranks   []int32 // rank of the pair (symbol, its right neighbour)
	prev    []int32 // left neighbour; after merging, the initial symbol with which each symbol begins
	next    []int32 // right neighbour
	heap    rankHeap
	form    []byte // of a word, spelled in the byte alphabet

	merged      []int32 // by scores: the token to which the pair merges
	out, starts []int32 // of segmenters: ids and the bytes at which they begin
	best        viterbi
	steps       int // of the search for tokens; only tests look at it
}

func (m *bpe) getScratch() *mergeScratch {
	// What is pooled is bounded by maxPart symbols.
	if s, ok := m.scratch.Get().(*mergeScratch); ok {
		return s
	}
	return &mergeScratch{}
}

// appendWord appends the ids of one word to out. word is not empty.
func (m *bpe) appendWord(out []int32, word string, s *mergeScratch) []int32 {
	if len(word) <= maxCachedWord {
		if ids, ok := m.cache.get(word); ok {
			return append(out, ids...)
		}
	}
	n := len(out)
	if id := m.whole(word, s); id >= 0 {
		out = append(out, id)
	} else {
		out = m.appendMerged(out, word, s)
	}
	if len(word) <= maxCachedWord {
		m.cache.put(word, out[n:])
	}
	return out
}

// whole returns the id of the entire word if the model takes such words as they
// are, else -1.
func (m *bpe) whole(word string, s *mergeScratch) int32 {
	if !m.ignoreMerges || len(word) > m.longest {
		return -1
	}
	if !m.byteLevel {
		return m.vocab.find(word)
	}
	s.form = alphabet.spell(s.form[:0], word)
	return m.vocab.find(string(s.form))
}

// appendMerged appends the ids of a word of at most maxPart bytes.
func (m *bpe) appendMerged(out []int32, word string, s *mergeScratch) []int32 {
	if m.other != nil {
		m.other.segment(word, s)
		return append(out, s.ids...)
	}
	m.symbols(word, s)
	if len(s.ids) <= maxScanned {
		m.mergeByScan(s)
	} else {
		m.mergeByHeap(s)
	}
	return append(out, s.ids...)
}

// segmentPart is appendMerged for a part of a long word: the ids stay in s,
// which knows where they begin.
func (m *bpe) segmentPart(part string, s *mergeScratch) {
	if m.other != nil {
		m.other.segment(part, s)
		return
	}
	m.symbols(part, s)
	m.mergeByHeap(s)
}

// appendLong appends the ids of a word of any length, in parts of m.maxPart
// bytes. The next part begins at the last token border that is far enough from
// the end of this one to be a border of the whole word as well. It stops after
// the part with which out has more than limit ids, if limit > 0.
func (m *bpe) appendLong(out []int32, word string, limit int, s *mergeScratch) []int32 {
	for len(word) > m.maxPart {
		part := word[:runeStart(word, m.maxPart)]
		m.segmentPart(part, s)
		next, kept := len(part), len(s.ids)
		for k := kept - 1; k > 0; k-- {
			if at := s.offset(k); at <= len(part)-m.partGuard {
				next, kept = at, k
				break
			}
		}
		out = append(out, s.ids[:kept]...)
		word = word[next:]
		if limit > 0 && len(out) > limit {
			return out
		}
	}
	return m.appendWord(out, word, s)
}

// offset returns the byte at which symbol k begins, after segmentPart.
func (s *mergeScratch) offset(k int) int {
	at := s.prev[k]
	if len(s.offsets) > 0 {
		at = s.offsets[at]
	}
	return int(at)
}

// runeStart returns the greatest start of a character that is at most i, or i
// if there is none close by, as in text that is not UTF-8; at most len(s).
func runeStart(s string, i int) int {
	if i >= len(s) {
		return len(s)
	}
	for k := i; k > i-utf8.UTFMax && k > 0; k-- {
		if utf8.RuneStart(s[k]) {
			return k
		}
	}
	return i
}

// symbols fills s.ids with the initial symbols of word: its bytes, or its
// characters with the fallback to bytes or to unk.
func (m *bpe) symbols(word string, s *mergeScratch) {
	s.ids, s.offsets = s.ids[:0], s.offsets[:0]
	if m.byteLevel {
		for i := range len(word) {
			s.ids = append(s.ids, m.byteID[word[i]])
		}
		return
	}
	unk := false // the last symbol is unk
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		char := word[i : i+n]
		id := m.vocab.find(char)
		switch {
		case id >= 0:
			s.add(id, i)
		case m.byteFallback:
			for k := range len(char) {
				s.add(m.byteID[char[k]], i+k)
			}
		case !unk || !m.fuseUnk:
			s.add(m.unk, i)
		}
		unk = id < 0 && !m.byteFallback
		i += n
	}
}

// add appends a symbol that begins at byte at.
func (s *mergeScratch) add(id int32, at int) {
	s.ids = append(s.ids, id)
	s.offsets = append(s.offsets, int32(at))
}

// mergeByScan merges s.ids in place, looking at every pair for each merge.
func (m *bpe) mergeByScan(s *mergeScratch) {
	ids, ranks := s.ids, s.ranks[:0]
	for i := 1; i < len(ids); i++ {
		ranks = append(ranks, m.merges.rank(ids[i-1], ids[i]))
	}
	for {
		best, at := noRank, -1
		for i, r := range ranks {
			if r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		ids[at] = m.merges.merged[best]
		ids = append(ids[:at+1], ids[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at > 0 {
			ranks[at-1] = m.merges.rank(ids[at-1], ids[at])
		}
		if at < len(ranks) {
			ranks[at] = m.merges.rank(ids[at], ids[at+1])
		}
	}
	s.ids, s.ranks = ids, ranks
}

// mergeByHeap merges s.ids in place in O(n log n): a heap of pairs ordered by
// rank and position over a doubly linked list of symbols. An entry is stale,
// and skipped, when the pair at its position has another rank by now; a rank
// belongs to one pair only, so that comparison is enough.
func (m *bpe) mergeByHeap(s *mergeScratch) {
	n := len(s.ids)
	s.ranks, s.prev, s.next = grow(s.ranks, n), grow(s.prev, n), grow(s.next, n)
	s.heap = s.heap[:0]
	for i := range n {
		s.prev[i], s.next[i] = int32(i-1), int32(i+1)
		s.ranks[i] = noRank
		if i+1 < n {
			s.pair(m, i)
		}
	}
	for len(s.heap) > 0 {
		rank, at := s.heap.pop()
		if s.ranks[at] != rank {
			continue
		}
		right := s.next[at]
		s.ids[at] = m.merges.merged[rank]
		s.ranks[right] = noRank
		s.next[at] = s.next[right]
		s.ranks[at] = noRank
		if int(s.next[at]) < n {
			s.prev[s.next[at]] = int32(at)
			s.pair(m, at)
		}
		if left := s.prev[at]; left >= 0 {
			s.pair(m, int(left))
		}
	}
	kept := 0
	for i := 0; i < n; i = int(s.next[i]) {
		s.ids[kept], s.prev[kept] = s.ids[i], int32(i)
		kept++
	}
	s.ids = s.ids[:kept]
}

// pair looks up the pair that begins at position at and queues it.
func (s *mergeScratch) pair(m *bpe, at int) {
	rank := m.merges.rank(s.ids[at], s.ids[s.next[at]])
	s.ranks[at] = rank
	if rank != noRank {
		s.heap.push(rank, at)
	}
}

// grow returns a slice of length n, reusing the memory of s if it suffices.
func grow(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}

// rankHeap is a binary min-heap of rank<<32 | position: lowest rank first, the
// leftmost of equal rank.
type rankHeap []uint64

func (h *rankHeap) push(rank int32, at int) {
	a := append(*h, uint64(rank)<<32|uint64(uint32(at)))
	*h = a
	for i := len(a) - 1; i > 0; {
		parent := (i - 1) / 2
		if a[parent] <= a[i] {
			return
		}
		a[parent], a[i] = a[i], a[parent]
		i = parent
	}
}

func (h *rankHeap) pop() (rank int32, at int) {
	a := *h
	top, last := a[0], len(a)-1
	a[0] = a[last]
	a = a[:last]
	*h = a
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if right := least + 1; right < last && a[right] < a[least] {
			least = right
		}
		if a[i] <= a[least] {
			break
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
	return int32(top >> 32), int(uint32(top))
}
