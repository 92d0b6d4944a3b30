package jinja

// macroStatement reads {% macro name(params) %} … {% endmacro %}.
func (p *parser) macroStatement(line int) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	m := &macroStmt{line: line, name: name}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	return m, p.macroBody(m, "endmacro")
}

// signature reads a list of parameters.
func (p *parser) signature(m *macroStmt) error {
	if err := p.expect(tokOp, "("); err != nil {
		return err
	}
	for !p.skip(tokOp, ")") {
		if len(m.params) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		var def expr
		if p.skip(tokOp, "=") {
			if def, err = p.expression(); err != nil {
				return err
			}
		} else if n := len(m.params); n > 0 && m.params[n-1].def != nil {
			return p.errorf("a parameter without a default follows one with a default")
		}
		m.params = append(m.params, param{name, def})
	}
	return nil
}

// macroBody reads the body of a macro, which is outside the loops around it.
func (p *parser) macroBody(m *macroStmt, end string) error {
	loops, outer := p.loops, p.macro
	p.loops, p.macro = 0, m
	body, err := p.blockBody(end)
	p.loops, p.macro = loops, outer
	m.body = body
	return err
}

// callStatement reads {% call(params) fn(args) %} … {% endcall %}.
func (p *parser) callStatement(line int) (stmt, error) {
	caller := &macroStmt{line: line, name: "caller", isCaller: true}
	if p.is(tokOp, "(") {
		if err := p.signature(caller); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.errorf("a call block needs a call")
	}
	return &callStmt{line, call, caller}, p.macroBody(caller, "endcall")
}
