package jinja

import (
	"slices"
	"strings"
)

// This file has the filters that compare items. They ignore the case of strings
// unless told otherwise, as Jinja does.

// fold is what an item is compared by.
func (r *run) fold(v Value, caseSensitive bool) (Value, error) {
	if t, ok := v.(Text); ok && !caseSensitive {
		return Text{s: strings.ToLower(t.s)}, r.charge(len(t.s))
	}
	return v, nil
}

// sortBy sorts items by keys, which it sorts along.
func (r *run) sortBy(items, keys []Value, reverse bool) ([]Value, error) {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		if failed != nil {
			return 0
		}
		n, _, err := r.order("<", keys[i], keys[j], 0)
		if failed = err; reverse {
			return -n
		}
		return n
	})
	out := make([]Value, len(items))
	for i, at := range order {
		out[i] = items[at]
	}
	return out, failed
}

// keys returns what the items are compared by: their attribute, or several of
// them with commas between.
func (r *run) keys(items []Value, attribute Value, caseSensitive bool) ([]Value, error) {
	out := make([]Value, len(items))
	paths := []Value{attribute}
	if t, ok := attribute.(Text); ok && strings.Contains(t.s, ",") {
		if err := r.elements(strings.Count(t.s, ",")); err != nil {
			return nil, err
		}
		paths = nil
		for part := range strings.SplitSeq(t.s, ",") {
			paths = append(paths, Plain(part))
		}
	}
	for _, path := range paths {
		found, err := r.lookups(items, path)
		if err != nil {
			return nil, err
		}
		for i, v := range found {
			v, err := r.fold(v, caseSensitive)
			if err != nil {
				return nil, err
			}
			if len(paths) == 1 {
				out[i] = v
			} else if tuple, ok := out[i].(*List); ok {
				tuple.Items = append(tuple.Items, v)
			} else {
				out[i] = &List{Items: []Value{v}}
			}
		}
	}
	return out, nil
}

func filterSort(r *run, a args) (Value, error) {
	p, err := a.bind(r, "sort", "value", "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	keys, err := r.keys(items, p[3], r.boolOr(p[2], false))
	if err != nil {
		return nil, err
	}
	out, err := r.sortBy(items, keys, r.boolOr(p[1], false))
	return &List{Items: out}, err
}

func filterDictsort(r *run, a args) (Value, error) {
	p, err := a.bind(r, "dictsort", "value", "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := p[0].(*Dict)
	if !ok {
		return nil, r.errorf("'%s' object has no attribute 'items'", typeName(p[0]))
	}
	by, err := r.textOr(p[2], "key")
	if err != nil {
		return nil, err
	}
	subjects := d.keys
	if by.s == "value" {
		subjects = d.vals
	}
	keys, err := r.keys(subjects, unset{}, r.boolOr(p[1], false))
	if err != nil {
		return nil, err
	}
	entries, err := pairs(r, d)
	if err != nil {
		return nil, err
	}
	out, err := r.sortBy(entries.(*List).Items, keys, r.boolOr(p[3], false))
	return &List{Items: out}, err
}

func filterUnique(r *run, a args) (Value, error) {
	p, err := a.bind(r, "unique", "value", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	keys, err := r.keys(items, p[2], r.boolOr(p[1], false))
	if err != nil {
		return nil, err
	}
	seen, out := &Dict{}, &List{}
	for i, k := range keys {
		n := seen.Len()
		if !seen.set(k, nil) {
			return nil, r.errorf("unhashable type: '%s'", typeName(k))
		}
		if seen.Len() > n {
			out.Items = append(out.Items, items[i])
		}
	}
	return out, nil
}

// extreme is min and max.
func extreme(r *run, a args, op string) (Value, error) {
	p, err := a.bind(r, "min/max", "value", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	keys, err := r.keys(items, p[2], r.boolOr(p[1], false))
	if err != nil || len(keys) == 0 {
		return Undefined{name: "an item of an empty sequence"}, err
	}
	best := 0
	for i := range keys {
		better, err := r.compare(op, keys[i], keys[best])
		if err != nil {
			return nil, err
		}
		if better {
			best = i
		}
	}
	return items[best], nil
}

func filterMin(r *run, a args) (Value, error) { return extreme(r, a, "<") }
func filterMax(r *run, a args) (Value, error) { return extreme(r, a, ">") }

func filterGroupby(r *run, a args) (Value, error) {
	p, err := a.bind(r, "groupby", "value", "attribute", "default", "case_sensitive")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(p[0])
	if err != nil {
		return nil, err
	}
	exact, err := r.lookups(items, p[1])
	if err != nil {
		return nil, err
	}
	keys, folded := make([]Value, len(exact)), make([]Value, len(exact))
	for i, v := range exact {
		if _, missing := v.(Undefined); missing && given(p[2]) {
			v = p[2]
		}
		if folded[i], err = r.fold(v, r.boolOr(p[3], false)); err != nil {
			return nil, err
		}
		keys[i] = &List{Items: []Value{folded[i], v, items[i]}}
	}
	sorted, err := r.sortBy(keys, folded, false)
	if err != nil {
		return nil, err
	}
	out := &List{}
	var last, group *List
	for _, k := range sorted {
		k := k.(*List)
		if last != nil {
			same, err := r.equal(last.Items[0], k.Items[0], 0)
			if err != nil {
				return nil, err
			}
			if same {
				group.Items = append(group.Items, k.Items[2])
				continue
			}
		}
		last, group = k, &List{Items: []Value{k.Items[2]}}
		out.Items = append(out.Items, &List{Items: []Value{k.Items[1], group}, tuple: true})
	}
	return out, nil
}
