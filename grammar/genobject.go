package grammar

import (
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// member is a property that may appear: its text with name and value.
type member struct {
	text     *expr
	required bool
}

// genObject matches the declared properties in their order, then others.
func (c *schemaCompiler) genObject(s *schema) (*expr, *infer.Error) {
	if s.props == nil && len(s.patterns) == 0 && len(s.required) == 0 && s.extra.free() && s.properties == anyCount && s.names == nil {
		return ref(ruleObject), nil
	}
	s, err := c.applyNames(s)
	if err != nil {
		return nil, err
	}
	props, err := c.allProperties(s)
	if err != nil {
		return nil, err
	}
	var members []member
	for _, p := range props {
		c.spend(50 + 4*len(p.name) + len(s.required)/2)
		value, err := c.gen(p.s)
		if err != nil {
			return nil, err
		}
		m := member{cat(lit(`"`), jsonText(p.name), lit(`"`), colon), slices.Contains(s.required, p.name)}
		m.text = join(m.text, value)
		if m.text.kind != kindNever {
			members = append(members, m)
		} else if m.required {
			return c.never(s, "property %q is required and nothing can be its value", short(p.name)), nil
		}
	}
	others, err := c.genOthers(s, props)
	if err != nil {
		return nil, err
	}
	count, err := c.othersCount(s, members, others)
	if err != nil {
		return nil, err
	}
	return cat(lit("{"), membersOf(members, others, count), lit("}")), nil
}

// applyNames works propertyNames into the other keywords. A list of names makes
// each of them a property that may appear; declared names that it excludes may
// not.
func (c *schemaCompiler) applyNames(s *schema) (*schema, *infer.Error) {
	if s.names == nil {
		return s, nil
	}
	names, err := c.flat(s.names, 0)
	if err != nil {
		return nil, err
	}
	out := *s
	out.names = nil
	if names.types&isString != 0 || names.types == 0 {
		rest := *names
		if rest.types = 0; rest.free() { // all names are strings
			return &out, nil
		}
	}
	if len(s.patterns) > 0 || len(names.anyOf) > 0 {
		return nil, c.bad(s.ptr, "keyword 'propertyNames' with 'patternProperties' or 'anyOf' is not supported")
	}
	out.props = slices.Clone(s.props)
	for i, p := range out.props {
		if out.props[i].s, err = c.named(s, names, p); err != nil {
			return nil, err
		}
	}
	for _, name := range s.required {
		c.spend(1 + len(s.props)/2)
		if s.prop(name) != nil {
			continue
		}
		p := property{name, newSchema(s.ptr)}
		if p.s, err = c.named(s, names, p); err != nil {
			return nil, err
		}
		if p.s.false {
			out.props = append(out.props, p) // no object has it: none is allowed
		}
	}
	if names.enum == nil {
		out.names = names
		return &out, nil
	}
	extra := s.extra
	if extra == nil {
		extra = newSchema(s.ptr)
		extra.false = s.props != nil
	}
	for _, v := range names.enum {
		c.spend(1 + len(s.props))
		if v.kind == stringValue && s.prop(v.text) == nil {
			out.props = append(out.props, property{v.text, extra})
		}
	}
	out.extra = newSchema(s.ptr)
	out.extra.false = true
	return &out, nil
}

// named returns what names, the propertyNames of s, leave of a property.
func (c *schemaCompiler) named(s, names *schema, p property) (*schema, *infer.Error) {
	w, err := c.admits(names, &value{kind: stringValue, text: p.name})
	switch {
	case err != nil:
		return nil, err
	case w == unknown:
		return nil, c.bad(s.ptr, "keyword 'propertyNames' with a format next to 'properties' is not supported")
	case w == no:
		never := newSchema(p.s.ptr)
		never.false = true
		return never, nil
	}
	return p.s, nil
}

// allProperties returns the declared properties, and those that are only
// required, each with all that the schema says about it.
func (c *schemaCompiler) allProperties(s *schema) ([]property, *infer.Error) {
	props := slices.Clone(s.props)
	for _, name := range s.required {
		c.spend(1 + len(s.props)/2)
		if s.prop(name) != nil {
			continue
		}
		p := property{name, s.extra}
		if p.s == nil {
			p.s = newSchema(s.ptr)
		}
		matched, err := c.matches(s, name)
		if err != nil {
			return nil, err
		}
		if matched {
			p.s = newSchema(s.ptr) // the pattern's schema comes below
		} else if p.s.false {
			return nil, c.bad(s.ptr, "property %q is required, but not in 'properties' and 'additionalProperties' is false", short(name))
		}
		props = append(props, p)
	}
	for i, p := range props {
		matched, err := c.matches(s, p.name)
		if err != nil {
			return nil, err
		}
		if matched {
			props[i].s = both(p.s, s.patterns[0].s)
		}
	}
	return props, nil
}

// matches reports whether name matches the pattern of patternProperties.
func (c *schemaCompiler) matches(s *schema, name string) (bool, *infer.Error) {
	if len(s.patterns) == 0 {
		return false, nil
	}
	if len(s.patterns) > 1 {
		return false, c.bad(s.ptr, "keyword 'patternProperties' with more than one pattern is not supported")
	}
	r := c.regexAt(s.ptr + "/patternProperties")
	return r.matches(s.patterns[0].name, name)
}

// genOthers returns the text of one more property, never if none is allowed.
func (c *schemaCompiler) genOthers(s *schema, props []property) (*expr, *infer.Error) {
	if len(s.patterns) > 0 {
		return c.genPatternProperty(s, props)
	}
	extra := s.extra
	if extra == nil && s.props != nil {
		return never, nil
	}
	if extra == nil {
		extra = newSchema(s.ptr)
	}
	if extra.false {
		return never, nil
	}
	value, err := c.gen(extra)
	if err != nil || value.kind == kindNever {
		return never, err
	}
	value = c.once(value)
	name := ref(ruleString)
	switch {
	case s.names != nil && len(props) > 0:
		return nil, c.bad(s.ptr, "keyword 'propertyNames' next to declared and additional properties is not supported, unless it lists the names")
	case s.names != nil:
		text := *s.names
		text.types = isString
		if name, err = c.gen(&text); err != nil {
			return nil, err
		}
	case len(props) > 0:
		inside, err := c.otherNames(namesOf(props))
		if err != nil {
			return nil, err
		}
		name = cat(lit(`"`), inside, lit(`"`))
	}
	return join(name, join(colon, value)), nil
}

// genPatternProperty is genOthers with a pattern for the names. There is no
// complement of a pattern here, nor a pattern without some names: names that
// the pattern doesn't match are left out, and if it matches a declared property
// there is no other, so that none appears twice.
func (c *schemaCompiler) genPatternProperty(s *schema, props []property) (*expr, *infer.Error) {
	if _, err := c.matches(s, ""); err != nil {
		return nil, err
	}
	for _, p := range props {
		if matched, err := c.matches(s, p.name); err != nil || matched {
			return never, err
		}
	}
	r := c.regexAt(s.ptr + "/patternProperties")
	name, err := r.compile(s.patterns[0].name)
	if err != nil {
		return nil, err
	}
	value, err := c.gen(s.patterns[0].s)
	if err != nil {
		return nil, err
	}
	return join(cat(lit(`"`), name, lit(`"`), colon), c.once(value)), nil
}

// otherNames matches names that are not in the sorted list, as they are written
// between quotes. Up to where a name leaves the list, its characters have their
// plain spelling, so that no escape hides a name of the list.
func (c *schemaCompiler) otherNames(sorted []string) (*expr, *infer.Error) {
	var list [][]rune
	for _, n := range sorted {
		c.spend(len(n))
		list = append(list, []rune(n))
	}
	return c.otherThan(list, star(freeChar), c.regexAt(""))
}

// otherThan is otherNames for what is left of names that begin alike, all of which
// have the same beginning behind them. chars writes characters.
func (c *schemaCompiler) otherThan(list [][]rune, rest *expr, chars *regex) (*expr, *infer.Error) {
	if err := c.step(); err != nil {
		return nil, infer.AsError(err)
	}
	var alts []*expr
	if len(list) > 0 && len(list[0]) == 0 {
		list = list[1:]
	} else {
		alts = append(alts, empty)
	}
	c.spend(100 * (1 + len(list)))
	var heads runes
	for len(list) > 0 {
		head, n := list[0][0], 0
		var tails [][]rune
		for n < len(list) && list[n][0] == head {
			tails = append(tails, list[n][1:])
			n++
		}
		list = list[n:]
		heads = append(heads, head, head)
		tail, err := c.otherThan(tails, rest, chars)
		if err != nil {
			return nil, err
		}
		alts = append(alts, join(chars.char(runes{head, head}), tail))
	}
	alts = append(alts, join(chars.char(anyRune.minus(heads)), rest))
	return alt(alts...), nil
}

// othersCount returns how many properties besides the declared ones there may
// be, from minProperties and maxProperties.
func (c *schemaCompiler) othersCount(s *schema, members []member, others *expr) (span, *infer.Error) {
	n := s.properties
	if n.max >= 0 && n.min > n.max {
		return n, c.bad(s.ptr, "minProperties %d is more than maxProperties %d", n.min, n.max)
	}
	required := 0
	for _, m := range members {
		if m.required {
			required++
		}
	}
	if n.max >= 0 && required > n.max {
		return n, c.bad(s.ptr, "%d properties are required, more than maxProperties %d", required, n.max)
	}
	if others.kind == kindNever && len(members) < n.min {
		return n, c.bad(s.ptr, "there are %d properties, fewer than minProperties %d", len(members), n.min)
	}
	most := n.max < 0 || others.kind == kindNever && len(members) <= n.max
	if n.min <= required && most {
		return anyCount, nil
	}
	// Two additional properties may have the same name, so only one is sure to count.
	if len(members) > required || n.min > required+1 {
		return n, c.bad(s.ptr, "keyword 'minProperties' or 'maxProperties' is not supported with optional properties, nor a minimum of more than one additional property")
	}
	out := span{max(n.min-required, 0), n.max}
	if n.max >= 0 {
		out.max = n.max - required
	}
	return out, nil
}

// membersOf matches what stands between the braces: members in their order, the
// optional ones or not, then others, with commas between.
func membersOf(members []member, others *expr, count span) *expr {
	// after: something stands there already. first: nothing does.
	after := repeat(join(comma, others), count.min, count.max)
	first := listOf(nil, others, count)
	for _, m := range slices.Backward(members) {
		alone := join(m.text, after)
		if m.required {
			first = alone
			after = join(join(comma, m.text), after)
		} else {
			first = &expr{kind: kindAlt, subs: []*expr{alone, first}}
			after = join(maybe(join(comma, m.text)), after)
		}
	}
	return first
}
