package openai

import (
	"strconv"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// assembler turns the raw bytes of successive tokens into strings that join to
// the text: the bytes of a character that spans tokens are shown with the token
// that completes it. What is left at the end is dropped, as it is from the text.
type assembler struct {
	pending [utf8.UTFMax]byte // the start of a character, not yet whole
	num     uint8             // bytes in pending
}

// appendText appends the characters that raw completes to dst. Bytes that
// cannot become a character are left out, as they are of the text.
func (a *assembler) appendText(dst []byte, raw string) []byte {
	if a.num == 0 && utf8.ValidString(raw) {
		return append(dst, raw...)
	}
	var window [2 * utf8.UTFMax]byte
	num := copy(window[:], a.pending[:a.num])
	a.num = 0
	for {
		n := copy(window[num:], raw)
		num, raw = num+n, raw[n:]
		if num == 0 {
			return dst
		}
		if !utf8.FullRune(window[:num]) { // so fewer than UTFMax bytes, and raw is used up
			a.num = uint8(copy(a.pending[:], window[:num]))
			return dst
		}
		r, size := utf8.DecodeRune(window[:num])
		if r == utf8.RuneError && size == 1 {
			size = maximalPart(window[:num])
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		num = copy(window[:], window[size:num])
	}
}

// maximalPart returns the length of the longest start of b, which does not begin
// with a character, that could have become one.
func maximalPart(b []byte) int {
	size := 1
	for size < len(b) && !utf8.FullRune(b[:size+1]) {
		size++
	}
	return size
}

// tokenNamer gives the strings by which the tokens of one position are shown.
type tokenNamer struct {
	asIDs  bool
	chosen []byte // the string of the position's own token
	tokens assembler
}

// next moves on to a position; its own token's string is then n.chosen.
func (n *tokenNamer) next(t *infer.TokenLogprob) {
	n.chosen = n.chosen[:0]
	if n.asIDs {
		n.chosen = appendIDName(n.chosen, t.TokenID)
		return
	}
	n.chosen = n.tokens.appendText(n.chosen, t.Text)
}

// appendName appends the escaped string of t, a token of the current position.
// An alternative is named by its own bytes, so that names tell tokens apart.
func (n *tokenNamer) appendName(dst []byte, t, chosen *infer.TokenLogprob) []byte {
	switch {
	case t.TokenID == chosen.TokenID:
		return appendEscaped(dst, n.chosen)
	case n.asIDs:
		return appendIDName(dst, t.TokenID)
	case utf8.ValidString(t.Text):
		return appendEscaped(dst, t.Text)
	}
	dst = append(dst, "bytes:"...)
	for i := range len(t.Text) {
		dst = append(dst, '\\', '\\', 'x', hexDigits[t.Text[i]>>4], hexDigits[t.Text[i]&15])
	}
	return dst
}

func appendIDName(dst []byte, id int32) []byte {
	return strconv.AppendInt(append(dst, "token_id:"...), int64(id), 10)
}
