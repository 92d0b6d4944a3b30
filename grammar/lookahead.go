package grammar

import (
	"regexp/syntax"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// condition is a pattern that a text must match, or must not.
type condition struct {
	tree *syntax.Regexp
	not  bool
}

// conditions parses a pattern as JavaScript does: lookaheads at its very
// beginning, as in ^(?=.*\d)(?!.*\s).{8,}$, become conditions of their own.
func (c *schemaCompiler) conditions(s *schema, pattern string) ([]condition, *infer.Error) {
	r := c.regexAt(s.ptr + "/pattern")
	var out []condition
	rest := pattern
	for strings.HasPrefix(rest, "^(?=") || strings.HasPrefix(rest, "^(?!") {
		c.spend(4 * len(rest))
		end := closing(rest, 1)
		if end < 0 || alternates(rest) {
			rest = pattern // the parser says what is wrong with it
			out = nil
			break
		}
		ahead := *r
		ahead.allSpaces = rest[3] == '!'
		tree, err := ahead.parse("^(?:" + rest[4:end] + ")")
		if err != nil {
			return nil, err
		}
		if out = append(out, condition{tree, rest[3] == '!'}); len(out) >= maxConditions {
			return nil, c.bad(s.ptr, "pattern %q begins with %d lookaheads, which is more than the limit of %d", short(pattern), len(out), maxConditions-1)
		}
		rest = "^" + rest[end+1:]
	}
	tree, err := r.parse(rest)
	return append(out, condition{tree: tree}), err
}

// closing returns where the parenthesis at open is closed, -1 if nowhere.
func closing(p string, open int) int {
	depth := 0
	end := -1
	scan(p[open:], func(i int) bool {
		switch p[open+i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				end = open + i
			}
		}
		return end < 0
	})
	return end
}

// alternates reports whether p has a bar outside of all parentheses.
func alternates(p string) bool {
	depth, found := 0, false
	scan(p, func(i int) bool {
		switch p[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			found = found || depth == 0
		}
		return !found
	})
	return found
}

// scan calls visit with every byte that is neither escaped nor in a class, as
// long as it returns true.
func scan(p string, visit func(i int) bool) {
	inClass := false
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == '\\':
			i++
		case inClass:
			inClass = p[i] != ']'
		case p[i] == '[':
			inClass = true
		case !visit(i):
			return
		}
	}
}
