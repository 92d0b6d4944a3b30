package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// This file has the filters of sequences.

func filterItems(r *run, a args) (Value, error) {
	switch v := a.pos[0].(type) {
	case Undefined:
		return &List{}, nil
	case *Dict:
		return pairs(r, v)
	}
	return nil, r.errorf("Can only get item pairs from a mapping.")
}

// pairs returns the entries of d as tuples.
func pairs(r *run, d *Dict) (Value, error) {
	if err := r.elements(2 * len(d.keys)); err != nil {
		return nil, err
	}
	out := &List{Items: make([]Value, len(d.keys))}
	for i, k := range d.keys {
		out.Items[i] = &List{Items: []Value{k, d.vals[i]}, tuple: true}
	}
	return out, nil
}

func filterList(r *run, a args) (Value, error) {
	items, err := r.iterate(a.pos[0])
	return &List{Items: items}, err
}

func filterFirst(r *run, a args) (Value, error) {
	items, err := r.iterate(a.pos[0])
	if err != nil || len(items) == 0 {
		return Undefined{name: "the first item of an empty sequence"}, err
	}
	return items[0], nil
}

func filterLast(r *run, a args) (Value, error) {
	items, err := r.iterate(a.pos[0])
	if err != nil || len(items) == 0 {
		return Undefined{name: "the last item of an empty sequence"}, err
	}
	return items[len(items)-1], nil
}

func filterReverse(r *run, a args) (Value, error) {
	items, err := r.iterate(a.pos[0])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(items)
	slices.Reverse(out)
	if _, ok := a.pos[0].(Text); ok {
		return r.join(out, Text{})
	}
	return &List{Items: out}, nil
}

// join puts items together with sep between them.
func (r *run) join(items []Value, sep Text) (Value, error) {
	b := r.builder()
	for i, item := range items {
		if i > 0 {
			b.text(sep)
		}
		if err := r.write(b, item); err != nil {
			return nil, err
		}
	}
	return b.value()
}

func filterJoin(r *run, a args) (Value, error) {
	p, err := a.bind(r, "join", "value", "d", "attribute")
	if err != nil {
		return nil, err
	}
	sep, err := r.textOr(p[1], "")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	if items, err = r.lookups(items, p[2]); err != nil {
		return nil, err
	}
	return r.join(items, sep)
}

// lookups returns an attribute of each item, or the items if no attribute is given.
func (r *run) lookups(items []Value, attribute Value) ([]Value, error) {
	if !given(attribute) || attribute == nil {
		return items, nil
	}
	out := make([]Value, len(items))
	for i, item := range items {
		v, err := r.dig(item, attribute, unset{})
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// dig follows a path such as "function.name" or 0. A step that leads nowhere gives
// absent, if that is given.
func (r *run) dig(v, path, absent Value) (Value, error) {
	text, err := r.toText(path)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(text.s, ".") {
		if err := r.step(); err != nil {
			return nil, err
		}
		key := Value(Plain(part))
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			key = n
		}
		if v, err = r.item(v, key); err != nil {
			return nil, err
		}
		if isType[Undefined](v) && given(absent) {
			v = absent
		}
	}
	return v, nil
}

func filterAttr(r *run, a args) (Value, error) {
	p, err := a.bind(r, "attr", "obj", "name")
	if err != nil {
		return nil, err
	}
	name, err := r.textOr(p[1], "")
	if err != nil {
		return nil, err
	}
	v, err := r.attr(p[0], name.s)
	if _, isDict := p[0].(*Dict); isDict && dictMethod(p[0].(*Dict), name.s) == nil {
		return Undefined{"dict", name.s}, err // attr never looks into items
	}
	return v, err
}

func filterMap(r *run, a args) (Value, error) {
	items, err := r.iterate(a.pos[0])
	if err != nil {
		return nil, err
	}
	out := &List{Items: make([]Value, len(items))}
	if len(a.pos) == 1 {
		p, err := a.bind(r, "map", "", "attribute", "default")
		if err != nil {
			return nil, err
		}
		if !given(p[1]) {
			return nil, r.errorf("map requires a filter argument")
		}
		for i, item := range items {
			if out.Items[i], err = r.dig(item, p[1], p[2]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	name, err := r.toText(a.pos[1])
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		each := args{pos: append([]Value{item}, a.pos[2:]...), names: a.names, kw: a.kw}
		if out.Items[i], err = r.filter(name.s, each); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pick is select and its kin: it keeps the items whose attribute (the item itself
// without attribute) passes the test that a names, or fails it if not is set.
func pick(r *run, a args, attribute, not bool) (Value, error) {
	items, err := r.iterate(a.pos[0])
	if err != nil {
		return nil, err
	}
	rest := a.pos[1:]
	path := Value(unset{})
	if attribute {
		if len(rest) == 0 {
			return nil, r.errorf("missing parameter for attribute name")
		}
		path, rest = rest[0], rest[1:]
	}
	subjects, err := r.lookups(items, path)
	if err != nil {
		return nil, err
	}
	out := &List{}
	for i, v := range subjects {
		ok := truthy(v)
		if len(rest) > 0 {
			name, err := r.toText(rest[0])
			if err != nil {
				return nil, err
			}
			if ok, err = r.test(name.s, args{pos: append([]Value{v}, rest[1:]...)}); err != nil {
				return nil, err
			}
		}
		if ok != not {
			out.Items = append(out.Items, items[i])
		}
	}
	return out, nil
}

func filterSelect(r *run, a args) (Value, error)     { return pick(r, a, false, false) }
func filterReject(r *run, a args) (Value, error)     { return pick(r, a, false, true) }
func filterSelectattr(r *run, a args) (Value, error) { return pick(r, a, true, false) }
func filterRejectattr(r *run, a args) (Value, error) { return pick(r, a, true, true) }

func filterSum(r *run, a args) (Value, error) {
	p, err := a.bind(r, "sum", "iterable", "attribute", "start")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	if items, err = r.lookups(items, p[1]); err != nil {
		return nil, err
	}
	sum := Value(int64(0))
	if given(p[2]) {
		sum = p[2]
	}
	for _, v := range items {
		if sum, err = r.binary("+", sum, v); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

func filterBatch(r *run, a args) (Value, error) {
	p, err := a.bind(r, "batch", "value", "linecount", "fill_with")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	n, err := r.intOr(p[1], 0)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, r.errorf("batch: linecount must be at least 1, not %d", n)
	}
	out := &List{}
	for chunk := range slices.Chunk(items, n) {
		chunk = slices.Clone(chunk)
		if missing := n - len(chunk); missing > 0 && given(p[2]) && p[2] != nil {
			if err := r.elements(missing); err != nil {
				return nil, err
			}
			chunk = append(chunk, slices.Repeat([]Value{p[2]}, missing)...)
		}
		out.Items = append(out.Items, &List{Items: chunk})
	}
	return out, nil
}

func filterSlice(r *run, a args) (Value, error) {
	p, err := a.bind(r, "slice", "value", "slices", "fill_with")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	n, err := r.intOr(p[1], 0)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, r.errorf("slice: slices must be at least 1, not %d", n)
	}
	if err := r.elements(n); err != nil {
		return nil, err
	}
	out, at := &List{}, 0
	for i := range n {
		size := len(items) / n
		if i < len(items)%n {
			size++
		}
		part := slices.Clone(items[at : at+size])
		at += size
		if i >= len(items)%n && len(items)%n > 0 && given(p[2]) && p[2] != nil {
			part = append(part, p[2])
		}
		out.Items = append(out.Items, &List{Items: part})
	}
	return out, nil
}
