package jinja

import (
	"errors"
	"fmt"
	"slices"
)

// Bounds on what is parsed.
const (
	// MaxSource is the largest template in bytes.
	MaxSource = 1 << 20
	// maxParseDepth bounds expressions in brackets and blocks in blocks.
	maxParseDepth = 400
)

// errBreak and errContinue travel from a loop control to its loop.
var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

// parser reads statements; parse_expr.go has the expressions.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // loops around, within the macro
	macro  *macroStmt
}

// Parse compiles a template. A failure is an *Error with the line at fault.
func Parse(source string) (*Template, error) {
	if len(source) > MaxSource {
		return nil, &Error{Message: fmt.Sprintf("the template has %d bytes, more than the limit of %d", len(source), MaxSource)}
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, err := p.body()
	if err != nil {
		return nil, err
	}
	if p.cur().kind != tokEOF {
		return nil, p.errorf("unexpected '%s'", p.peek(1).text)
	}
	return &Template{body: body}, nil
}

func (p *parser) cur() token { return p.peek(0) }

func (p *parser) peek(n int) token { return p.tokens[min(p.at+n, len(p.tokens)-1)] }

func (p *parser) errorf(format string, a ...any) error {
	return &Error{Line: p.cur().line, Message: fmt.Sprintf(format, a...)}
}

// is reports whether the current token is the given operator or word.
func (p *parser) is(kind tokenKind, text string) bool {
	t := p.cur()
	return t.kind == kind && t.text == text
}

// skip consumes the current token if it is the given one.
func (p *parser) skip(kind tokenKind, text string) bool {
	if p.is(kind, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(kind tokenKind, text string) error {
	if !p.skip(kind, text) {
		return p.errorf("expected '%s', got %s", text, p.cur().describe())
	}
	return nil
}

func (p *parser) expectName() (string, error) {
	t := p.cur()
	if t.kind != tokName {
		return "", p.errorf("expected a name, got %s", t.describe())
	}
	p.at++
	return t.text, nil
}

// nest counts one level of nesting; the result takes it back.
func (p *parser) nest() (func(), error) {
	if p.depth++; p.depth > maxParseDepth {
		return nil, p.errorf("the template nests deeper than %d levels", maxParseDepth)
	}
	return func() { p.depth-- }, nil
}

// body reads statements up to the end or to a block tag named in ends, which
// stays the current token (at its "{%").
func (p *parser) body(ends ...string) ([]stmt, error) {
	leave, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []stmt
	for {
		t := p.cur()
		switch t.kind {
		case tokData:
			p.at++
			out = append(out, &dataStmt{t.text})
		case tokVarBegin:
			p.at++
			e, err := p.tuple(tupleRules{cond: true})
			if err != nil {
				return nil, err
			}
			if err := p.expect(tokVarEnd, "}}"); err != nil {
				return nil, err
			}
			out = append(out, &outputStmt{e, t.line})
		case tokBlockBegin:
			if next := p.peek(1); next.kind == tokName && slices.Contains(ends, next.text) {
				return out, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		default:
			if len(ends) > 0 {
				return nil, p.errorf("the template ends inside a block: '%s' is missing", ends[len(ends)-1])
			}
			return out, nil
		}
	}
}

// blockBody reads the rest of an opening tag, a body and its closing tag.
func (p *parser) blockBody(end string) ([]stmt, error) {
	if err := p.expect(tokBlockEnd, "%}"); err != nil {
		return nil, err
	}
	body, err := p.body(end)
	if err != nil {
		return nil, err
	}
	return body, p.endTag(end)
}

// endTag consumes {% name %}.
func (p *parser) endTag(name string) error {
	p.at++
	if err := p.expect(tokName, name); err != nil {
		return err
	}
	return p.expect(tokBlockEnd, "%}")
}

// statement reads one block statement.
func (p *parser) statement() (stmt, error) {
	p.at++
	line := p.cur().line
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	switch name {
	case "if":
		return p.ifStatement(line)
	case "for":
		return p.forStatement(line)
	case "set":
		return p.setStatement(line)
	case "macro":
		return p.macroStatement(line)
	case "call":
		return p.callStatement(line)
	case "filter":
		return p.filterStatement(line)
	case "with":
		return p.withStatement(line)
	case "generation":
		body, err := p.blockBody("endgeneration")
		return &blockStmt{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.errorf("'%s' outside a loop", name)
		}
		to := errBreak
		if name == "continue" {
			to = errContinue
		}
		return &jumpStmt{to}, p.expect(tokBlockEnd, "%}")
	}
	return nil, p.errorf("unknown tag '%s'", name)
}

func (p *parser) ifStatement(line int) (stmt, error) {
	s := &ifStmt{line: line}
	for {
		test, err := p.tuple(tupleRules{})
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokBlockEnd, "%}"); err != nil {
			return nil, err
		}
		body, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.tests, s.body = append(s.tests, test), append(s.body, body)
		p.at++
		switch p.cur().text {
		case "elif":
			p.at++
			continue
		case "else":
			p.at++
			body, err := p.blockBody("endif")
			s.body = append(s.body, body)
			return s, err
		}
		p.at++
		return s, p.expect(tokBlockEnd, "%}")
	}
}

func (p *parser) forStatement(line int) (stmt, error) {
	s := &forStmt{line: line}
	var err error
	if s.target, err = p.target(false); err != nil {
		return nil, err
	}
	if err = p.expect(tokName, "in"); err != nil {
		return nil, err
	}
	if s.iter, err = p.tuple(tupleRules{end: "recursive"}); err != nil {
		return nil, err
	}
	if p.skip(tokName, "if") {
		if s.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skip(tokName, "recursive")
	if err = p.expect(tokBlockEnd, "%}"); err != nil {
		return nil, err
	}
	p.loops++
	s.body, err = p.body("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	if p.peek(1).text == "else" {
		p.at += 2
		s.none, err = p.blockBody("endfor")
		return s, err
	}
	return s, p.endTag("endfor")
}

func (p *parser) setStatement(line int) (stmt, error) {
	to, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.skip(tokOp, "=") {
		value, err := p.tuple(tupleRules{cond: true})
		if err != nil {
			return nil, err
		}
		return &setStmt{line, to, value}, p.expect(tokBlockEnd, "%}")
	}
	filters, err := p.filterChain()
	if err != nil {
		return nil, err
	}
	body, err := p.blockBody("endset")
	return &setBlockStmt{line, to, filters, body}, err
}

// filterChain reads "| a | b(…)".
func (p *parser) filterChain() ([]filterExpr, error) {
	var out []filterExpr
	for p.skip(tokOp, "|") {
		f, err := p.filter(nil)
		if err != nil {
			return nil, err
		}
		out = append(out, *f)
	}
	return out, nil
}

func (p *parser) filterStatement(line int) (stmt, error) {
	first, err := p.filter(nil)
	if err != nil {
		return nil, err
	}
	rest, err := p.filterChain()
	if err != nil {
		return nil, err
	}
	body, err := p.blockBody("endfilter")
	return &filterStmt{line, append([]filterExpr{*first}, rest...), body}, err
}

func (p *parser) withStatement(line int) (stmt, error) {
	s := &withStmt{line: line}
	for p.cur().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return nil, err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokOp, "="); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, target{name: name}), append(s.values, value)
	}
	var err error
	s.body, err = p.blockBody("endwith")
	return s, err
}

// target reads what a value is assigned to.
func (p *parser) target(namespaces bool) (target, error) {
	var items []target
	for {
		t, err := p.singleTarget(namespaces)
		if err != nil {
			return target{}, err
		}
		items = append(items, t)
		if !p.skip(tokOp, ",") {
			break
		}
	}
	if len(items) == 1 {
		return items[0], nil
	}
	return target{items: items}, nil
}

func (p *parser) singleTarget(namespaces bool) (target, error) {
	if p.skip(tokOp, "(") {
		leave, err := p.nest()
		if err != nil {
			return target{}, err
		}
		defer leave()
		t, err := p.target(namespaces)
		if err != nil {
			return target{}, err
		}
		return t, p.expect(tokOp, ")")
	}
	name, err := p.expectName()
	if err != nil {
		return target{}, err
	}
	if isConstant(name) || name == "in" {
		return target{}, p.errorf("cannot assign to '%s'", name)
	}
	if namespaces && p.skip(tokOp, ".") {
		attr, err := p.expectName()
		return target{name: name, attr: attr}, err
	}
	return target{name: name}, nil
}

func isConstant(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}
