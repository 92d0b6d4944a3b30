package grammar

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// CompileEBNF allows the texts of rule root of a grammar in llama.cpp's GBNF:
//
//	root   ::= "yes" | "no" reason?    # a comment
//	reason ::= [^\n]{1,80} ("." | "!")
//
// Rules may be recursive, but not begin with themselves.
func CompileEBNF(source string, o Options) (*Grammar, error) {
	if err := o.checkSize(len(source)); err != nil {
		return nil, err
	}
	if !utf8.ValidString(source) {
		return nil, o.invalid("", "the grammar is not UTF-8")
	}
	return compile(o, func(b *builder) (*Grammar, error) {
		b.spend(8 * len(source))
		p := &ebnf{builder: b, text: source, rules: map[string]int{}, known: map[string]*expr{}}
		if err := p.parse(); err != nil {
			return nil, err
		}
		g, err := p.build(p.rules["root"])
		if err != nil {
			return nil, err
		}
		return newGrammar(g, o), nil
	})
}

// ebnf parses GBNF by recursive descent.
type ebnf struct {
	*builder
	text    string
	pos     int
	depth   int
	rules   map[string]int
	defined []bool // by rule
	known   map[string]*expr
}

func (p *ebnf) fail(format string, args ...any) *infer.Error {
	line := 1 + strings.Count(p.text[:p.pos], "\n")
	return p.opts.invalid(" line "+strconv.Itoa(line), format, args...)
}

func (p *ebnf) parse() *infer.Error {
	p.space(true)
	for p.pos < len(p.text) {
		if err := p.definition(); err != nil {
			return err
		}
		p.space(true)
	}
	if _, ok := p.rules["root"]; !ok {
		return p.fail("there is no rule named root")
	}
	for name, r := range p.rules {
		if r >= len(p.defined) || !p.defined[r] {
			return p.undefined(name)
		}
	}
	return nil
}

// undefined names the first of the undefined rules, not the one that the map
// happens to give.
func (p *ebnf) undefined(name string) *infer.Error {
	for n, r := range p.rules {
		if n < name && (r >= len(p.defined) || !p.defined[r]) {
			name = n
		}
	}
	return p.fail("rule %q is not defined", short(name))
}

func (p *ebnf) definition() *infer.Error {
	name := p.name()
	if name == "" {
		return p.fail("a rule name is missing before %q", p.ahead())
	}
	p.space(false)
	if !p.take("::=") {
		return p.fail("\"::=\" is missing after rule name %q", short(name))
	}
	r := p.rule(name)
	p.defined = grow(p.defined, r+1, false)
	if p.defined[r] {
		return p.fail("rule %q is defined twice", short(name))
	}
	p.defined[r] = true
	p.space(true)
	e, err := p.alternatives()
	if err != nil {
		return err
	}
	if p.pos < len(p.text) && p.text[p.pos] != '\n' && p.text[p.pos] != '\r' {
		return p.fail("%q is not expected", p.ahead())
	}
	p.exprs[r] = e
	return nil
}

// rule returns the number of a rule, defined or not yet.
func (p *ebnf) rule(name string) int {
	r, ok := p.rules[name]
	if !ok {
		r = p.newRule()
		p.rules[name], p.names[r] = r, name
	}
	return r
}

func (p *ebnf) alternatives() (*expr, *infer.Error) {
	var alts []*expr
	for {
		e, err := p.sequence()
		if err != nil {
			return nil, err
		}
		alts = append(alts, e)
		// A rule goes on in the next line if that begins with a bar.
		at := p.pos
		p.space(true)
		if !p.take("|") {
			if p.depth == 0 {
				p.pos = at
			}
			return alt(alts...), nil
		}
		p.space(true)
	}
}

func (p *ebnf) sequence() (*expr, *infer.Error) {
	var parts []*expr
	for {
		e, err := p.item()
		if err != nil {
			return nil, err
		}
		if e == nil {
			return cat(parts...), nil
		}
		if e, err = p.postfix(e); err != nil {
			return nil, err
		}
		parts = append(parts, e)
	}
}

// item parses what a postfix may follow; nil at the end of a sequence.
func (p *ebnf) item() (*expr, *infer.Error) {
	if err := p.step(); err != nil {
		return nil, infer.AsError(err)
	}
	if p.pos == len(p.text) {
		return nil, nil
	}
	switch c := p.text[p.pos]; c {
	case '"':
		return p.literal()
	case '[':
		return p.class()
	case '.':
		p.pos++
		return p.charOf(anyRune), nil
	case '(':
		return p.group()
	}
	if name := p.name(); name != "" {
		return ref(p.rule(name)), nil
	}
	return nil, nil
}

func (p *ebnf) group() (*expr, *infer.Error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail("parentheses nest deeper than the limit of %d", maxNesting)
	}
	p.pos++
	p.space(true)
	e, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, p.fail("\")\" is missing before %q", p.ahead())
	}
	p.depth--
	return e, nil
}

// postfix parses *, +, ? and {m,n}, and the space behind.
func (p *ebnf) postfix(e *expr) (*expr, *infer.Error) {
	for {
		p.space(p.depth > 0)
		switch {
		case p.take("*"):
			e = star(e)
		case p.take("+"):
			e = plus(e)
		case p.take("?"):
			e = maybe(e)
		case p.take("{"):
			lo, hi, err := p.times()
			if err != nil {
				return nil, err
			}
			e = repeat(e, lo, hi)
		default:
			return e, nil
		}
		if err := p.step(); err != nil {
			return nil, infer.AsError(err)
		}
	}
}

// times parses the rest of {m}, {m,} or {m,n}.
func (p *ebnf) times() (lo, hi int, err *infer.Error) {
	end := strings.IndexByte(p.text[p.pos:], '}')
	if end < 0 {
		return 0, 0, p.fail("\"}\" is missing")
	}
	first, second, comma := strings.Cut(p.text[p.pos:p.pos+end], ",")
	if lo, err = p.count(first); err != nil {
		return 0, 0, err
	}
	switch second = strings.TrimSpace(second); {
	case !comma:
		hi = lo
	case second == "":
		hi = -1
	default:
		if hi, err = p.count(second); err != nil {
			return 0, 0, err
		}
		if hi < lo {
			return 0, 0, p.fail("{%d,%d} allows nothing", lo, hi)
		}
	}
	p.pos += end + 1
	return lo, hi, nil
}

func (p *ebnf) count(s string) (int, *infer.Error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	if err != nil {
		return 0, p.fail("%q is not a count", short(s))
	}
	if n > maxRepeat {
		return 0, p.fail("a repetition of %d is more than the limit of %d", n, maxRepeat)
	}
	return int(n), nil
}

func (p *ebnf) literal() (*expr, *infer.Error) {
	var out strings.Builder
	for p.pos++; ; {
		r, err := p.char('"')
		if err != nil {
			return nil, err
		}
		if r < 0 {
			return lit(out.String()), nil
		}
		out.WriteRune(r)
	}
}

// class parses [a-z] or [^a-z].
func (p *ebnf) class() (*expr, *infer.Error) {
	start := p.pos
	p.pos++
	not := p.take("^")
	var pairs [][2]rune
	for {
		lo, err := p.char(']')
		if err != nil {
			return nil, err
		}
		if lo < 0 {
			break
		}
		hi := lo
		if rest := p.text[p.pos:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.pos++
			if hi, err = p.char(0); err != nil {
				return nil, err
			}
			if hi < lo {
				return nil, p.fail("class %q has a range that ends before it begins", short(p.text[start:p.pos]))
			}
		}
		pairs = append(pairs, [2]rune{lo, hi})
	}
	set := unite(pairs)
	if not {
		set = anyRune.minus(set)
	}
	if len(set) == 0 {
		return nil, p.fail("class %q is empty", short(p.text[start:p.pos]))
	}
	return p.charOf(set), nil
}

// unite sorts pairs and joins those that overlap.
func unite(pairs [][2]rune) runes {
	slices.SortFunc(pairs, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	var out runes
	for _, p := range pairs {
		if n := len(out); n > 0 && p[0] <= out[n-1]+1 {
			out[n-1] = max(out[n-1], p[1])
			continue
		}
		out = append(out, p[0], p[1])
	}
	return out
}

func (p *ebnf) charOf(s runes) *expr {
	key := s.key()
	if p.known[key] == nil {
		p.spend(50 * len(s))
		p.known[key] = utf8Of(s)
	}
	return p.known[key]
}

// escapes of GBNF that stand for another character than themselves.
var gbnfEscapes = map[byte]rune{'n': '\n', 'r': '\r', 't': '\t', '0': 0}

// char parses one character of a literal or class; -1 if it is end.
func (p *ebnf) char(end rune) (rune, *infer.Error) {
	if p.pos == len(p.text) {
		return 0, p.fail("a literal or class is not closed")
	}
	r, n := utf8.DecodeRuneInString(p.text[p.pos:])
	p.pos += n
	if r == end {
		return -1, nil
	}
	if r != '\\' {
		return r, nil
	}
	if p.pos == len(p.text) {
		return 0, p.fail("a literal or class is not closed")
	}
	c := p.text[p.pos]
	if hex := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; hex > 0 {
		p.pos++
		return p.hex(hex)
	}
	if r, ok := gbnfEscapes[c]; ok {
		p.pos++
		return r, nil
	}
	if strings.IndexByte(`\"[]-^/`, c) < 0 {
		return 0, p.fail("escape \\%c is not known", c)
	}
	p.pos++
	return rune(c), nil
}

func (p *ebnf) hex(n int) (rune, *infer.Error) {
	rest := p.text[p.pos:]
	if len(rest) < n || !isHex(rest[:n]) {
		return 0, p.fail("an escape needs %d hexadecimal digits", n)
	}
	v, err := strconv.ParseUint(rest[:n], 16, 32)
	if err != nil || v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		return 0, p.fail("%q is not a character", rest[:n])
	}
	p.pos += n
	return rune(v), nil
}

func (p *ebnf) name() string {
	start := p.pos
	for p.pos < len(p.text) && isNameByte(p.text[p.pos]) {
		p.pos++
	}
	return p.text[start:p.pos]
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func (p *ebnf) take(s string) bool {
	if !strings.HasPrefix(p.text[p.pos:], s) {
		return false
	}
	p.pos += len(s)
	return true
}

// space skips blanks and comments, and line ends if lines is set.
func (p *ebnf) space(lines bool) {
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.pos++
		case c == '#':
			for p.pos < len(p.text) && p.text[p.pos] != '\n' {
				p.pos++
			}
		default:
			return
		}
	}
}

// ahead shows what comes next in a message.
func (p *ebnf) ahead() string {
	const most = 20
	rest := p.text[p.pos:]
	if len(rest) > most {
		rest = strings.ToValidUTF8(rest[:most], "")
	}
	return rest
}
