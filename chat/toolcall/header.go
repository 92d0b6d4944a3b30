package toolcall

import "strings"

// part is one thing that a [header] expects.
type part struct {
	lit      string // this string, or if empty a word
	optional bool
	name     bool // the word is the function's name
}

// header is what stands between an open string and the brace of the arguments. White
// space may follow every part.
type header []part

type match uint8

const (
	matchNo   match = iota
	matchPart       // a prefix of a match
	matchYes
)

// match compares raw, which ends with the newest byte, and returns the function's name.
func (h header) match(raw string) (name string, found match) {
	for _, p := range h {
		n, found := p.match(raw)
		switch {
		case found == matchPart:
			return "", matchPart
		case found == matchNo && !p.optional:
			return "", matchNo
		}
		if p.name {
			name = raw[:n]
		}
		raw = trimBlanks(raw[n:])
		if raw == "" {
			return "", matchPart
		}
	}
	if raw != "{" || name == "" {
		return "", matchNo
	}
	return name, matchYes
}

// match returns how much of raw is this part. A word ends where a character stands that
// no word has.
func (p part) match(raw string) (int, match) {
	if p.lit == "" {
		n := strings.IndexFunc(raw, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) })
		switch {
		case n < 0:
			return 0, matchPart
		case n == 0 || n > maxName:
			return 0, matchNo
		}
		return n, matchYes
	}
	switch {
	case strings.HasPrefix(raw, p.lit):
		return len(p.lit), matchYes
	case strings.HasPrefix(p.lit, raw):
		return 0, matchPart
	}
	return 0, matchNo
}

// isWord says whether an ASCII byte may stand in a function's name.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.:/", c) >= 0
}
