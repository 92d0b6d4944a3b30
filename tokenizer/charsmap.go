package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// Bounds of a precompiled charsmap (SentencePiece's nmt_nfkc: 240 KB, keys of up
// to 33 bytes).
const (
	maxCharsmapBytes = 8 << 20
	maxCharsmapKey   = 128 // bytes
	maxCharsmapNodes = 1 << 20
)

// maxCluster is the number of bytes from which on a grapheme cluster is not
// looked up as a whole.
const maxCluster = 6

// precompiled is the normalizer of SentencePiece's models as the reference
// applies it: a grapheme cluster, if it is short, or else each of its characters
// becomes the text of the shortest key with which it begins.
type precompiled struct {
	keys   *pieceTrie
	texts  arena // by key
	growth int   // the most bytes that one byte can become
}

// parsePrecompiled reads a charsmap: base64 of the size in bytes of a double-array
// trie (little endian), the trie, and the texts, each ended by a zero byte, which
// the values of the trie point to. An empty one is no normalizer: nil.
func parsePrecompiled(charsmap, part string) (*precompiled, error) {
	if charsmap == "" {
		return nil, nil
	}
	if len(charsmap) > maxCharsmapBytes {
		return nil, exceeds(part, "length in bytes", len(charsmap), maxCharsmapBytes)
	}
	b, err := base64.StdEncoding.DecodeString(charsmap)
	if err != nil {
		return nil, invalid(part, "is no base64: %v", err)
	}
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 4 {
		return nil, invalid(part, "has %d bytes, it must have at least 4", len(b))
	}
	size := int64(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if size%4 != 0 || size == 0 || size > int64(len(b)) {
		return nil, invalid(part, "the trie has %d bytes, of %d: not a multiple of 4 within the charsmap", size, len(b))
	}
	r := charsmapReader{part: part, units: make([]uint32, size/4), texts: string(b[size:])}
	for i := range r.units {
		r.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	root, _ := r.move(0, r.units[0])
	if err := r.walk(root, nil); err != nil {
		return nil, err
	}
	return r.build(), nil
}

// charsmapReader lists the keys of a double-array trie in the layout of
// darts-clone (https://github.com/s-yata/darts-clone), where branches that are
// alike may be one. The trie may be anything, circles included: positions are
// checked, and the length of keys and the number of nodes are bounded.
type charsmapReader struct {
	part  string
	units []uint32
	texts string

	nodes int
	keys  []string
	out   []string // parallel to keys
}

// move returns the position that a unit at position at points to.
func (r *charsmapReader) move(at uint32, unit uint32) (to uint32, ok bool) {
	to = at ^ unit>>10<<(unit&(1<<9)>>6)
	return to, int64(to) < int64(len(r.units))
}

// walk lists the keys below the node at a position, which is spelled so far.
func (r *charsmapReader) walk(node uint32, spelled []byte) error {
	if len(spelled) > maxCharsmapKey {
		return exceeds(r.part, "length in bytes of a key", len(spelled), maxCharsmapKey)
	}
	for c := uint32(1); c < 256; c++ {
		at := node ^ c
		if int64(at) >= int64(len(r.units)) {
			continue
		}
		unit := r.units[at]
		if unit&(1<<31|0xFF) != c {
			continue
		}
		if r.nodes++; r.nodes > maxCharsmapNodes {
			return exceeds(r.part, "number of nodes of the trie", r.nodes, maxCharsmapNodes)
		}
		child, ok := r.move(at, unit)
		if !ok {
			return invalid(r.part, "the trie points to unit %d, there are %d", child, len(r.units))
		}
		key := append(spelled, byte(c))
		if unit>>8&1 == 1 {
			if err := r.leaf(string(key), r.units[child]&(1<<31-1)); err != nil {
				return err
			}
		}
		if err := r.walk(child, key); err != nil {
			return err
		}
	}
	return nil
}

// leaf takes the text of one key.
func (r *charsmapReader) leaf(key string, at uint32) error {
	if int64(at) > int64(len(r.texts)) {
		return invalid(r.part, "the text of %q is at %d, there are %d bytes", clip(key), at, len(r.texts))
	}
	text, _, _ := strings.Cut(r.texts[at:min(len(r.texts), int(at)+maxTokenBytes+1)], "\x00")
	switch {
	case len(text) > maxTokenBytes:
		return exceeds(r.part, "length in bytes of the text of a key", len(text), maxTokenBytes)
	case !utf8.ValidString(text):
		return invalid(r.part, "the text of %q is not UTF-8", clip(key))
	}
	r.keys, r.out = append(r.keys, key), append(r.out, text)
	return nil
}

// build returns the normalizer for the keys.
func (r *charsmapReader) build() *precompiled {
	keys := newArena(len(r.keys), func(id int32) string { return r.keys[id] })
	all := make([]bool, len(r.keys))
	p := &precompiled{growth: 1, texts: newArena(len(r.out), func(id int32) string { return r.out[id] })}
	for i, key := range r.keys {
		all[i] = true
		p.growth = max(p.growth, (len(r.out[i])+len(key)-1)/len(key))
	}
	p.keys = newPieceTrie(&keys, all, len(keys.data))
	return p
}

func (p *precompiled) normalize(s string, spans []infer.Span) (string, []infer.Span) {
	// Characters up to here are looked up one by one, as their cluster is long.
	single := 0
	return rewrite(s, spans, func(from int) (start, end int, text string) {
		for i := from; i < len(s); {
			n := 0
			if i >= single {
				n = clusterLen(s[i:])
				if n >= maxCluster {
					single = i + n
				}
			}
			if i < single {
				_, n = utf8.DecodeRuneInString(s[i:])
			}
			if text, ok := p.lookup(s[i : i+n]); ok {
				return i, i + n, text
			}
			if i < single {
				i += n
				continue
			}
			// Unknown as a whole, so that its first character is unknown, too;
			// those after it may be known.
			single = i + n
			_, n = utf8.DecodeRuneInString(s[i:])
			i += n
		}
		return -1, -1, ""
	})
}

// lookup returns the text for the shortest key with which s begins.
func (p *precompiled) lookup(s string) (string, bool) {
	node := int32(0)
	for i := range len(s) {
		if node = p.keys.child(node, s[i]); node < 0 {
			return "", false
		}
		if id := p.keys.ids[node]; id >= 0 {
			return p.texts.at(id), true
		}
	}
	return "", false
}
