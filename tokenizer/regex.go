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
	patternWindow  = 128 << 10
	patternGuard   = 4 << 10
)

// regexStage cuts text around the matches of a pattern.
type regexStage struct {
	re       *regexp2.Regexp
	behavior behavior
	invert   bool
	rest     scanner // cuts what the pattern had no time for

	// window is the number of bytes that are searched at once, guard how far
	// before its end matches may yet change with what follows.
	window, guard int
}

// newRegexStage returns a stage for a pattern written for Oniguruma.
func newRegexStage(pattern string, b behavior, invert bool) (*regexStage, error) {
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(patternStack))
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTimeout
	rest := gpt2Scanner{newClasses()}
	return &regexStage{re: re, behavior: b, invert: invert, rest: rest, window: patternWindow, guard: patternGuard}, nil
}

func (st *regexStage) split(e *encoder, next int, s string) bool {
	if e.patternFailed {
		return scanStage{st.rest}.split(e, next, s)
	}
	if e.deadline.IsZero() {
		e.deadline = time.Now().Add(patternTimeout)
	}
	c := cutter{e: e, next: next, s: s, behavior: st.behavior, invert: st.invert}
	for base := 0; base < len(s); {
		window := s[base:runeStart(s, base+st.window)]
		to, more := st.search(&c, base, window)
		switch {
		case !more:
			return false
		case e.patternFailed:
			return c.flush() && scanStage{st.rest}.split(e, next, s[c.pos:])
		}
		base = to
	}
	return c.finish()
}

// search hands the matches in window, which is c.s[base:base+len(window)], to c
// and returns where the next window begins. A match close to the end of the
// window is left to the next one, unless it takes all of this one: the text that
// follows might change it.
func (st *regexStage) search(c *cutter, base int, window string) (next int, more bool) {
	trusted := len(window)
	if base+len(window) < len(c.s) {
		trusted = runeStart(window, trusted-st.guard)
	}
	next, more = base+trusted, true
	late := false
	at := runeOffsets{s: window}
	err := st.re.FindRunesMatches([]rune(window), 0, func(m regexp2.MatchView) bool {
		i, n, _ := m.GroupRange(0)
		start := at.offset(i)
		end := at.offset(i + n)
		if end > trusted && start > 0 {
			next = base + min(start, trusted)
			return false
		}
		next = base + max(end, trusted)
		more = c.match(base+start, base+end)
		late = time.Now().After(c.e.deadline)
		return more && !late
	})
	c.e.patternFailed = err != nil || late
	return next, more
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
