package jinja

import "unicode/utf8"

// attr is obj.name: a method or attribute of the type first, then an item.
func (r *run) attr(obj Value, name string) (Value, error) {
	switch obj := obj.(type) {
	case Undefined:
		return nil, r.undefined(obj)
	case *Dict:
		if m := dictMethod(obj, name); m != nil {
			return m, nil
		}
		if v, ok := obj.Get(name); ok {
			return v, nil
		}
	case *namespace:
		if v, ok := obj.attrs.Get(name); ok {
			return v, nil
		}
	case Text:
		if m := textMethod(obj, name); m != nil {
			return m, nil
		}
	case *List:
		if m := listMethod(obj, name); m != nil {
			return m, nil
		}
	case *loop:
		return obj.attr(name), nil
	case *cycler:
		return obj.attr(name), nil
	case *function:
		if name == "name" {
			return Plain(obj.name), nil
		}
	}
	return Undefined{typeName(obj), name}, nil
}

// item is obj[key]: an item first, then an attribute.
func (r *run) item(obj, key Value) (Value, error) {
	if u, ok := obj.(Undefined); ok {
		return nil, r.undefined(u)
	}
	switch o := obj.(type) {
	case *Dict:
		if k, ok := keyOf(key); ok {
			if i := o.find(k); i >= 0 {
				return o.vals[i], nil
			}
		}
	case *List:
		if i, ok := asIndex(key); ok {
			if i < 0 {
				i += len(o.Items)
			}
			if i >= 0 && i < len(o.Items) {
				return o.Items[i], nil
			}
		}
	case Text:
		if i, ok := asIndex(key); ok {
			return r.char(o, i)
		}
	}
	if name, ok := key.(Text); ok {
		return r.attr(obj, name.s)
	}
	text, err := r.toText(key)
	return Undefined{typeName(obj), text.s}, err
}

func asIndex(v Value) (int, bool) {
	switch v := v.(type) {
	case int64:
		return int(v), true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// char returns the i-th character of t, counted from the end if i < 0.
func (r *run) char(t Text, i int) (Value, error) {
	c, err := r.chars(t)
	if err != nil {
		return nil, err
	}
	if i < 0 {
		i += c.n
	}
	if i < 0 || i >= c.n {
		return Undefined{"str", "the index"}, nil
	}
	return t.Slice(c.at(i), c.at(i+1)), nil
}

// charIndex finds characters of a text by number.
type charIndex struct {
	n       int
	offsets []int // where each character starts, and the end; nil if each is one byte
}

func (c charIndex) at(i int) int {
	if c.offsets == nil {
		return i
	}
	return c.offsets[i]
}

// chars indexes the characters of t; the memory is charged.
func (r *run) chars(t Text) (charIndex, error) {
	c := charIndex{n: utf8.RuneCountInString(t.s)}
	if c.n == len(t.s) {
		return c, r.scan(t)
	}
	if err := r.charge(8 * (c.n + 1)); err != nil {
		return c, err
	}
	c.offsets = make([]int, 0, c.n+1)
	for i := range t.s {
		c.offsets = append(c.offsets, i)
	}
	c.offsets = append(c.offsets, len(t.s))
	return c, nil
}

func (e *sliceExpr) eval(r *run, sc *scope) (Value, error) {
	obj, err := r.eval(e.obj, sc)
	if err != nil {
		return nil, err
	}
	var bounds [3]Value
	for i, x := range []expr{e.start, e.stop, e.step} {
		if x == nil {
			continue
		}
		if bounds[i], err = r.eval(x, sc); err != nil {
			return nil, err
		}
	}
	switch obj := obj.(type) {
	case Undefined:
		return nil, r.undefined(obj)
	case *List:
		at, err := r.sliceOf(len(obj.Items), bounds)
		if err == nil {
			err = r.elements(at.n)
		}
		if err != nil {
			return nil, err
		}
		out := &List{Items: make([]Value, at.n), tuple: obj.tuple}
		for i := range out.Items {
			out.Items[i] = obj.Items[at.start+i*at.step]
		}
		return out, nil
	case Text:
		return r.sliceText(obj, bounds)
	}
	return nil, r.errorf("'%s' object cannot be sliced", typeName(obj))
}

func (r *run) sliceText(t Text, bounds [3]Value) (Value, error) {
	c, err := r.chars(t)
	if err != nil {
		return nil, err
	}
	at, err := r.sliceOf(c.n, bounds)
	if err != nil {
		return nil, err
	}
	if at.step == 1 {
		return t.Slice(c.at(at.start), c.at(at.start+at.n)), nil
	}
	b := r.builder()
	for i := range at.n {
		k := at.start + i*at.step
		b.text(t.Slice(c.at(k), c.at(k+1)))
	}
	return b.value()
}

// slicing is n elements from start, step apart.
type slicing struct{ start, step, n int }

// sliceOf resolves the bounds of a slice of length n as Python's slice.indices.
func (r *run) sliceOf(n int, bounds [3]Value) (slicing, error) {
	var given [3]int
	for i, v := range bounds {
		if v == nil {
			continue
		}
		at, ok := asIndex(v)
		if !ok {
			return slicing{}, r.errorf("slice indices must be integers, not %s", typeName(v))
		}
		given[i] = at
	}
	s := slicing{step: 1}
	if bounds[2] != nil {
		s.step = min(max(given[2], -n-1), n+1) // longer steps change nothing, and could overflow
	}
	if s.step == 0 {
		return s, r.errorf("slice step cannot be zero")
	}
	low, high := 0, n // where bounds are clamped to
	if s.step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i, absent int) int {
		switch {
		case bounds[i] == nil:
			return absent
		case given[i] < 0:
			return max(given[i]+n, low)
		}
		return min(given[i], high)
	}
	var stop int
	if s.step > 0 {
		s.start, stop = clamp(0, low), clamp(1, high)
		s.n = max(0, (stop-s.start+s.step-1)/s.step)
	} else {
		s.start, stop = clamp(0, high), clamp(1, low)
		s.n = max(0, (s.start-stop-s.step-1)/-s.step)
	}
	if s.n == 0 {
		s.start = 0
	}
	return s, nil
}

// iterate returns the elements of v.
func (r *run) iterate(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return v.Items, r.elements(len(v.Items))
	case *Dict:
		return v.keys, r.elements(len(v.keys))
	case Text:
		c, err := r.chars(v)
		if err != nil {
			return nil, err
		}
		if err := r.elements(c.n); err != nil {
			return nil, err
		}
		out := make([]Value, c.n)
		for i := range out {
			out[i] = v.Slice(c.at(i), c.at(i+1))
		}
		return out, nil
	case Undefined:
		return nil, nil
	}
	return nil, r.errorf("'%s' object is not iterable", typeName(v))
}
