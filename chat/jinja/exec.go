package jinja

// exec runs statements in order.
func (r *run) exec(body []stmt, sc *scope, out *builder) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave() // also where a break or continue leaves the body
	for _, s := range body {
		if err := r.step(); err != nil {
			return err
		}
		if err := s.exec(r, sc, out); err != nil {
			return err
		}
		if out.err != nil {
			return out.err
		}
	}
	return nil
}

// capture runs statements and returns what they wrote.
func (r *run) capture(body []stmt, sc *scope) (Text, error) {
	out := r.builder()
	if err := r.exec(body, sc, out); err != nil {
		return Text{}, err
	}
	return out.done()
}

func (s *dataStmt) exec(_ *run, _ *scope, out *builder) error {
	out.plain(s.text)
	return nil
}

func (s *outputStmt) exec(r *run, sc *scope, out *builder) error {
	r.line = s.line
	v, err := r.eval(s.e, sc)
	if err != nil {
		return err
	}
	return r.write(out, v)
}

func (s *ifStmt) exec(r *run, sc *scope, out *builder) error {
	for i, test := range s.tests {
		r.line = s.line
		v, err := r.eval(test, sc)
		if err != nil {
			return err
		}
		if truthy(v) {
			return r.exec(s.body[i], sc, out)
		}
	}
	if len(s.body) > len(s.tests) {
		return r.exec(s.body[len(s.tests)], sc, out)
	}
	return nil
}

func (s *setStmt) exec(r *run, sc *scope, _ *builder) error {
	r.line = s.line
	v, err := r.eval(s.value, sc)
	if err != nil {
		return err
	}
	return r.assign(sc, s.target, v)
}

// assign binds v to a target.
func (r *run) assign(sc *scope, t target, v Value) error {
	switch {
	case t.items != nil:
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.items) {
			return r.errorf("cannot unpack %d values into %d names", len(items), len(t.items))
		}
		for i, to := range t.items {
			if err := r.assign(sc, to, items[i]); err != nil {
				return err
			}
		}
		return nil
	case t.attr != "":
		v0, _ := sc.lookup(t.name)
		ns, ok := v0.(*namespace)
		if !ok {
			return r.errorf("cannot assign attribute '%s': '%s' is not a namespace", t.attr, t.name)
		}
		ns.attrs.Set(t.attr, v)
		return r.elements(1)
	}
	sc.set(t.name, v)
	return nil
}

func (s *setBlockStmt) exec(r *run, sc *scope, _ *builder) error {
	text, err := r.capture(s.body, &scope{parent: sc})
	if err != nil {
		return err
	}
	v, err := r.applyAll(s.filters, text, sc)
	if err != nil {
		return err
	}
	return r.assign(sc, s.target, v)
}

// applyAll passes v through a chain of filters.
func (r *run) applyAll(filters []filterExpr, v Value, sc *scope) (Value, error) {
	for i := range filters {
		var err error
		if v, err = filters[i].apply(r, sc, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (s *filterStmt) exec(r *run, sc *scope, out *builder) error {
	text, err := r.capture(s.body, &scope{parent: sc})
	if err != nil {
		return err
	}
	r.line = s.line
	v, err := r.applyAll(s.filters, text, sc)
	if err != nil {
		return err
	}
	return r.write(out, v)
}

func (s *withStmt) exec(r *run, sc *scope, out *builder) error {
	inner := &scope{parent: sc}
	for i, t := range s.targets {
		r.line = s.line
		v, err := r.eval(s.values[i], sc)
		if err != nil {
			return err
		}
		inner.set(t.name, v)
	}
	return r.exec(s.body, inner, out)
}

func (s *blockStmt) exec(r *run, sc *scope, out *builder) error {
	return r.exec(s.body, &scope{parent: sc}, out)
}

func (s *jumpStmt) exec(*run, *scope, *builder) error { return s.to }

// loop is the variable of that name inside a loop.
type loop struct {
	stmt    *forStmt
	outer   *scope // where the loop stands
	items   []Value
	index   int // 0-based
	depth   int // 0 for the outermost of a recursive loop
	changed []Value
	seen    bool // changed holds the last arguments of loop.changed
}

func (s *forStmt) exec(r *run, sc *scope, out *builder) error {
	r.line = s.line
	v, err := r.eval(s.iter, sc)
	if err != nil {
		return err
	}
	return s.run(r, &loop{stmt: s, outer: sc}, v, out)
}

// run iterates over v. l tells the place and the depth of the loop.
func (s *forStmt) run(r *run, l *loop, v Value, out *builder) error {
	items, err := r.iterate(v)
	if err != nil {
		return err
	}
	if s.test != nil {
		if items, err = s.selected(r, l.outer, items); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		return r.exec(s.none, &scope{parent: l.outer}, out)
	}
	l.items = items
	for i, item := range items {
		l.index = i
		// A fresh scope per iteration: what the body sets does not outlive it.
		inner := &scope{parent: l.outer}
		inner.set("loop", l)
		if err := r.assign(inner, s.target, item); err != nil {
			return err
		}
		err := r.exec(s.body, inner, out)
		if err == errBreak {
			break
		}
		if err != nil && err != errContinue {
			return err
		}
	}
	return nil
}

// selected returns the items that pass the loop's own test.
func (s *forStmt) selected(r *run, sc *scope, items []Value) ([]Value, error) {
	var out []Value
	for _, item := range items {
		inner := &scope{parent: sc}
		if err := r.assign(inner, s.target, item); err != nil {
			return nil, err
		}
		v, err := r.eval(s.test, inner)
		if err != nil {
			return nil, err
		}
		if truthy(v) {
			out = append(out, item)
		}
	}
	return out, nil
}

// attr returns an attribute of the loop variable.
func (l *loop) attr(name string) Value {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.index + 1)
	case "index0":
		return int64(l.index)
	case "revindex":
		return int64(n - l.index)
	case "revindex0":
		return int64(n - l.index - 1)
	case "first":
		return l.index == 0
	case "last":
		return l.index == n-1
	case "length":
		return int64(n)
	case "depth":
		return int64(l.depth + 1)
	case "depth0":
		return int64(l.depth)
	case "previtem":
		if l.index > 0 {
			return l.items[l.index-1]
		}
	case "nextitem":
		if l.index+1 < n {
			return l.items[l.index+1]
		}
	case "cycle":
		return &function{"cycle", l.cycle}
	case "changed":
		return &function{"changed", l.hasChanged}
	}
	return Undefined{"LoopContext", name}
}

func (l *loop) cycle(r *run, a args) (Value, error) {
	if len(a.pos) == 0 {
		return nil, r.errorf("no items for cycling given")
	}
	return a.pos[l.index%len(a.pos)], nil
}

func (l *loop) hasChanged(r *run, a args) (Value, error) {
	same, err := r.equal(&List{Items: l.changed}, &List{Items: a.pos}, 0)
	if err != nil {
		return nil, err
	}
	same = same && l.seen
	l.changed, l.seen = a.pos, true
	return !same, nil
}

// recurse is loop(items) in a recursive loop.
func (l *loop) recurse(r *run, a args) (Value, error) {
	if !l.stmt.recursive || len(a.pos) != 1 {
		return nil, r.errorf("the loop is not recursive: 'recursive' is missing in its tag")
	}
	out := r.builder()
	inner := &loop{stmt: l.stmt, outer: l.outer, depth: l.depth + 1}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	if err := l.stmt.run(r, inner, a.pos[0], out); err != nil {
		return nil, err
	}
	return out.value()
}
