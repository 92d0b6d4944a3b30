package grammar

import (
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// CompileJSONSchema allows the JSON texts that satisfy a schema of draft
// 2020-12, also as older drafts, OpenAPI and OpenAI's strict mode write it. A
// keyword that is not supported, a schema that nothing satisfies, and one that
// is too large are errors that name the place.
func CompileJSONSchema(source []byte, o Options) (*Grammar, error) {
	return compile(o, func(b *builder) (*Grammar, error) {
		e, bad := b.schemaExpr(source)
		if bad != nil {
			return nil, bad
		}
		return b.compileRule(e)
	})
}

// schemaExpr returns the expression of a schema that stands alone.
func (b *builder) schemaExpr(source []byte) (*expr, *infer.Error) {
	if err := b.opts.checkSize(len(source)); err != nil {
		return nil, infer.AsError(err)
	}
	b.spend(5 * len(source))
	root, bad := parseJSON(source, b.opts)
	if bad != nil {
		return nil, bad
	}
	c := &schemaCompiler{
		schemaParser: schemaParser{builder: b, root: root},
		targets:      map[string]*schema{}, rules: map[string]int{}, known: map[string]*expr{}, matchers: map[string]*matcher{},
	}
	s, bad := c.target("#")
	if bad != nil {
		return nil, bad
	}
	e, bad := c.gen(s)
	if bad == nil && e.kind == kindNever {
		bad = c.why
		if bad == nil {
			bad = c.bad("", "no value can satisfy it")
		}
	}
	return e, bad
}

// schemaCompiler turns schemas into expressions.
type schemaCompiler struct {
	schemaParser
	targets  map[string]*schema  // by pointer, what references lead to
	rules    map[string]int      // by pointer
	known    map[string]*expr    // characters, by what they are
	matchers map[string]*matcher // by pattern
	depth    int
	why      *infer.Error // the first contradiction that was met
}

// target returns the schema that a reference leads to.
func (c *schemaCompiler) target(pointer string) (*schema, *infer.Error) {
	if s, ok := c.targets[pointer]; ok {
		return s, nil
	}
	s, err := c.schema(c.at(pointer), pointer[1:])
	if err != nil {
		return nil, err
	}
	c.targets[pointer] = s
	return s, nil
}

// rule returns the rule of what a reference leads to.
func (c *schemaCompiler) rule(pointer string) (*expr, *infer.Error) {
	if r, ok := c.rules[pointer]; ok {
		return ref(r), nil
	}
	s, err := c.target(pointer)
	if err != nil {
		return nil, err
	}
	r := c.newRule()
	c.rules[pointer], c.names[r] = r, pointer
	depth := c.depth
	c.depth = 0 // a reference does not nest in what holds it
	e, err := c.gen(s)
	c.depth = depth
	if err != nil {
		return nil, err
	}
	c.exprs[r] = e
	return ref(r), nil
}

// never is for a schema that contradicts itself.
func (c *schemaCompiler) never(s *schema, format string, args ...any) *expr {
	if c.why == nil {
		c.why = c.bad(s.ptr, "no value can satisfy it: "+format, args...)
	}
	return never
}

// gen returns the expression of s.
func (c *schemaCompiler) gen(s *schema) (*expr, *infer.Error) {
	if s.onlyRef() {
		return c.rule(s.ref)
	}
	if c.depth++; c.depth > maxNesting {
		return nil, c.bad(s.ptr, "it nests deeper than the limit of %d", maxNesting)
	}
	defer func() { c.depth-- }()
	f, err := c.flat(s, 0)
	if err != nil {
		return nil, err
	}
	switch {
	case f.onlyRef():
		return c.rule(f.ref)
	case f.false:
		return c.never(s, "it is false, or its parts have no type in common"), nil
	case f.enum != nil:
		return c.genEnum(f)
	case len(f.anyOf) > 0:
		return c.genAnyOf(f)
	case f.free():
		return ref(ruleAny + anyDepth), nil
	}
	return c.genTypes(f)
}

func (c *schemaCompiler) genEnum(s *schema) (*expr, *infer.Error) {
	others := *s
	others.enum = nil
	var alts []*expr
	var texts []string
	for _, v := range s.enum {
		if err := c.step(); err != nil {
			return nil, infer.AsError(err)
		}
		w, err := c.admits(&others, v)
		switch {
		case err != nil:
			return nil, err
		case w == unknown:
			return nil, c.bad(s.ptr, "'enum' or 'const' together with other keywords than 'type' and bounds is not supported")
		case w == no:
			continue
		}
		e := c.valueExpr(v)
		if e.kind == kindLit {
			texts = append(texts, e.lit)
		} else {
			alts = append(alts, e)
		}
	}
	if len(texts) > 0 {
		alts = append(alts, literals(texts))
	}
	if len(alts) == 0 {
		return c.never(s, "none of its values is right for the other keywords"), nil
	}
	return alt(alts...), nil
}

func (c *schemaCompiler) genAnyOf(s *schema) (*expr, *infer.Error) {
	base := *s
	base.anyOf = nil
	var alts []*expr
	for _, branch := range s.anyOf {
		e, err := c.gen(both(&base, branch))
		if err != nil {
			return nil, err
		}
		alts = append(alts, e)
	}
	return alt(alts...), nil
}

// genTypes returns the alternatives of a schema without enum and anyOf.
func (c *schemaCompiler) genTypes(s *schema) (*expr, *infer.Error) {
	types := s.types
	if types == 0 {
		types = s.implied()
	}
	var alts []*expr
	for _, t := range []struct {
		is  typeSet
		gen func(*schema) (*expr, *infer.Error)
	}{
		{isObject, c.genObject}, {isArray, c.genArray}, {isString, c.genString},
		{isFraction, func(s *schema) (*expr, *infer.Error) { return c.number(s, "number", c.genNumber) }},
		{isInteger, func(s *schema) (*expr, *infer.Error) { return c.number(s, "integer", c.genInteger) }},
		{isBool, func(*schema) (*expr, *infer.Error) { return alt(lit("true"), lit("false")), nil }},
		{isNull, func(*schema) (*expr, *infer.Error) { return lit("null"), nil }},
	} {
		if types&t.is == 0 || t.is == isInteger && types&isFraction != 0 {
			continue
		}
		e, err := t.gen(s)
		if err != nil {
			return nil, err
		}
		alts = append(alts, e)
	}
	return alt(alts...), nil
}

func (c *schemaCompiler) genArray(s *schema) (*expr, *infer.Error) {
	if n := s.itemCount; n.max >= 0 && n.min > n.max {
		return nil, c.bad(s.ptr, "minItems %d is more than maxItems %d", n.min, n.max)
	}
	if len(s.prefix) == 0 && s.items.free() && s.itemCount == anyCount {
		return ref(ruleArray), nil
	}
	items := make([]*expr, 0, len(s.prefix))
	for _, p := range s.prefix {
		e, err := c.gen(p)
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	rest := never
	if n := len(s.prefix); n == 0 || s.items != nil || s.itemCount.min > n {
		item := s.items
		if item == nil {
			item = newSchema(s.ptr)
		}
		var err *infer.Error
		if rest, err = c.gen(item); err != nil {
			return nil, err
		}
		rest = c.once(rest)
	}
	body := listOf(items, rest, s.itemCount)
	if body.kind == kindNever {
		return c.never(s, "its items can't be that many"), nil
	}
	return cat(lit("["), body, lit("]")), nil
}

// once makes e a rule if it is large: it is about to be used more than once, and
// copies of copies would grow with every level.
func (c *schemaCompiler) once(e *expr) *expr {
	if e.kind == kindNever || e.kind == kindRef || weight(e) < 4 {
		return e
	}
	r := c.newRule()
	c.exprs[r] = e
	return ref(r)
}

// listOf matches items, then any number of rest, with commas between; count
// says how many in all.
func listOf(items []*expr, rest *expr, count span) *expr {
	n := len(items)
	if n == 0 {
		if count.max == 0 {
			return empty
		}
		some := cat(rest, repeat(cat(comma, rest), max(count.min-1, 0), max(count.max-1, -1)))
		if count.min == 0 {
			return alt(some, empty)
		}
		return some
	}
	if count.max >= 0 && count.max < n {
		n = count.max
	}
	out := empty
	if n == len(items) {
		out = repeat(cat(comma, rest), max(count.min-n, 0), max(count.max-n, -1))
	}
	for i := n - 1; i >= 0; i-- {
		one := items[i]
		if i > 0 {
			one = cat(comma, one)
		}
		if out = join(one, out); i >= count.min {
			out = alt(out, empty)
		}
	}
	return out
}

// join is cat, without copying the parts of b: what is shared stays shared.
func join(a, b *expr) *expr {
	switch {
	case a.kind == kindNever || b.kind == kindNever:
		return never
	case a.kind == kindEmpty:
		return b
	case b.kind == kindEmpty:
		return a
	}
	return &expr{kind: kindCat, subs: []*expr{a, b}}
}

// names of properties, for messages and exclusion.
func namesOf(props []property) []string {
	out := make([]string, len(props))
	for i, p := range props {
		out[i] = p.name
	}
	slices.Sort(out)
	return out
}
