package jinja

// globals are the functions every template can call.
var globals = map[string]*function{
	"range":           {"range", globalRange},
	"namespace":       {"namespace", globalNamespace},
	"dict":            {"dict", globalDict},
	"joiner":          {"joiner", globalJoiner},
	"cycler":          {"cycler", globalCycler},
	"raise_exception": {"raise_exception", globalRaise},
	"strftime_now":    {"strftime_now", globalStrftimeNow},
}

// maxRange is the longest range, as in Jinja's sandbox.
const maxRange = 100_000

func globalRange(r *run, a args) (Value, error) {
	if len(a.pos) < 1 || len(a.pos) > 3 {
		return nil, r.errorf("range expected 1 to 3 arguments, got %d", len(a.pos))
	}
	var n [3]int64
	for i, v := range a.pos {
		at, _, isFloat, ok := asNumber(v)
		if !ok || isFloat {
			return nil, r.errorf("'%s' object cannot be interpreted as an integer", typeName(v))
		}
		n[i] = at
	}
	start, stop, step := n[0], n[1], n[2]
	switch len(a.pos) {
	case 1:
		start, stop, step = 0, n[0], 1
	case 2:
		step = 1
	}
	if step == 0 {
		return nil, r.errorf("range() arg 3 must not be zero")
	}
	out := &List{}
	for i := start; (step > 0 && i < stop) || (step < 0 && i > stop); {
		if len(out.Items) == maxRange {
			return nil, r.errorf("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
		}
		out.Items = append(out.Items, i)
		if next := i + step; (next > i) == (step > 0) {
			i = next
			continue
		}
		break // the next number is out of range
	}
	return out, r.elements(len(out.Items))
}

// globalDict is dict(mapping, key=value, …).
func globalDict(r *run, a args) (Value, error) {
	d := &Dict{}
	for _, v := range a.pos {
		src, ok := v.(*Dict)
		if !ok {
			return nil, r.errorf("dict() needs a mapping, not %s", typeName(v))
		}
		if err := r.elements(2 * src.Len()); err != nil {
			return nil, err
		}
		for i, k := range src.keys {
			d.set(k, src.vals[i])
		}
	}
	for i, name := range a.names {
		d.Set(name, a.kw[i])
	}
	return d, nil
}

func globalNamespace(r *run, a args) (Value, error) {
	v, err := globalDict(r, a)
	if err != nil {
		return nil, err
	}
	return &namespace{*v.(*Dict)}, nil
}

// globalJoiner returns a function that gives "" first and the separator after.
func globalJoiner(r *run, a args) (Value, error) {
	p, err := a.bind(r, "joiner", "sep")
	if err != nil {
		return nil, err
	}
	sep, err := r.textOr(p[0], ", ")
	if err != nil {
		return nil, err
	}
	used := false
	return &function{"joiner", func(*run, args) (Value, error) {
		if used {
			return sep, nil
		}
		used = true
		return Text{}, nil
	}}, nil
}

// cycler gives its items in turn.
type cycler struct {
	items []Value
	at    int
}

func globalCycler(r *run, a args) (Value, error) {
	if len(a.pos) == 0 {
		return nil, r.errorf("at least one item has to be provided")
	}
	return &cycler{items: a.pos}, nil
}

func (c *cycler) attr(name string) Value {
	switch name {
	case "current":
		return c.items[c.at]
	case "next":
		return &function{name, func(*run, args) (Value, error) {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v, nil
		}}
	case "reset":
		return &function{name, func(*run, args) (Value, error) {
			c.at = 0
			return nil, nil
		}}
	}
	return Undefined{"Cycler", name}
}

func globalRaise(r *run, a args) (Value, error) {
	t, err := r.toText(first(a))
	if err != nil {
		return nil, err
	}
	return nil, &Error{Line: r.line, Message: t.s, Raised: true}
}

func globalStrftimeNow(r *run, a args) (Value, error) {
	format, err := textArg(r, a)
	if err != nil {
		return nil, err
	}
	b := r.builder()
	strftime(b, r.lim.Now(), format.s)
	return b.value()
}
