package tokenizer

import (
	"math/bits"
	"slices"
	"unicode/utf8"
)

// unkPenalty is how far the score of an unknown character is below that of the
// worst token.
const unkPenalty = 10

// maxPieceBytes bounds the tokens of a Unigram model, and with them the steps
// that encoding takes per byte of text.
const maxPieceBytes = 512

// unigram is the model of type Unigram: of all ways to write a word as tokens
// it takes the one with the highest sum of scores (Kudo 2018, "Subword
// Regularization"), found by the Viterbi algorithm. Adjacent unknown characters
// are one unknown.
type unigram struct {
	m      *bpe
	pieces *pieceTrie
	scores []float64 // by id
	plain  []bool    // by id: what texts may be written with
	unk    float64   // score of an unknown character
}

// newUnigram takes the plain tokens of m's vocabulary. The worst score is that of
// all, as in the reference.
func newUnigram(m *bpe, scores []float64, plain []bool) *unigram {
	u := &unigram{m: m, scores: scores, plain: plain, unk: slices.Min(scores) - unkPenalty}
	total := 0
	for id, ok := range plain {
		if ok {
			total += len(m.vocab.texts.at(int32(id)))
		}
	}
	u.pieces = newPieceTrie(m.vocab.texts, plain, total)
	return u
}

// viterbi is the best way to the byte positions of a word.
type viterbi struct {
	scores []float64 // of the best way
	starts []int32   // where its last token begins, -1 = there is no way yet
	ids    []int32   // its last token, -1 = an unknown character
}

func (v *viterbi) reset(n int) {
	if cap(v.scores) < n {
		v.scores = make([]float64, n)
	}
	v.scores, v.starts, v.ids = v.scores[:n], grow(v.starts, n), grow(v.ids, n)
	for i := range v.starts {
		v.starts[i] = -1
	}
	v.scores[0], v.starts[0] = 0, 0
}

// offer takes a way to end if it is better than the one known: the first of
// equal ones stays, as in the reference.
func (v *viterbi) offer(start, end int, id int32, score float64) {
	if score += v.scores[start]; v.starts[end] < 0 || score > v.scores[end] {
		v.scores[end], v.starts[end], v.ids[end] = score, int32(start), id
	}
}

// segment implements segmenter. It takes at most m.longest steps per character.
func (u *unigram) segment(word string, s *mergeScratch) {
	v := &s.best
	v.reset(len(word) + 1)
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		isToken := false // the character is a token by itself
		node := int32(0)
		for end := at; end < len(word); {
			if node = u.pieces.child(node, word[end]); node < 0 {
				break
			}
			s.steps++
			end++
			if id := u.pieces.ids[node]; id >= 0 {
				v.offer(at, end, id, u.scores[id])
				isToken = isToken || end-at == size
			}
		}
		if !isToken {
			v.offer(at, at+size, -1, u.unk)
		}
		at += size
	}
	u.collect(word, s)
}

// collect walks the best way back and writes its ids.
func (u *unigram) collect(word string, s *mergeScratch) {
	v := &s.best
	s.out, s.starts = s.out[:0], s.starts[:0]
	for end := len(word); end > 0; {
		start, id := int(v.starts[end]), v.ids[end]
		if id >= 0 && id != u.m.unk {
			s.put(id, start)
			end = start
			continue
		}
		// The spelling of unk itself counts as unknown.
		for start > 0 && (v.ids[start] < 0 || v.ids[start] == u.m.unk) {
			start = int(v.starts[start])
		}
		u.unknown(word, start, end, s)
		end = start
	}
	slices.Reverse(s.out)
	slices.Reverse(s.starts)
	s.takeOut()
}

// unknown writes word[start:end], from its end.
func (u *unigram) unknown(word string, start, end int, s *mergeScratch) {
	id := u.m.vocab.find(word[start:end])
	if id >= 0 && !u.plain[id] {
		id = -1
	}
	if id < 0 && !u.m.byteFallback {
		id = u.m.unk
	}
	if id >= 0 {
		s.put(id, start)
		return
	}
	for at := end - 1; at >= start; at-- {
		s.put(u.m.byteID[word[at]], at)
	}
}

// pieceTrie finds all tokens with which a text begins. Its edges are one table
// by open addressing, at most half full: a pointer for each would cost the
// garbage collector a walk over the vocabulary.
type pieceTrie struct {
	edges []uint64 // parent node<<36 | byte<<28 | child node, 0 = free
	ids   []int32  // by node: the token that ends there, -1 = none
	shift uint     // 64 - log2(len(edges))
}

// maxTrieNodes is what an edge has bits for; the size of a file bounds it too.
const maxTrieNodes = 1 << 28

// newPieceTrie takes the tokens isToken of texts, which have total bytes.
func newPieceTrie(texts *arena, isToken []bool, total int) *pieceTrie {
	t := &pieceTrie{ids: make([]int32, 1, 16)}
	t.ids[0] = -1
	t.resize(1 << min(12, max(4, bits.Len(uint(2*total)))))
	for id, ok := range isToken {
		if !ok {
			continue
		}
		form, node := texts.at(int32(id)), int32(0)
		for i := range len(form) {
			node = t.extend(node, form[i])
		}
		t.ids[node] = int32(id)
	}
	return t
}

// slot returns where the edge is or would be.
func (t *pieceTrie) slot(key uint64) int {
	i := int(key * 0x9E3779B97F4A7C15 >> t.shift)
	for t.edges[i] != 0 && t.edges[i]>>28 != key {
		i = (i + 1) & (len(t.edges) - 1)
	}
	return i
}

// child returns the node behind the edge b of node, -1 = none. No edge leads to
// the root, so that 0 is free to mean that there is none.
func (t *pieceTrie) child(node int32, b byte) int32 {
	e := t.edges[t.slot(uint64(node)<<8|uint64(b))]
	if e == 0 {
		return -1
	}
	return int32(e & (maxTrieNodes - 1))
}

// extend returns the node behind the edge b of node, which it makes if need be.
func (t *pieceTrie) extend(node int32, b byte) int32 {
	key := uint64(node)<<8 | uint64(b)
	i := t.slot(key)
	if t.edges[i] != 0 {
		return int32(t.edges[i] & (maxTrieNodes - 1))
	}
	child := len(t.ids)
	t.ids = append(t.ids, -1)
	t.edges[i] = key<<28 | uint64(child)
	if 2*child > len(t.edges) {
		t.resize(2 * len(t.edges))
	}
	return int32(child)
}

// resize moves the edges to a table of size slots, a power of two.
func (t *pieceTrie) resize(size int) {
	old := t.edges
	t.edges, t.shift = make([]uint64, size), uint(64-bits.Len(uint(size-1)))
	for _, e := range old {
		if e != 0 {
			t.edges[t.slot(e>>28)] = e
		}
	}
}
