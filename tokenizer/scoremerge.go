package tokenizer

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// segmenter turns a part of a word into ids by other means than a table of
// merges. It leaves them in s.ids, s.prev[k] the byte at which token k begins,
// and s.offsets empty. word is not empty and has at most maxPart bytes.
type segmenter interface {
	segment(word string, s *mergeScratch)
}

// scoreMerger is byte-pair merging as SentencePiece does it: two neighbours
// merge if their text together is a token, the token of the highest score
// first, the leftmost of equal scores. A list of merges cannot say the same:
// there two ways to the same token differ in rank, here only in position.
type scoreMerger struct {
	m     *bpe
	ranks []int32 // by id: the place of its score, 0 = highest; noRank = not merged to
}

// newScoreMerger ranks the tokens of m's vocabulary for which merges says yes.
func newScoreMerger(m *bpe, scores []float64, merges func(id int32) bool) *scoreMerger {
	ids := make([]int32, 0, len(scores))
	sm := &scoreMerger{m: m, ranks: make([]int32, len(scores))}
	for id := range scores {
		sm.ranks[id] = noRank
		if merges(int32(id)) {
			ids = append(ids, int32(id))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	rank := int32(0)
	for i, id := range ids {
		if i > 0 && scores[id] != scores[ids[i-1]] {
			rank++
		}
		sm.ranks[id] = rank
	}
	return sm
}

// segment implements segmenter in O(n log n).
func (sm *scoreMerger) segment(word string, s *mergeScratch) {
	sm.characters(word, s)
	n := len(s.ids)
	for at := range n - 1 {
		sm.pair(word, s, at)
	}
	for len(s.heap) > 0 {
		rank, at := s.heap.pop()
		// An entry of a pair that is gone may meet another one of the same
		// rank: that is the one to be merged now all the same.
		if s.ranks[at] != rank {
			continue
		}
		right := s.next[at]
		s.ids[at] = s.merged[at]
		s.ranks[at], s.ranks[right] = noRank, noRank
		s.next[at] = s.next[right]
		if int(s.next[at]) < n {
			s.prev[s.next[at]] = int32(at)
			sm.pair(word, s, at)
		}
		if left := s.prev[at]; left >= 0 {
			sm.pair(word, s, int(left))
		}
	}
	sm.collect(word, s)
}

// characters makes each character of word a symbol, -1 if it is no token.
func (sm *scoreMerger) characters(word string, s *mergeScratch) {
	s.ids, s.offsets, s.heap = s.ids[:0], s.offsets[:0], s.heap[:0]
	for i := 0; i < len(word); {
		_, size := utf8.DecodeRuneInString(word[i:])
		id := sm.m.vocab.find(word[i : i+size])
		if id >= 0 && sm.ranks[id] == noRank {
			id = -1
		}
		s.add(id, i)
		i += size
	}
	n := len(s.ids)
	s.ranks, s.prev, s.next, s.merged = grow(s.ranks, n), grow(s.prev, n), grow(s.next, n), grow(s.merged, n)
	for i := range n {
		s.prev[i], s.next[i], s.ranks[i] = int32(i-1), int32(i+1), noRank
	}
}

// end returns the byte at which the symbol before symbol next ends.
func (s *mergeScratch) end(word string, next int32) int {
	if int(next) == len(s.offsets) {
		return len(word)
	}
	return int(s.offsets[next])
}

// pair looks up the pair that begins at position at and queues it.
func (sm *scoreMerger) pair(word string, s *mergeScratch, at int) {
	s.ranks[at] = noRank
	start, end := int(s.offsets[at]), s.end(word, s.next[s.next[at]])
	if end-start > sm.m.longest {
		return
	}
	id := sm.m.vocab.find(word[start:end])
	if id < 0 || sm.ranks[id] == noRank {
		return
	}
	s.merged[at], s.ranks[at] = id, sm.ranks[id]
	s.heap.push(s.ranks[at], at)
}

// collect writes the ids of the symbols that are left: tokens, and characters
// that are none, as bytes or as unk.
func (sm *scoreMerger) collect(word string, s *mergeScratch) {
	s.out, s.starts = s.out[:0], s.starts[:0]
	unk := false // the last id is unk
	for i := int32(0); int(i) < len(s.ids); i = s.next[i] {
		id, start := s.ids[i], int(s.offsets[i])
		switch {
		case id >= 0:
			s.put(id, start)
		case sm.m.byteFallback:
			for at := start; at < s.end(word, s.next[i]); at++ {
				s.put(sm.m.byteID[word[at]], at)
			}
		case !unk || !sm.m.fuseUnk:
			s.put(sm.m.unk, start)
		}
		unk = id < 0 && !sm.m.byteFallback
	}
	s.takeOut()
}

// put appends an id of the result, which begins at byte start.
func (s *mergeScratch) put(id int32, start int) {
	s.out, s.starts = append(s.out, id), append(s.starts, int32(start))
}

// takeOut makes what was put the ids of s and their offsets.
func (s *mergeScratch) takeOut() {
	s.ids, s.out = s.out, s.ids[:0]
	s.prev, s.starts = s.starts, s.prev[:0]
	s.offsets = s.offsets[:0]
}
