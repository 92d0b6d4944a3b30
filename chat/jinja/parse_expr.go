package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// The grammar of jinja2/parser.py, loosest binding first:
// condition, or, and, not, comparison, +-, ~, */ // %, **, unary, postfix.

// expression reads a full expression.
func (p *parser) expression() (expr, error) {
	leave, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer leave()
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	for p.skip(tokName, "if") {
		test, err := p.or()
		if err != nil {
			return nil, err
		}
		c := &condExpr{test: test, yes: e}
		if p.skip(tokName, "else") {
			if c.no, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, nil
}

// tupleRules say where an unbracketed tuple is read.
type tupleRules struct {
	cond  bool   // items may be conditional expressions
	end   string // a word that ends the tuple
	paren bool   // inside parentheses: may be empty
}

// tuple reads an expression, or several with commas between them.
func (p *parser) tuple(rules tupleRules) (expr, error) {
	var items []expr
	comma := false
	for {
		if len(items) > 0 && !comma || p.tupleEnds(rules) {
			break
		}
		var e expr
		var err error
		if rules.cond {
			e, err = p.expression()
		} else {
			e, err = p.or()
		}
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		comma = p.skip(tokOp, ",")
	}
	switch {
	case len(items) == 1 && !comma:
		return items[0], nil
	case len(items) == 0 && !rules.paren:
		return nil, p.errorf("expected an expression, got %s", p.cur().describe())
	}
	return &listExpr{items, true}, nil
}

func (p *parser) tupleEnds(rules tupleRules) bool {
	switch t := p.cur(); t.kind {
	case tokVarEnd, tokBlockEnd, tokEOF:
		return true
	case tokOp:
		return t.text == ")"
	case tokName:
		return rules.end != "" && t.text == rules.end
	}
	return false
}

// leftAssoc reads a chain of binary operators of one strength.
func (p *parser) leftAssoc(next func() (expr, error), ops ...string) (expr, error) {
	a, err := next()
	for err == nil && p.cur().kind == tokOp && slices.Contains(ops, p.cur().text) {
		op := p.cur().text
		p.at++
		var b expr
		if b, err = next(); err == nil {
			a = &binExpr{op, a, b}
		}
	}
	return a, err
}

func (p *parser) or() (expr, error) {
	a, err := p.and()
	for err == nil && p.skip(tokName, "or") {
		var b expr
		if b, err = p.and(); err == nil {
			a = &logicExpr{true, a, b}
		}
	}
	return a, err
}

func (p *parser) and() (expr, error) {
	a, err := p.not()
	for err == nil && p.skip(tokName, "and") {
		var b expr
		if b, err = p.not(); err == nil {
			a = &logicExpr{false, a, b}
		}
	}
	return a, err
}

func (p *parser) not() (expr, error) {
	if !p.skip(tokName, "not") {
		return p.comparison()
	}
	leave, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer leave()
	e, err := p.not()
	return &unaryExpr{"not", e}, err
}

// compareOp consumes a comparison operator, "" if there is none.
func (p *parser) compareOp() string {
	t := p.cur()
	if t.kind == tokOp {
		switch t.text {
		case "==", "!=", "<", "<=", ">", ">=":
			p.at++
			return t.text
		}
		return ""
	}
	if p.skip(tokName, "in") {
		return "in"
	}
	if next := p.peek(1); p.is(tokName, "not") && next.kind == tokName && next.text == "in" {
		p.at += 2
		return "not in"
	}
	return ""
}

func (p *parser) comparison() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first}
	for op := p.compareOp(); op != ""; op = p.compareOp() {
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, e)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

func (p *parser) sum() (expr, error) { return p.leftAssoc(p.concat, "+", "-") }

func (p *parser) concat() (expr, error) {
	first, err := p.product()
	if err != nil || !p.is(tokOp, "~") {
		return first, err
	}
	items := []expr{first}
	for p.skip(tokOp, "~") {
		e, err := p.product()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return &concatExpr{items}, nil
}

func (p *parser) product() (expr, error) { return p.leftAssoc(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expr, error) {
	return p.leftAssoc(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) (expr, error) {
	leave, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer leave()
	var e expr
	if op := p.cur().text; p.skip(tokOp, "-") || p.skip(tokOp, "+") {
		if e, err = p.unary(false); err != nil {
			return nil, err
		}
		e = &unaryExpr{op, e}
	} else if e, err = p.primary(); err != nil {
		return nil, err
	}
	if e, err = p.postfix(e); err != nil || !filters {
		return e, err
	}
	return p.filtersAndTests(e)
}

func (p *parser) primary() (expr, error) {
	t := p.cur()
	p.at++
	switch t.kind {
	case tokName:
		return p.nameOrConstant(t.text), nil
	case tokString:
		var text strings.Builder
		for text.WriteString(t.text); p.cur().kind == tokString; p.at++ {
			text.WriteString(p.cur().text)
		}
		return &litExpr{Plain(text.String())}, nil
	case tokInt:
		if n, err := strconv.ParseInt(t.text, 0, 64); err == nil {
			return &litExpr{n}, nil
		}
		if n, err := strconv.ParseInt(t.text, 10, 64); err == nil && n == 0 {
			return &litExpr{n}, nil // 00
		}
	case tokFloat:
		if f, err := strconv.ParseFloat(t.text, 64); err == nil {
			return &litExpr{f}, nil
		}
	case tokOp:
		switch t.text {
		case "(":
			e, err := p.tuple(tupleRules{cond: true, paren: true})
			if err != nil {
				return nil, err
			}
			return e, p.expect(tokOp, ")")
		case "[":
			items, err := p.list("]")
			return &listExpr{items: items}, err
		case "{":
			return p.dict()
		}
	}
	p.at--
	return nil, p.errorf("unexpected %s", t.describe())
}

func (p *parser) nameOrConstant(name string) expr {
	switch name {
	case "true", "True":
		return &litExpr{true}
	case "false", "False":
		return &litExpr{false}
	case "none", "None":
		return &litExpr{nil}
	case "varargs":
		p.usesVarargs(func(m *macroStmt) { m.varargs = true })
	case "kwargs":
		p.usesVarargs(func(m *macroStmt) { m.kwargs = true })
	}
	return &nameExpr{name}
}

func (p *parser) usesVarargs(mark func(m *macroStmt)) {
	if p.macro != nil {
		mark(p.macro)
	}
}

// list reads expressions up to a closing bracket.
func (p *parser) list(end string) ([]expr, error) {
	var items []expr
	for !p.skip(tokOp, end) {
		if len(items) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return nil, err
			}
			if p.skip(tokOp, end) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{}
	for !p.skip(tokOp, "}") {
		if len(d.keys) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return nil, err
			}
			if p.skip(tokOp, "}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokOp, ":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.vals = append(d.keys, key), append(d.vals, value)
	}
	return d, nil
}
