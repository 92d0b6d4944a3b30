package jinja

// args are the evaluated arguments of a call.
type args struct {
	pos   []Value
	names []string // of kw
	kw    []Value
}

// unset stands for a parameter that was not given.
type unset struct{}

// bind assigns arguments to parameters as Python does. Those not given are unset.
func (a args) bind(r *run, fn string, params ...string) ([]Value, error) {
	if len(a.pos) > len(params) {
		return nil, r.errorf("%s() takes at most %d arguments (%d given)", fn, len(params), len(a.pos))
	}
	out := make([]Value, len(params))
	for i := range out {
		out[i] = unset{}
	}
	copy(out, a.pos)
	for i, name := range a.names {
		at := -1
		for j, p := range params {
			if p == name {
				at = j
			}
		}
		if at < 0 {
			return nil, r.errorf("%s() got an unexpected keyword argument '%s'", fn, name)
		}
		if _, free := out[at].(unset); !free {
			return nil, r.errorf("%s() got multiple values for argument '%s'", fn, name)
		}
		out[at] = a.kw[i]
	}
	return out, nil
}

// eval computes the arguments of a call.
func (x *argExprs) eval(r *run, sc *scope, first ...Value) (args, error) {
	a := args{pos: make([]Value, 0, len(first)+len(x.pos)), names: x.names}
	a.pos = append(a.pos, first...)
	for _, e := range x.pos {
		v, err := r.eval(e, sc)
		if err != nil {
			return a, err
		}
		a.pos = append(a.pos, v)
	}
	for _, e := range x.kw {
		v, err := r.eval(e, sc)
		if err != nil {
			return a, err
		}
		a.kw = append(a.kw, v)
	}
	return a, x.unpack(r, sc, &a)
}

// unpack adds *args and **kwargs.
func (x *argExprs) unpack(r *run, sc *scope, a *args) error {
	if x.star != nil {
		v, err := r.eval(x.star, sc)
		if err != nil {
			return err
		}
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		a.pos = append(a.pos, items...)
	}
	if x.dstar == nil {
		return nil
	}
	v, err := r.eval(x.dstar, sc)
	if err != nil {
		return err
	}
	d, ok := v.(*Dict)
	if !ok {
		return r.errorf("argument after ** must be a mapping, not %s", typeName(v))
	}
	a.names = a.names[:len(a.names):len(a.names)]
	for i, k := range d.keys {
		name, ok := k.(Text)
		if !ok {
			return r.errorf("keywords must be strings")
		}
		a.names, a.kw = append(a.names, name.s), append(a.kw, d.vals[i])
	}
	return r.elements(len(d.keys))
}

func (s *macroStmt) exec(_ *run, sc *scope, _ *builder) error {
	sc.set(s.name, s.function(sc))
	return nil
}

// function closes the macro over the scope that defines it.
func (s *macroStmt) function(sc *scope) *function {
	return &function{s.name, func(r *run, a args) (Value, error) {
		inner := &scope{parent: sc}
		if err := s.bind(r, inner, a); err != nil {
			return nil, err
		}
		line := r.line
		text, err := r.capture(s.body, inner)
		if err != nil {
			return nil, err
		}
		r.line = line
		return text, nil
	}}
}

// bind sets the parameters, and what is left over as varargs and kwargs.
func (s *macroStmt) bind(r *run, inner *scope, a args) error {
	names, kw := a.names, a.kw
	for i, p := range s.params {
		v, err := s.argument(r, inner, a, i)
		if err != nil {
			return err
		}
		inner.set(p.name, v)
	}
	if len(a.pos) > len(s.params) && !s.varargs {
		return r.errorf("macro '%s' takes not more than %d argument(s)", s.name, len(s.params))
	}
	if s.varargs {
		inner.set("varargs", &List{Items: a.pos[min(len(a.pos), len(s.params)):], tuple: true})
	}
	rest := &Dict{}
	for i, name := range names {
		switch {
		case s.hasParam(name):
		case name == "caller" && !s.isCaller:
			inner.set("caller", kw[i])
		case s.kwargs:
			rest.Set(name, kw[i])
		default:
			return r.errorf("macro '%s' takes no keyword argument '%s'", s.name, name)
		}
	}
	if s.kwargs {
		inner.set("kwargs", rest)
	}
	return nil
}

func (s *macroStmt) hasParam(name string) bool {
	for _, p := range s.params {
		if p.name == name {
			return true
		}
	}
	return false
}

// argument returns the value of parameter i.
func (s *macroStmt) argument(r *run, inner *scope, a args, i int) (Value, error) {
	p := s.params[i]
	if i < len(a.pos) {
		return a.pos[i], nil
	}
	for j, name := range a.names {
		if name == p.name {
			return a.kw[j], nil
		}
	}
	if p.def != nil {
		return r.eval(p.def, inner)
	}
	return Undefined{name: p.name}, nil
}

func (s *callStmt) exec(r *run, sc *scope, out *builder) error {
	r.line = s.line
	fn, err := r.eval(s.call.fn, sc)
	if err != nil {
		return err
	}
	a, err := s.call.args.eval(r, sc)
	if err != nil {
		return err
	}
	a.names = append(a.names[:len(a.names):len(a.names)], "caller")
	a.kw = append(a.kw, s.caller.function(sc))
	v, err := r.call(fn, a)
	if err != nil {
		return err
	}
	return r.write(out, v)
}

// call calls a value.
func (r *run) call(fn Value, a args) (Value, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	switch fn := fn.(type) {
	case *function:
		return fn.call(r, a)
	case *loop:
		return fn.recurse(r, a)
	case Undefined:
		return nil, r.undefined(fn)
	}
	return nil, r.errorf("'%s' object is not callable", typeName(fn))
}
