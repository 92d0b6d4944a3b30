package grammar

import (
	"cmp"
	"runtime"
	"slices"
)

// Vocabulary is what matchers know of a tokenizer. It is immutable and safe for
// concurrent use; build it once per tokenizer.
type Vocabulary struct {
	tokens  [][]byte // by id, not owned
	allowed []bool   // by id: may appear inside a text
	eos     []int32
	isEOS   map[int32]bool
	trie    []trieNode // in preorder, the root first, and an end mark
	order   []int32    // token ids sorted by their bytes; a trieNode points into it
	longest int        // bytes of the longest allowed token
	// follow has, per trie node, bit b%64 set if a child's byte is b.
	follow []uint64
	first  [256]int32 // by byte, the child of the root; 0 = there is none
	shared []*local   // by node of the prelude, nil if it is not wide
	free   *local     // of loops over freeChar

	lanes chan struct{} // has room for as many as may go on by themselves at a time
}

// VocabularyOptions say which tokens are more than their bytes.
type VocabularyOptions struct {
	// EOS are the ids that end a text; the mask allows them when it is complete.
	EOS []int32
	// Special ids are never allowed inside a text. EOS ids are special anyway.
	Special []int32
}

// trieNode is a prefix of at least one token. Its tokens are order[first] up to
// the next node's first.
type trieNode struct {
	end   int32 // the node after its last descendant
	first int32
	depth int16
	b     byte
}

// NewVocabulary builds a vocabulary from the bytes of each token; it keeps
// tokenBytes, which must not change. Tokens without bytes, and those longer
// than 1024 bytes, are never allowed.
func NewVocabulary(tokenBytes [][]byte, o VocabularyOptions) *Vocabulary {
	v := &Vocabulary{
		tokens: tokenBytes, allowed: make([]bool, len(tokenBytes)), isEOS: map[int32]bool{},
		lanes: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), // steps want the cores, too
	}
	for i, b := range tokenBytes {
		v.allowed[i] = len(b) > 0 && len(b) <= maxTokenBytes
	}
	for _, id := range o.Special {
		if v.exists(id) {
			v.allowed[id] = false
		}
	}
	for _, id := range o.EOS {
		if v.exists(id) && !v.isEOS[id] {
			v.allowed[id] = false
			v.isEOS[id] = true
			v.eos = append(v.eos, id)
		}
	}
	v.sortTokens()
	v.buildTrie()
	p := prelude()
	v.shared = make([]*local, len(p.nodes))
	for pc := range v.shared {
		if p.wide[pc] {
			v.shared[pc] = localWalk(p, v, int32(pc), unlimited)
		}
	}
	for _, l := range p.loops {
		if l.free {
			v.free = v.shared[l.body]
		}
	}
	return v
}

// Tokenizer is what [VocabularyOf] asks of one.
type Tokenizer interface {
	VocabSize() int
	TokenBytes(id int32) []byte
	IsSpecial(id int32) bool
}

// VocabularyOf builds the vocabulary of a model with size tokens, which may be more
// than its tokenizer knows, or fewer; those end a text that eos lists.
func VocabularyOf(t Tokenizer, size int, eos []int32) *Vocabulary {
	tokens := make([][]byte, size)
	o := VocabularyOptions{EOS: eos}
	for id := range int32(min(size, t.VocabSize())) {
		tokens[id] = t.TokenBytes(id)
		if t.IsSpecial(id) {
			o.Special = append(o.Special, id)
		}
	}
	return NewVocabulary(tokens, o)
}

func (v *Vocabulary) exists(id int32) bool { return id >= 0 && int(id) < len(v.tokens) }

// Size returns the number of tokens.
func (v *Vocabulary) Size() int { return len(v.tokens) }

// Bytes returns the bytes of a token, nil if there is no such token. They must
// not be changed.
func (v *Vocabulary) Bytes(token int32) []byte {
	if !v.exists(token) {
		return nil
	}
	return v.tokens[token]
}

// MaskWords returns how many words a mask has.
func (v *Vocabulary) MaskWords() int { return (len(v.tokens) + 63) / 64 }

// MissingBytes returns the bytes that UTF-8 uses and no token stands for alone.
// If there are any, a text can get to where no token fits, and its mask is
// empty; the caller ends it.
func (v *Vocabulary) MissingBytes() []byte {
	var found [256]bool
	for i, b := range v.tokens {
		if v.allowed[i] && len(b) == 1 {
			found[b[0]] = true
		}
	}
	var missing []byte
	for b := range 0xf5 {
		if !found[b] && b != 0xc0 && b != 0xc1 {
			missing = append(missing, byte(b))
		}
	}
	return missing
}

func (v *Vocabulary) sortTokens() {
	for i, ok := range v.allowed {
		if ok {
			v.order = append(v.order, int32(i))
			v.longest = max(v.longest, len(v.tokens[i]))
		}
	}
	slices.SortFunc(v.order, func(a, b int32) int {
		return cmp.Or(slices.Compare(v.tokens[a], v.tokens[b]), cmp.Compare(a, b))
	})
}

func (v *Vocabulary) buildTrie() {
	v.trie = []trieNode{{}}
	open := []int32{0} // the nodes from the root to the last token
	var last []byte
	for i, id := range v.order {
		b := v.tokens[id]
		common := 0
		for common < len(last) && common < len(b) && last[common] == b[common] {
			common++
		}
		for _, n := range open[common+1:] {
			v.trie[n].end = int32(len(v.trie))
		}
		open = open[:common+1]
		for ; common < len(b); common++ {
			open = append(open, int32(len(v.trie)))
			v.trie = append(v.trie, trieNode{first: int32(i), depth: int16(common + 1), b: b[common]})
		}
		last = b
	}
	for _, n := range open {
		v.trie[n].end = int32(len(v.trie))
	}
	v.trie = append(v.trie, trieNode{first: int32(len(v.order))})
	v.follow = make([]uint64, len(v.trie))
	for parent := range int32(len(v.trie) - 1) {
		for child := parent + 1; child < v.trie[parent].end; child = v.trie[child].end {
			v.follow[parent] |= 1 << (v.trie[child].b & 63)
		}
	}
	for child := int32(1); child < v.trie[0].end; child = v.trie[child].end {
		v.first[v.trie[child].b] = child
	}
}

// at returns the tokens that end at trie node i.
func (v *Vocabulary) at(i int32) []int32 {
	return v.order[v.trie[i].first:v.trie[i+1].first]
}
