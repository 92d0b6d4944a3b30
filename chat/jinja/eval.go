package jinja

// eval computes an expression.
func (r *run) eval(e expr, sc *scope) (Value, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	v, err := e.eval(r, sc)
	r.leave()
	return v, err
}

// undefined is the error of using an undefined value.
func (r *run) undefined(u Undefined) error { return r.errorf("%s", u.message()) }

func (e *litExpr) eval(*run, *scope) (Value, error) { return e.v, nil }

func (e *nameExpr) eval(r *run, sc *scope) (Value, error) {
	if v, ok := sc.lookup(e.name); ok {
		return v, nil
	}
	if v, ok := r.vars.Get(e.name); ok {
		return v, nil
	}
	if fn, ok := globals[e.name]; ok {
		return fn, nil
	}
	return Undefined{name: e.name}, nil
}

func (e *attrExpr) eval(r *run, sc *scope) (Value, error) {
	obj, err := r.eval(e.obj, sc)
	if err != nil {
		return nil, err
	}
	return r.attr(obj, e.name)
}

func (e *itemExpr) eval(r *run, sc *scope) (Value, error) {
	obj, err := r.eval(e.obj, sc)
	if err != nil {
		return nil, err
	}
	key, err := r.eval(e.key, sc)
	if err != nil {
		return nil, err
	}
	return r.item(obj, key)
}

func (e *listExpr) eval(r *run, sc *scope) (Value, error) {
	items, err := r.evalAll(e.items, sc)
	return &List{Items: items, tuple: e.tuple}, err
}

func (r *run) evalAll(exprs []expr, sc *scope) ([]Value, error) {
	if err := r.elements(len(exprs)); err != nil {
		return nil, err
	}
	out := make([]Value, len(exprs))
	for i, e := range exprs {
		var err error
		if out[i], err = r.eval(e, sc); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *dictExpr) eval(r *run, sc *scope) (Value, error) {
	keys, err := r.evalAll(e.keys, sc)
	if err != nil {
		return nil, err
	}
	vals, err := r.evalAll(e.vals, sc)
	if err != nil {
		return nil, err
	}
	d := &Dict{}
	for i, k := range keys {
		if !d.set(k, vals[i]) {
			return nil, r.errorf("unhashable type: '%s'", typeName(k))
		}
	}
	return d, nil
}

func (e *logicExpr) eval(r *run, sc *scope) (Value, error) {
	a, err := r.eval(e.a, sc)
	if err != nil || truthy(a) == e.or {
		return a, err
	}
	return r.eval(e.b, sc)
}

func (e *condExpr) eval(r *run, sc *scope) (Value, error) {
	test, err := r.eval(e.test, sc)
	if err != nil {
		return nil, err
	}
	if truthy(test) {
		return r.eval(e.yes, sc)
	}
	if e.no == nil {
		return Undefined{name: "the else branch of an inline if"}, nil
	}
	return r.eval(e.no, sc)
}

func (e *concatExpr) eval(r *run, sc *scope) (Value, error) {
	b := r.builder()
	for _, x := range e.items {
		v, err := r.eval(x, sc)
		if err != nil {
			return nil, err
		}
		if err := r.write(b, v); err != nil {
			return nil, err
		}
	}
	return b.value()
}

func (e *compareExpr) eval(r *run, sc *scope) (Value, error) {
	a, err := r.eval(e.first, sc)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		b, err := r.eval(e.rest[i], sc)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(op, a, b)
		if err != nil || !ok {
			return false, err
		}
		a = b
	}
	return true, nil
}

func (e *unaryExpr) eval(r *run, sc *scope) (Value, error) {
	v, err := r.eval(e.e, sc)
	if err != nil {
		return nil, err
	}
	if e.op == "not" {
		return !truthy(v), nil
	}
	return r.sign(e.op, v)
}

func (e *binExpr) eval(r *run, sc *scope) (Value, error) {
	a, err := r.eval(e.a, sc)
	if err != nil {
		return nil, err
	}
	b, err := r.eval(e.b, sc)
	if err != nil {
		return nil, err
	}
	return r.binary(e.op, a, b)
}

func (e *callExpr) eval(r *run, sc *scope) (Value, error) {
	fn, err := r.eval(e.fn, sc)
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(r, sc)
	if err != nil {
		return nil, err
	}
	return r.call(fn, a)
}

func (e *filterExpr) eval(r *run, sc *scope) (Value, error) {
	v, err := r.eval(e.e, sc)
	if err != nil {
		return nil, err
	}
	return e.apply(r, sc, v)
}

// apply passes v through the filter.
func (e *filterExpr) apply(r *run, sc *scope, v Value) (Value, error) {
	a, err := e.args.eval(r, sc, v)
	if err != nil {
		return nil, err
	}
	return r.filter(e.name, a)
}

func (e *testExpr) eval(r *run, sc *scope) (Value, error) {
	v, err := r.eval(e.e, sc)
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(r, sc, v)
	if err != nil {
		return nil, err
	}
	ok, err := r.test(e.name, a)
	return ok != e.not, err
}
