package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/troupe-llm/troupe/infer"
)

// unicodeForm is one of the four normalization forms.
type unicodeForm norm.Form

func (u unicodeForm) normalize(s string, spans []infer.Span) (string, []infer.Span) {
	if len(spans) == 0 {
		return u.apply(s), spans
	}
	// Texts between normalization boundaries do not affect each other, so the
	// text is cut at the boundaries around every range.
	var b strings.Builder
	moved := make([]infer.Span, 0, len(spans))
	pos := 0
	for _, sp := range spans {
		start, end := max(pos, u.boundaryBefore(s, sp.Start)), max(pos, u.boundaryAfter(s, sp.End))
		b.WriteString(u.apply(s[pos:start]))
		m := infer.Span{Start: b.Len()}
		b.WriteString(u.apply(s[start:end]))
		m.End, pos = b.Len(), end
		moved = append(moved, m)
	}
	b.WriteString(u.apply(s[pos:]))
	return b.String(), moved
}

// boundaryBefore returns the last boundary at or before i.
func (u unicodeForm) boundaryBefore(s string, i int) int {
	for i > 0 && i < len(s) && !u.boundary(s, i) {
		_, n := utf8.DecodeLastRuneInString(s[:i])
		i -= n
	}
	return i
}

// boundaryAfter returns the first boundary at or after i.
func (u unicodeForm) boundaryAfter(s string, i int) int {
	for i < len(s) && !u.boundary(s, i) {
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
	return i
}

// boundary reports whether nothing before s[i:] combines with its first character.
func (u unicodeForm) boundary(s string, i int) bool {
	p := norm.Form(u).PropertiesString(s[i:])
	return p.Size() == 0 || p.BoundaryBefore()
}

// graphemeJoiner is what package norm puts into runs of more than 30 combining
// marks to make the text "stream-safe". The reference does not.
const graphemeJoiner = "\u034f"

func (u unicodeForm) apply(s string) string {
	out := norm.Form(u).String(s)
	if out == s || strings.Count(out, graphemeJoiner) == strings.Count(s, graphemeJoiner) {
		return out
	}
	return normalizeLong(norm.Form(u), s)
}

// normalizeLong is the algorithm of Unicode Standard Annex 15 without a bound on
// runs of combining marks: decompose, order by combining class, compose.
func normalizeLong(form norm.Form, s string) string {
	full := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		full = norm.NFKD
	}
	c := composer{compose: form == norm.NFC || form == norm.NFKC}
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		d := full.String(s[i : i+n])
		i += n
		for k := 0; k < len(d); {
			_, n := utf8.DecodeRuneInString(d[k:])
			c.add(markedRune{d[k : k+n], full.PropertiesString(d[k:]).CCC()})
			k += n
		}
	}
	c.settle()
	c.flush()
	return c.out.String()
}

// markedRune is one character and its canonical combining class.
type markedRune struct {
	text  string
	class uint8
}

// composer takes decomposed characters and writes them ordered and composed.
type composer struct {
	compose bool
	run     []markedRune // a starter (class 0) and the marks after it, not yet written
	out     strings.Builder
}

func (c *composer) add(m markedRune) {
	if m.class != 0 {
		c.run = append(c.run, m)
		return
	}
	c.settle()
	if c.compose && len(c.run) == 1 && c.run[0].class == 0 {
		// Two starters compose only if nothing stands between (Hangul).
		if both, ok := composePair(c.run[0].text, m.text); ok {
			c.run[0].text = both
			return
		}
	}
	c.flush()
	c.run = append(c.run, m)
}

// settle orders the marks of the run and composes those with the starter that
// no mark of the same or a higher class separates from it.
func (c *composer) settle() {
	slices.SortStableFunc(c.run, func(x, y markedRune) int { return int(x.class) - int(y.class) })
	if !c.compose || len(c.run) == 0 || c.run[0].class != 0 {
		return
	}
	kept, last := c.run[:1], uint8(0)
	for _, m := range c.run[1:] {
		if last < m.class {
			if both, ok := composePair(c.run[0].text, m.text); ok {
				c.run[0].text = both
				continue
			}
		}
		kept, last = append(kept, m), m.class
	}
	c.run = kept
}

func (c *composer) flush() {
	for _, m := range c.run {
		c.out.WriteString(m.text)
	}
	c.run = c.run[:0]
}

// composePair returns the one character that a and b compose to.
func composePair(a, b string) (string, bool) {
	both := norm.NFC.String(a + b)
	_, n := utf8.DecodeRuneInString(both)
	return both, n == len(both)
}
