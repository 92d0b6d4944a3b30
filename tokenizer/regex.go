package tokenizer

import (
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Bounds for patterns without a scanner of their own. The engine backtracks, so
// a pattern and a text may be found that take for ever.
const (
	matchTimeout   = 500 * time.Millisecond // one match; checked about every 100 ms
	patternTimeout = 5 * time.Second        // all matches of one Encode call
	patternStack   = 1 << 21                // backtracking positions of one match
	patternWindow  = 128 << 10              // bytes searched at once
)

// compilePattern compiles a pattern written for Oniguruma.
func compilePattern(pattern string) (*regexp2.Regexp, error) {
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(patternStack))
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTimeout
	return re, nil
}

// regexStage cuts text around the matches of a pattern.
type regexStage struct {
	re       *regexp2.Regexp
	behavior behavior
	invert   bool
	rest     scanner // cuts what the pattern had no time for
}

func (st *regexStage) split(e *encoder, next int, s string) bool {
	for len(s) > patternWindow {
		n := runeStart(s, patternWindow)
		if !st.splitWindow(e, next, s[:n]) {
			return false
		}
		s = s[n:]
	}
	return st.splitWindow(e, next, s)
}

func (st *regexStage) splitWindow(e *encoder, next int, s string) bool {
	if e.patternFailed {
		return scanStage{st.rest}.split(e, next, s)
	}
	if e.deadline.IsZero() {
		e.deadline = time.Now().Add(patternTimeout)
	}
	c := cutter{e: e, next: next, s: s, behavior: st.behavior, invert: st.invert}
	more, late := true, false
	at := runeOffsets{s: s}
	err := st.re.FindRunesMatches([]rune(s), 0, func(m regexp2.MatchView) bool {
		i, n, _ := m.GroupRange(0)
		start := at.offset(i)
		more = c.match(start, at.offset(i+n))
		late = time.Now().After(e.deadline)
		return more && !late
	})
	if !more {
		return false
	}
	if err == nil && !late {
		return c.finish()
	}
	e.patternFailed = true
	if !c.flush() {
		return false
	}
	return scanStage{st.rest}.split(e, next, s[c.pos:])
}

// runeOffsets turns ascending rune numbers of s into byte offsets.
type runeOffsets struct {
	s          string
	rune, byte int
}

func (o *runeOffsets) offset(i int) int {
	for ; o.rune < i; o.rune++ {
		_, n := utf8.DecodeRuneInString(o.s[o.byte:])
		o.byte += n
	}
	return o.byte
}
