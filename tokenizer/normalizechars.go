package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// knownMatcher returns the matcher of a regular expression that normalizers
// have, or nil. They need no engine that could run out of time.
func knownMatcher(pattern string) matcher {
	switch pattern {
	case " {2,}": // T5, XLM-R
		return blankRuns{}
	case `\A +`: // SentencePiece, with remove_extra_whitespaces
		return blanksAtStart{}
	case `▁+\z`: // likewise
		return marksAtEnd{}
	}
	return nil
}

// blankRuns matches runs of two blanks or more.
type blankRuns struct{}

func (blankRuns) find(s string, from int) (start, end int) {
	i := strings.Index(s[from:], "  ")
	if i < 0 {
		return -1, -1
	}
	start = from + i
	return start, len(s) - len(strings.TrimLeft(s[start:], " "))
}

// blanksAtStart matches the blanks with which a text begins.
type blanksAtStart struct{}

func (blanksAtStart) find(s string, from int) (start, end int) {
	end = len(s) - len(strings.TrimLeft(s, " "))
	if from > 0 || end == 0 {
		return -1, -1
	}
	return 0, end
}

// marksAtEnd matches the marks with which a text ends.
type marksAtEnd struct{}

func (marksAtEnd) find(s string, from int) (start, end int) {
	start = len(strings.TrimRight(s, spaceMark))
	if start == len(s) || from > start {
		return -1, -1
	}
	return start, len(s)
}

// replaceMatches replaces every match by one text.
type replaceMatches struct {
	matcher matcher
	new     string
}

func (r replaceMatches) normalize(s string, spans []infer.Span) (string, []infer.Span) {
	return rewrite(s, spans, func(from int) (start, end int, text string) {
		start, end = r.matcher.find(s, from)
		return start, end, r.new
	})
}

// strip drops white space at the ends of a text.
type strip struct{ left, right bool }

func (st strip) normalize(s string, spans []infer.Span) (string, []infer.Span) {
	left, right := 0, len(s)
	if st.left {
		left = len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	}
	if st.right {
		right = max(left, len(strings.TrimRightFunc(s, unicode.IsSpace)))
	}
	return rewrite(s, spans, func(from int) (start, end int, text string) {
		switch {
		case from < left:
			return 0, left, ""
		case from < len(s) && right < len(s):
			return right, len(s), ""
		}
		return -1, -1, ""
	})
}

// maxCharGrowth is how many times longer a charMap may make a text.
const maxCharGrowth = 2

// charMap rewrites single characters: it returns the text for one, and whether
// that is another than the character itself.
type charMap func(r rune) (text string, changed bool)

func (m charMap) normalize(s string, spans []infer.Span) (string, []infer.Span) {
	return rewrite(s, spans, func(from int) (start, end int, text string) {
		for i := from; i < len(s); {
			r, n := utf8.DecodeRuneInString(s[i:])
			if text, changed := m(r); changed && (r != utf8.RuneError || n > 1) {
				return i, i + n, text
			}
			i += n
		}
		return -1, -1, ""
	})
}

// lowercase is the full mapping of Unicode for single characters.
func lowercase(r rune) (string, bool) {
	const capitalDottedI = 'İ'
	if r == capitalDottedI {
		return "i\u0307", true // the only one that becomes two
	}
	lower := unicode.ToLower(r)
	return string(lower), lower != r
}

// stripAccents drops marks.
func stripAccents(r rune) (string, bool) { return "", unicode.Is(unicode.M, r) }
