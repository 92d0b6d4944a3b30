package tokenizer

import (
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// addedToken is one entry of added_tokens: a text that is one token wherever it
// occurs, whatever the model would make of it.
type addedToken struct {
	ID         *int32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // not next to word characters
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // searched in the normalized text
	Special    bool   `json:"special"`     // a control token
}

// checkAdded validates added_tokens by themselves.
func checkAdded(tokens []addedToken) error {
	const part = "added_tokens"
	if len(tokens) > maxAddedTokens {
		return exceeds(part, "number of tokens", len(tokens), maxAddedTokens)
	}
	byContent := make(map[string]int, len(tokens))
	byID := make(map[int32]int, len(tokens))
	for i, t := range tokens {
		at := part + "[" + strconv.Itoa(i) + "]"
		switch {
		case t.ID == nil:
			return invalid(at, "%q has no id", clip(t.Content))
		case *t.ID < 0 || *t.ID >= maxTokens:
			return invalid(at, "the id of %q is %d, it must be from 0 to %d", clip(t.Content), *t.ID, maxTokens-1)
		case t.Content == "":
			return invalid(at, "the content is empty")
		case len(t.Content) > maxAddedBytes:
			return exceeds(at, "length of content in bytes", len(t.Content), maxAddedBytes)
		}
		if k, ok := byContent[t.Content]; ok {
			return invalid(at, "%q is also added_tokens[%d]", clip(t.Content), k)
		}
		if k, ok := byID[*t.ID]; ok {
			return invalid(at, "id %d is also that of %q", *t.ID, clip(tokens[k].Content))
		}
		byContent[t.Content], byID[*t.ID] = i, i
	}
	return nil
}

// trie finds added tokens by longest match.
type trie struct {
	nodes  []trieNode // nodes[0] is the root
	tokens []*addedToken
	first  [256]bool // bytes with which a token begins
	only   int       // the first byte, if all tokens share it, else -1
}

type trieNode struct {
	edges []trieEdge
	token int32 // index into tokens, -1 = no token ends here
}

type trieEdge struct {
	b    byte
	node int32
}

// newTrie returns a trie of the tokens' patterns, nil if there are none.
func newTrie(tokens []*addedToken, patterns []string) *trie {
	if len(tokens) == 0 {
		return nil
	}
	t := &trie{nodes: []trieNode{{token: -1}}, tokens: tokens, only: int(patterns[0][0])}
	for i, p := range patterns {
		t.first[p[0]] = true
		if int(p[0]) != t.only {
			t.only = -1
		}
		node := int32(0)
		for k := range len(p) {
			child := t.child(node, p[k])
			if child < 0 {
				child = int32(len(t.nodes))
				t.nodes = append(t.nodes, trieNode{token: -1})
				t.nodes[node].edges = append(t.nodes[node].edges, trieEdge{p[k], child})
			}
			node = child
		}
		if t.nodes[node].token < 0 {
			t.nodes[node].token = int32(i)
		}
	}
	return t
}

func (t *trie) child(node int32, b byte) int32 {
	for _, e := range t.nodes[node].edges {
		if e.b == b {
			return e.node
		}
	}
	return -1
}

// controls says where control tokens are not recognised.
type controls struct {
	none    bool
	literal []infer.Span // sorted, not overlapping, within the text
}

// suppressed reports whether a control token at [start, end) is plain text: it
// is if it touches a literal range at all, since then foreign text helped to
// spell it.
func (c *controls) suppressed(start, end int) bool {
	if c.none {
		return true
	}
	i := sort.Search(len(c.literal), func(i int) bool { return c.literal[i].End > start })
	return i < len(c.literal) && c.literal[i].Start < end
}

// within returns the literal ranges of text[start:end], relative to start.
func (c *controls) within(start, end int) []infer.Span {
	i := sort.Search(len(c.literal), func(i int) bool { return c.literal[i].End > start })
	var out []infer.Span
	for ; i < len(c.literal) && c.literal[i].Start < end; i++ {
		s := c.literal[i]
		out = append(out, infer.Span{Start: max(s.Start, start) - start, End: min(s.End, end) - start})
	}
	return out
}

// match is an added token found at text[start:end], stripped white space included.
type match struct {
	start, end int
	token      *addedToken
}

// finder walks over the matches of a text from left to right.
type finder struct {
	trie *trie
	text string
	ctl  *controls
	pos  int // where the search goes on
	done int // end of the last match, which lstrip does not cross
}

// next returns the next match.
func (f *finder) next() (match, bool) {
	for {
		start := f.trie.candidate(f.text, f.pos)
		if start < 0 {
			return match{}, false
		}
		token, end := f.longest(start)
		if token == nil {
			f.pos = start + 1
			continue
		}
		f.pos = end
		if token.SingleWord && (endsWord(f.text[:start]) || startsWord(f.text[end:])) {
			continue
		}
		if token.LStrip {
			start = f.done + len(strings.TrimRightFunc(f.text[f.done:start], unicode.IsSpace))
		}
		if token.RStrip {
			end = len(f.text) - len(strings.TrimLeftFunc(f.text[end:], unicode.IsSpace))
			f.pos = end
		}
		f.done = end
		return match{start, end, token}, true
	}
}

// candidate returns the next position at which a token may begin, or -1.
func (t *trie) candidate(text string, from int) int {
	if t.only >= 0 {
		i := strings.IndexByte(text[from:], byte(t.only))
		if i < 0 {
			return -1
		}
		return from + i
	}
	for ; from < len(text); from++ {
		if t.first[text[from]] {
			return from
		}
	}
	return -1
}

// longest returns the longest token that begins at start and its end.
func (f *finder) longest(start int) (token *addedToken, end int) {
	node := int32(0)
	for i := start; i < len(f.text); i++ {
		if node = f.trie.child(node, f.text[i]); node < 0 {
			break
		}
		k := f.trie.nodes[node].token
		if k < 0 {
			continue
		}
		t := f.trie.tokens[k]
		if !t.Special || !f.ctl.suppressed(start, i+1) {
			token, end = t, i+1
		}
	}
	return token, end
}

// endsWord reports whether the last character of s is part of a word.
func endsWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWordRune(r)
}

// startsWord reports whether the first character of s is part of a word.
func startsWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWordRune(r)
}

// isWordRune is \w of Unicode Technical Standard 18.
func isWordRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
