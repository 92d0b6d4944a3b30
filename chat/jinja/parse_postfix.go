package jinja

import (
	"strconv"
	"strings"
)

// postfix reads attributes, items and calls.
func (p *parser) postfix(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.skip(tokOp, "."):
			e, err = p.attribute(e)
		case p.skip(tokOp, "["):
			e, err = p.subscript(e)
		case p.skip(tokOp, "("):
			var args argExprs
			args, err = p.arguments()
			e = &callExpr{e, args}
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) attribute(obj expr) (expr, error) {
	t := p.cur()
	p.at++
	switch t.kind {
	case tokName:
		return &attrExpr{obj, t.text}, nil
	case tokInt:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err == nil {
			return &itemExpr{obj, &litExpr{n}}, nil
		}
	}
	p.at--
	return nil, p.errorf("expected a name after '.', got %s", t.describe())
}

// subscript reads the rest of obj[…]: a key or a slice.
func (p *parser) subscript(obj expr) (expr, error) {
	var parts [3]expr
	n, slice := 0, false
	for !p.skip(tokOp, "]") {
		if p.skip(tokOp, ":") {
			if n++; n == len(parts) {
				return nil, p.errorf("a slice has more than three parts")
			}
			slice = true
			continue
		}
		if parts[n] != nil {
			return nil, p.errorf("expected ']', got %s", p.cur().describe())
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		parts[n] = e
	}
	switch {
	case slice:
		return &sliceExpr{obj, parts[0], parts[1], parts[2]}, nil
	case parts[0] == nil:
		return nil, p.errorf("expected an expression, got ']'")
	}
	return &itemExpr{obj, parts[0]}, nil
}

// arguments reads the rest of a call after its "(".
func (p *parser) arguments() (argExprs, error) {
	var a argExprs
	for first := true; !p.skip(tokOp, ")"); first = false {
		if !first {
			if err := p.expect(tokOp, ","); err != nil {
				return a, err
			}
			if p.skip(tokOp, ")") {
				break
			}
		}
		if err := p.argument(&a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (p *parser) argument(a *argExprs) error {
	var into *expr
	switch {
	case p.skip(tokOp, "*"):
		into = &a.star
	case p.skip(tokOp, "**"):
		into = &a.dstar
	case p.cur().kind == tokName && p.peek(1).kind == tokOp && p.peek(1).text == "=":
		a.names, a.kw = append(a.names, p.cur().text), append(a.kw, nil)
		into = &a.kw[len(a.kw)-1]
		p.at += 2
	default:
		if len(a.kw) > 0 || a.dstar != nil {
			return p.errorf("a positional argument follows a named one")
		}
		a.pos = append(a.pos, nil)
		into = &a.pos[len(a.pos)-1]
	}
	if *into != nil {
		return p.errorf("a call has '*' or '**' twice")
	}
	e, err := p.expression()
	*into = e
	return err
}

// filtersAndTests reads "| filter", "is test" and calls after them.
func (p *parser) filtersAndTests(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.skip(tokOp, "|"):
			e, err = p.filter(e)
		case p.skip(tokName, "is"):
			e, err = p.test(e)
		case p.skip(tokOp, "("):
			var args argExprs
			args, err = p.arguments()
			e = &callExpr{e, args}
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// dotted reads a name with dots.
func (p *parser) dotted() (string, error) {
	var parts []string
	for {
		part, err := p.expectName()
		if err != nil {
			return "", err
		}
		if parts = append(parts, part); !p.skip(tokOp, ".") {
			return strings.Join(parts, "."), nil
		}
	}
}

func (p *parser) filter(e expr) (*filterExpr, error) {
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{e: e, name: name}
	if p.skip(tokOp, "(") {
		f.args, err = p.arguments()
	}
	return f, err
}

func (p *parser) test(e expr) (expr, error) {
	t := &testExpr{e: e, not: p.skip(tokName, "not")}
	var err error
	if t.name, err = p.dotted(); err != nil {
		return nil, err
	}
	if p.skip(tokOp, "(") {
		t.args, err = p.arguments()
		return t, err
	}
	if !p.startsTestArgument() {
		return t, nil
	}
	arg, err := p.primary()
	if err != nil {
		return nil, err
	}
	arg, err = p.postfix(arg)
	t.args.pos = []expr{arg}
	return t, err
}

// startsTestArgument reports whether an argument without parentheses follows, as
// in "is divisibleby 3".
func (p *parser) startsTestArgument() bool {
	switch t := p.cur(); t.kind {
	case tokString, tokInt, tokFloat:
		return true
	case tokOp:
		return t.text == "[" || t.text == "{"
	case tokName:
		switch t.text {
		case "else", "or", "and", "is", "if", "in", "not", "recursive":
			return false
		}
		return true
	}
	return false
}
