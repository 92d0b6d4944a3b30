package tokenizer

// behavior says what becomes of the matches of a split pattern.
type behavior uint8

const (
	isolated           behavior = iota // a match is a piece
	removed                            // a match is dropped
	mergedWithPrevious                 // a match belongs to the text before it
	mergedWithNext                     // a match belongs to the text after it
	contiguous                         // adjacent matches are one piece
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
}

// cutter turns the matches of a pattern in s, given from left to right, into
// pieces. The spans of a text are its matches and the gaps between them; a
// piece is one span or, depending on the behavior, several joined.
type cutter struct {
	e        *encoder
	next     int // stage that takes the pieces
	s        string
	behavior behavior
	invert   bool // gaps count as matches and matches as gaps

	pos        int  // end of the spans seen so far
	start, end int  // the piece that may still grow; start == end = none
	wasMatch   bool // the last span was a match
}

// match takes the next match.
func (c *cutter) match(start, end int) (more bool) {
	if start > c.pos && !c.span(c.pos, start, false) {
		return false
	}
	c.pos = end
	return c.span(start, end, true)
}

// finish takes the end of the text.
func (c *cutter) finish() (more bool) {
	if c.pos < len(c.s) && !c.span(c.pos, len(c.s), false) {
		return false
	}
	return c.flush()
}

// span takes the next match or gap.
func (c *cutter) span(start, end int, isMatch bool) bool {
	isMatch = isMatch != c.invert
	join := false
	switch c.behavior {
	case removed:
		if isMatch {
			return c.flush()
		}
	case mergedWithPrevious:
		join = isMatch && !c.wasMatch
	case mergedWithNext:
		join = !isMatch && c.wasMatch
	case contiguous:
		join = isMatch == c.wasMatch
	}
	c.wasMatch = isMatch
	if join && c.start < c.end {
		c.end = end
		return true
	}
	more := c.flush()
	c.start, c.end = start, end
	return more
}

// flush hands on the piece that may still grow.
func (c *cutter) flush() bool {
	start, end := c.start, c.end
	c.start = c.end
	c.e.atStart = c.e.atStart && start == 0
	return start == end || c.e.piece(c.next, c.s[start:end])
}
