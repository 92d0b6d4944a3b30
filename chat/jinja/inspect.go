package jinja

// LoopsOverContent reports whether the template iterates over the content of a
// message, so that it wants content as a list of parts. The rule is vLLM's
// (_detect_content_format): a loop over x.content or x['content'], filtered or
// sliced or not, where x is messages, a name assigned from it, or the variable of
// a loop over one of those.
func (t *Template) LoopsOverContent() bool {
	derived := map[string][]string{} // names that get a part of the key's value
	content := map[string]bool{}     // names whose content is looped over
	walk(t.body, func(s stmt) {
		var from expr
		var to target
		switch s := s.(type) {
		case *setStmt:
			from, to = s.value, s.target
		case *forStmt:
			from, to = s.iter, s.target
			content[contentOf(from)] = true
		default:
			return
		}
		if name := rootName(from); name != "" && to.items == nil && to.attr == "" {
			derived[name] = append(derived[name], to.name)
		}
	})
	seen := map[string]bool{"messages": true}
	for queue := []string{"messages"}; len(queue) > 0; queue = queue[1:] {
		if content[queue[0]] {
			return true
		}
		for _, name := range derived[queue[0]] {
			if !seen[name] {
				seen[name] = true
				queue = append(queue, name)
			}
		}
	}
	return false
}

// walk calls visit for each statement, depth first.
func walk(body []stmt, visit func(s stmt)) {
	for _, s := range body {
		visit(s)
		switch s := s.(type) {
		case *ifStmt:
			for _, b := range s.body {
				walk(b, visit)
			}
		case *forStmt:
			walk(s.body, visit)
			walk(s.none, visit)
		case *setBlockStmt:
			walk(s.body, visit)
		case *macroStmt:
			walk(s.body, visit)
		case *callStmt:
			walk(s.caller.body, visit)
		case *filterStmt:
			walk(s.body, visit)
		case *withStmt:
			walk(s.body, visit)
		case *blockStmt:
			walk(s.body, visit)
		}
	}
}

// inner strips filters, tests and slices off an expression.
func inner(e expr) expr {
	for {
		switch x := e.(type) {
		case *filterExpr:
			e = x.e
		case *testExpr:
			e = x.e
		case *sliceExpr:
			e = x.obj
		default:
			return e
		}
	}
}

// rootName returns the name that e is, or is a part of; "" if it is neither.
func rootName(e expr) string {
	switch x := inner(e).(type) {
	case *nameExpr:
		return x.name
	case *itemExpr:
		if lit, ok := x.key.(*litExpr); ok && isType[int64](lit.v) {
			return rootName(x.obj)
		}
	}
	return ""
}

// contentOf returns the name x of x.content or x['content'], "" for other expressions.
func contentOf(e expr) string {
	switch x := inner(e).(type) {
	case *attrExpr:
		if name, ok := x.obj.(*nameExpr); ok && x.name == "content" {
			return name.name
		}
	case *itemExpr:
		lit, isLit := x.key.(*litExpr)
		name, isName := x.obj.(*nameExpr)
		if !isLit || !isName {
			return ""
		}
		if key, ok := lit.v.(Text); ok && key.s == "content" {
			return name.name
		}
	}
	return ""
}
