package grammar

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"github.com/troupe-llm/troupe/infer"
)

// CompileRegex allows the texts that match pattern as a whole. The syntax is
// Go's regexp, which knows no lookaround and no back-references, plus \uXXXX;
// word boundaries are refused, and anchors inside a pattern.
func CompileRegex(pattern string, o Options) (*Grammar, error) {
	if err := o.checkSize(len(pattern)); err != nil {
		return nil, err
	}
	return compile(o, func(b *builder) (*Grammar, error) {
		r := regex{meter: b.meter, opts: o, charOf: utf8Of, pad: empty}
		e, bad := r.compile(pattern)
		if bad != nil {
			return nil, bad
		}
		return b.compileRule(e)
	})
}

// regex turns the syntax tree of a pattern into an expression.
type regex struct {
	*meter
	opts   Options
	where  string            // place of the pattern, for errors
	charOf func(runes) *expr // how one character is written
	pad    *expr             // what may stand where there is no anchor
	// ecma reads the pattern as JavaScript does, where it differs: "." matches no
	// line end, \S nothing that Unicode calls a space.
	ecma bool
	// allSpaces reads \s as JavaScript does, too. Without it \s means fewer
	// spaces, which suits every reader unless the pattern must not match.
	allSpaces bool
	steps     int
	known     map[string]*expr // of charOf
	matchers  map[string]*matcher
}

// maxPatternSteps bounds the nodes of a pattern's tree.
const maxPatternSteps = 20_000

func (r *regex) compile(pattern string) (*expr, *infer.Error) {
	tree, err := r.parse(pattern)
	if err != nil {
		return nil, err
	}
	return r.translate(tree)
}

func (r *regex) parse(pattern string) (*syntax.Regexp, *infer.Error) {
	r.spend(parseWork(pattern))
	tree, err := syntax.Parse(r.rewrite(pattern), syntax.Perl)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			return nil, r.invalid("pattern %q: %s: %q", short(pattern), e.Code, short(e.Expr))
		}
		return nil, r.invalid("pattern %q can't be parsed", short(pattern))
	}
	return tree, nil
}

// parseWork estimates what it takes to parse a pattern: a class of Unicode has
// hundreds of ranges, which are sorted. Where case is ignored there are more of them,
// and of a range that goes beyond ASCII each character is looked at.
func parseWork(pattern string) int {
	const perByte, perClass, foldFactor, perFoldedRange = 20, 5_000, 8, 150_000
	classes := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	if strings.Contains(pattern, "(?") && strings.Contains(pattern, "i") {
		classes *= foldFactor
		if wide.MatchString(pattern) {
			return perByte*len(pattern) + perClass*classes + perFoldedRange*strings.Count(pattern, "-")
		}
	}
	return perByte*len(pattern) + perClass*classes
}

// wide finds what may stand for a character beyond ASCII.
var wide = regexp.MustCompile(`\\[xu0-7]|[^\x00-\x7f]`)

// progWork estimates what it takes to make a program of a tree, and what each
// character costs that it reads.
func progWork(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, s := range re.Sub {
		n += progWork(s)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return min(n, maxWork)
}

func (r *regex) translate(tree *syntax.Regexp) (*expr, *infer.Error) {
	return r.edges(tree, true, true)
}

func (r *regex) invalid(format string, args ...any) *infer.Error {
	return r.opts.invalid(r.where, format, args...)
}

// short cuts s for a message.
func short(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// spaces are what \s means in JavaScript and not in Go.
const spaces = `\x{b}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`

// rewrite puts Go's spelling for what only JavaScript writes.
func (r *regex) rewrite(p string) string {
	if !strings.Contains(p, `\`) {
		return p
	}
	var out strings.Builder
	inClass := false
	for i := 0; i < len(p); i++ {
		if p[i] != '\\' || i+1 == len(p) {
			inClass = p[i] == '[' || inClass && p[i] != ']'
			out.WriteByte(p[i])
			continue
		}
		switch {
		case p[i+1] == 'u' && i+6 <= len(p) && isHex(p[i+2:i+6]):
			out.WriteString(`\x{` + p[i+2:i+6] + `}`)
			i += 5
		case p[i+1] == 'S' && r.ecma && !inClass:
			out.WriteString(`[^\s` + spaces + `]`)
			i++
		case p[i+1] == 's' && r.allSpaces && inClass:
			out.WriteString(`\s` + spaces)
			i++
		case p[i+1] == 's' && r.allSpaces:
			out.WriteString(`[\s` + spaces + `]`)
			i++
		default:
			out.WriteString(p[i : i+2])
			i++
		}
	}
	return out.String()
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// edges turns re into an expression. left and right say that re stands at that
// end of the pattern: there an anchor holds, and without one comes the pad.
func (r *regex) edges(re *syntax.Regexp, left, right bool) (*expr, *infer.Error) {
	r.spend(1)
	switch {
	case re.Op == syntax.OpCapture:
		return r.edges(re.Sub[0], left, right)
	case re.Op == syntax.OpAlternate:
		return r.each(re.Sub, func(s *syntax.Regexp) (*expr, *infer.Error) { return r.edges(s, left, right) }, alt)
	case re.Op == syntax.OpConcat && r.anchored(re):
		return r.concat(re.Sub, left, right)
	case re.Op == syntax.OpBeginText && left, re.Op == syntax.OpEndText && right:
		// "^" alone fixes one end and leaves the other open.
		if re.Op == syntax.OpBeginText && right || re.Op == syntax.OpEndText && left {
			return r.pad, nil
		}
		return empty, nil
	}
	e, err := r.inner(re)
	if err != nil {
		return nil, err
	}
	if left {
		e = cat(r.pad, e)
	}
	if right {
		e = cat(e, r.pad)
	}
	return e, nil
}

// concat is edges for a sequence that holds an anchor.
func (r *regex) concat(subs []*syntax.Regexp, left, right bool) (*expr, *infer.Error) {
	if left && subs[0].Op == syntax.OpBeginText {
		left = false
		for len(subs) > 0 && subs[0].Op == syntax.OpBeginText {
			subs = subs[1:]
		}
	}
	if n := len(subs); right && n > 0 && subs[n-1].Op == syntax.OpEndText {
		right = false
		for len(subs) > 0 && subs[len(subs)-1].Op == syntax.OpEndText {
			subs = subs[:len(subs)-1]
		}
	}
	var parts []*expr
	for i, s := range subs {
		e, err := r.edges(s, left && i == 0, right && i == len(subs)-1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
	}
	if len(subs) == 0 && (left || right) {
		return r.pad, nil
	}
	return cat(parts...), nil
}

func (r *regex) each(subs []*syntax.Regexp, f func(*syntax.Regexp) (*expr, *infer.Error), join func(...*expr) *expr) (*expr, *infer.Error) {
	parts := make([]*expr, len(subs))
	for i, s := range subs {
		e, err := f(s)
		if err != nil {
			return nil, err
		}
		parts[i] = e
	}
	return join(parts...), nil
}

// anchored reports whether re holds an anchor.
func (r *regex) anchored(re *syntax.Regexp) bool {
	r.spend(1)
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText || slices.ContainsFunc(re.Sub, r.anchored)
}

// inner turns re into an expression; anchors are refused.
func (r *regex) inner(re *syntax.Regexp) (*expr, *infer.Error) {
	if r.steps++; r.steps > maxPatternSteps {
		return nil, r.invalid("the pattern has more than the limit of %d parts", maxPatternSteps)
	}
	r.spend(10 + len(re.Rune))
	switch re.Op {
	case syntax.OpNoMatch:
		return never, nil
	case syntax.OpEmptyMatch:
		return empty, nil
	case syntax.OpLiteral:
		r.spend(20 * len(re.Rune))
		parts := make([]*expr, len(re.Rune))
		for i, c := range re.Rune {
			parts[i] = r.char(folded(c, re.Flags&syntax.FoldCase != 0))
		}
		return cat(parts...), nil
	case syntax.OpCharClass:
		return r.char(runes(re.Rune)), nil
	case syntax.OpAnyChar:
		return r.char(anyRune), nil
	case syntax.OpAnyCharNotNL:
		if r.ecma {
			return r.char(anyRune.minus(lineEnds)), nil
		}
		return r.char(anyRune.minus(runes{'\n', '\n'})), nil
	case syntax.OpCapture:
		return r.inner(re.Sub[0])
	case syntax.OpConcat:
		return r.each(re.Sub, r.inner, cat)
	case syntax.OpAlternate:
		return r.each(re.Sub, r.inner, alt)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		e, err := r.inner(re.Sub[0])
		if err != nil {
			return nil, err
		}
		lo, hi := times(re)
		return repeat(e, lo, hi), nil
	}
	return nil, r.invalid("pattern: %q is not supported here", short(re.String()))
}

// lineEnds are what "." does not match in JavaScript.
var lineEnds = runes{'\n', '\n', '\r', '\r', 0x2028, 0x2029}

func times(re *syntax.Regexp) (lo, hi int) {
	switch re.Op {
	case syntax.OpStar:
		return 0, -1
	case syntax.OpPlus:
		return 1, -1
	case syntax.OpQuest:
		return 0, 1
	}
	return re.Min, re.Max
}

// folded returns c, with all that differ from it by case only if fold is set.
func folded(c rune, fold bool) runes {
	set := []rune{c}
	if fold {
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			set = append(set, f)
		}
		slices.Sort(set)
	}
	var out runes
	for _, s := range set {
		out = append(out, s, s)
	}
	return out
}

// char is charOf, remembered: classes repeat within a pattern.
func (r *regex) char(s runes) *expr {
	key := s.key()
	if e, ok := r.known[key]; ok {
		return e
	}
	r.spend(1_000 + 50*len(s))
	e := r.charOf(s)
	if r.known == nil {
		r.known = map[string]*expr{}
	}
	r.known[key] = e
	return e
}
