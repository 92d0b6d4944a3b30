package grammar

import (
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// flat returns s without allOf, oneOf and references next to other keywords: one
// schema that says the same. depth bounds how far references lead.
func (c *schemaCompiler) flat(s *schema, depth int) (*schema, *infer.Error) {
	if err := c.step(); err != nil {
		return nil, infer.AsError(err)
	}
	if depth > maxNesting {
		return nil, c.bad(s.ptr, "'allOf' and '$ref' lead deeper than the limit of %d", maxNesting)
	}
	if s.ref == "" && len(s.allOf) == 0 && len(s.oneOf) == 0 {
		return s, nil
	}
	out := *s
	parts := s.allOf
	if s.ref != "" {
		target, err := c.target(s.ref)
		if err != nil {
			return nil, err
		}
		parts = append([]*schema{target}, parts...)
	}
	out.ref, out.allOf, out.oneOf = "", nil, nil
	if len(s.oneOf) > 0 {
		if err := c.checkDisjoint(s); err != nil {
			return nil, err
		}
		one := newSchema(s.ptr)
		one.anyOf = s.oneOf
		if len(out.anyOf) == 0 {
			out.anyOf = s.oneOf
		} else {
			parts = append(slices.Clone(parts), one)
		}
	}
	merged := &out
	for _, part := range parts {
		f, err := c.flat(part, depth+1)
		if err != nil {
			return nil, err
		}
		if merged, err = c.merge(merged, f); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// both returns a schema for what satisfies a and b, without looking into them.
func both(a, b *schema) *schema {
	switch {
	case a.free() || a == b:
		return b
	case b.free():
		return a
	}
	s := newSchema(a.ptr)
	s.allOf = []*schema{a, b}
	return s
}

// bothOrNone is both, where nil means that the keyword is not given.
func bothOrNone(a, b *schema) *schema {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return both(a, b)
}

// merge returns the flat schema for what satisfies the flat schemas a and b.
func (c *schemaCompiler) merge(a, b *schema) (*schema, *infer.Error) {
	if a.free() || b.free() {
		if a.free() {
			return b, nil
		}
		return a, nil
	}
	out := newSchema(a.ptr)
	out.false = a.false || b.false
	out.types = a.types
	switch {
	case a.types == 0:
		out.types = b.types
	case b.types != 0:
		out.types &= b.types
		out.false = out.false || out.types == 0
	}
	if out.enum = a.enum; b.enum != nil {
		c.restrict(out, b.enum)
	}
	out.length, out.itemCount, out.properties = a.length.and(b.length), a.itemCount.and(b.itemCount), a.properties.and(b.properties)
	out.min, out.minOut, out.max, out.maxOut = a.min, a.minOut, a.max, a.maxOut
	if b.min != nil {
		out.raise(b.min, b.minOut)
	}
	if b.max != nil {
		out.lower(b.max, b.maxOut)
	}
	c.mergeItems(out, a, b)
	if err := c.mergeText(out, a, b); err != nil {
		return nil, err
	}
	if err := c.mergeObject(out, a, b); err != nil {
		return nil, err
	}
	return out, c.mergeAnyOf(out, a, b)
}

// mergeText merges what strings look like; multipleOf can't be merged unless it
// is equal.
func (c *schemaCompiler) mergeText(out, a, b *schema) *infer.Error {
	c.spend(len(a.texts) * len(b.texts))
	out.texts = slices.Clone(a.texts)
	for _, t := range b.texts {
		if !slices.Contains(out.texts, t) {
			out.texts = append(out.texts, t)
		}
	}
	if a.multipleOf != nil && b.multipleOf != nil && a.multipleOf.Cmp(b.multipleOf) != 0 {
		return c.bad(b.ptr, "'allOf' with two different 'multipleOf' is not supported")
	}
	if out.multipleOf = a.multipleOf; out.multipleOf == nil {
		out.multipleOf = b.multipleOf
	}
	return nil
}

func (c *schemaCompiler) mergeItems(out, a, b *schema) {
	c.spend(20 * (len(a.prefix) + len(b.prefix)))
	at := func(s *schema, i int) *schema {
		if i < len(s.prefix) {
			return s.prefix[i]
		}
		return s.items
	}
	for i := range max(len(a.prefix), len(b.prefix)) {
		item := bothOrNone(at(a, i), at(b, i))
		if item == nil {
			item = newSchema(a.ptr)
		}
		out.prefix = append(out.prefix, item)
	}
	out.items = bothOrNone(a.items, b.items)
}

// mergeObject: a name that one side does not declare is additional there.
func (c *schemaCompiler) mergeObject(out, a, b *schema) *infer.Error {
	if len(a.patterns) > 0 && (b.props != nil || b.extra != nil || len(b.patterns) > 0) || len(b.patterns) > 0 && (a.props != nil || a.extra != nil) {
		return c.bad(b.ptr, "'allOf' with 'patternProperties' next to other properties is not supported")
	}
	c.spend(len(a.props)*len(b.props) + 10*(len(a.props)+len(b.props)) + len(a.required)*len(b.required))
	out.patterns = append(slices.Clone(a.patterns), b.patterns...)
	out.extra = bothOrNone(a.extra, b.extra)
	out.names = bothOrNone(a.names, b.names)
	if a.props != nil || b.props != nil {
		out.props = []property{}
	}
	for _, p := range a.props {
		other := b.prop(p.name)
		if other == nil {
			other = b.extra
		}
		out.props = append(out.props, property{p.name, bothOrNone(p.s, other)})
	}
	for _, p := range b.props {
		if a.prop(p.name) == nil {
			out.props = append(out.props, property{p.name, bothOrNone(p.s, a.extra)})
		}
	}
	if len(out.props) > maxProperties {
		return c.bad(a.ptr, "%d properties are more than the limit of %d", len(out.props), maxProperties)
	}
	out.required = slices.Clone(a.required)
	for _, r := range b.required {
		if !slices.Contains(out.required, r) {
			out.required = append(out.required, r)
		}
	}
	return nil
}

// maxBranches bounds the pairs of two anyOf that must both hold.
const maxBranches = 256

func (c *schemaCompiler) mergeAnyOf(out, a, b *schema) *infer.Error {
	if len(a.anyOf) == 0 || len(b.anyOf) == 0 {
		c.spend(len(a.anyOf) + len(b.anyOf))
		out.anyOf = append(slices.Clone(a.anyOf), b.anyOf...)
		return nil
	}
	if n := len(a.anyOf) * len(b.anyOf); n > maxBranches {
		return c.bad(b.ptr, "two 'anyOf' make %d pairs, more than the limit of %d", n, maxBranches)
	}
	for _, x := range a.anyOf {
		for _, y := range b.anyOf {
			c.spend(50)
			out.anyOf = append(out.anyOf, both(x, y))
		}
	}
	return nil
}

// checkDisjoint refuses a oneOf unless no value can satisfy two of its
// branches: then it says the same as anyOf.
func (c *schemaCompiler) checkDisjoint(s *schema) *infer.Error {
	if len(s.oneOf) > maxBranches {
		return c.bad(s.ptr, "%d branches of 'oneOf' are more than the limit of %d", len(s.oneOf), maxBranches)
	}
	for i, a := range s.oneOf {
		for j, b := range s.oneOf[:i] {
			ok, err := c.disjoint(a, b, 0)
			if err != nil {
				return err
			}
			if !ok {
				return c.bad(s.ptr, "keyword 'oneOf' is not supported unless its branches exclude each other; %d and %d may both hold: use 'anyOf'", j, i)
			}
		}
	}
	return nil
}

// maxProof bounds how deep disjoint looks into properties and branches.
const maxProof = 6

// disjoint reports whether it is plain that no value satisfies a and b.
func (c *schemaCompiler) disjoint(a, b *schema, depth int) (bool, *infer.Error) {
	c.spend(20)
	if depth > maxProof {
		return false, nil
	}
	a, err := c.flat(a, 0)
	if err != nil {
		return false, err
	}
	if b, err = c.flat(b, 0); err != nil {
		return false, err
	}
	if a.false || b.false || a.types != 0 && b.types != 0 && a.types&b.types == 0 {
		return true, nil
	}
	if a.enum != nil || b.enum != nil {
		if a.enum == nil {
			a, b = b, a
		}
		return c.noneOf(a.enum, b), nil
	}
	for _, pair := range [][2]*schema{{a, b}, {b, a}} {
		if len(pair[0].anyOf) == 0 {
			continue
		}
		all := true
		for _, branch := range pair[0].anyOf {
			ok, err := c.disjoint(branch, pair[1], depth+1)
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		if all {
			return true, nil
		}
	}
	if a.min != nil && b.max != nil && a.min.Cmp(b.max) > 0 || b.min != nil && a.max != nil && b.min.Cmp(a.max) > 0 {
		return a.types&^isNumber == 0 && a.types != 0 || b.types&^isNumber == 0 && b.types != 0, nil
	}
	return c.objectsDisjoint(a, b, depth)
}

// objectsDisjoint looks for a property that one of them requires and that can't
// be right for both.
func (c *schemaCompiler) objectsDisjoint(a, b *schema, depth int) (bool, *infer.Error) {
	if a.types != isObject || b.types != isObject {
		return false, nil
	}
	for _, name := range append(slices.Clone(a.required), b.required...) {
		c.spend(len(a.props) + len(b.props))
		x, y := declared(a, name), declared(b, name)
		if x == nil || y == nil {
			continue
		}
		ok, err := c.disjoint(x, y, depth+1)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// declared returns the schema of a property, also of an additional one.
func declared(s *schema, name string) *schema {
	if p := s.prop(name); p != nil {
		return p
	}
	if len(s.patterns) == 0 {
		return s.extra
	}
	return nil
}
