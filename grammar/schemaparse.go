package grammar

import (
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// annotations say nothing about what is valid, or only to others.
var annotations = set("$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", "$vocabulary", "$defs", "definitions", "title", "description",
	"default", "examples", "example", "readOnly", "writeOnly", "deprecated", "contentEncoding", "contentMediaType", "contentSchema",
	"discriminator", "xml", "externalDocs")

// refused are assertions of JSON Schema, some of old drafts, that are not
// implemented. What no draft knows is ignored, as JSON Schema wants it.
var refused = set("if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains", "minContains", "maxContains",
	"unevaluatedItems", "unevaluatedProperties", "additionalItems", "$dynamicRef", "$recursiveRef", "extends", "disallow",
	"divisibleBy")

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// keyword reads the value of one keyword into s.
type keyword func(p *schemaParser, s *schema, v *value, ptr string) *infer.Error

var keywords map[string]keyword

func init() { // a table of functions that use the table
	keywords = map[string]keyword{
		"type": (*schemaParser).types, "enum": (*schemaParser).enum, "const": (*schemaParser).constant,
		"$ref": (*schemaParser).reference, "properties": (*schemaParser).properties, "patternProperties": (*schemaParser).patternProperties,
		"required": (*schemaParser).required, "uniqueItems": (*schemaParser).uniqueItems, "pattern": (*schemaParser).pattern, "format": (*schemaParser).format,
		"not": (*schemaParser).not, "propertyNames": subschema(func(s, sub *schema) { s.names = sub }),
		"additionalProperties": subschema(func(s, sub *schema) { s.extra = sub }),
		"items":                subschema(func(s, sub *schema) { s.items = sub }),
		"allOf":                subschemas(func(s *schema, subs []*schema) { s.allOf = append(s.allOf, subs...) }),
		"anyOf":                subschemas(func(s *schema, subs []*schema) { s.anyOf = subs }),
		"oneOf":                subschemas(func(s *schema, subs []*schema) { s.oneOf = subs }),
		"prefixItems":          subschemas(func(s *schema, subs []*schema) { s.prefix = subs }),
		"minLength":            atLeast(func(s *schema) *span { return &s.length }),
		"maxLength":            atMost(func(s *schema) *span { return &s.length }),
		"minItems":             atLeast(func(s *schema) *span { return &s.itemCount }),
		"maxItems":             atMost(func(s *schema) *span { return &s.itemCount }),
		"minProperties":        atLeast(func(s *schema) *span { return &s.properties }),
		"maxProperties":        atMost(func(s *schema) *span { return &s.properties }),
		"minimum":              number(func(s *schema, x *big.Rat) { s.raise(x, false) }),
		"exclusiveMinimum":     number(func(s *schema, x *big.Rat) { s.raise(x, true) }),
		"maximum":              number(func(s *schema, x *big.Rat) { s.lower(x, false) }),
		"exclusiveMaximum":     number(func(s *schema, x *big.Rat) { s.lower(x, true) }),
		"multipleOf":           number(func(s *schema, x *big.Rat) { s.multipleOf = x }),
	}
}

// schemaParser turns JSON into schemas. It checks each keyword's own form.
type schemaParser struct {
	*builder
	root *value
}

func (p *schemaParser) bad(ptr, format string, args ...any) *infer.Error {
	return p.opts.invalid(ptr, format, args...)
}

// escapePointer writes a member name for a JSON pointer.
func escapePointer(s string) string {
	return "/" + pointerEscapes.Replace(short(s))
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// schema parses v, which stands at ptr.
func (p *schemaParser) schema(v *value, ptr string) (*schema, *infer.Error) {
	if err := p.step(); err != nil {
		return nil, infer.AsError(err)
	}
	s := newSchema(ptr)
	switch v.kind {
	case boolValue:
		s.false = v.text == "false"
		return s, nil
	case objectValue:
	default:
		return nil, p.bad(ptr, "a schema is an object, true or false")
	}
	nullable := false
	for i, k := range v.keys {
		read, ok := keywords[k]
		switch {
		case ok:
			if err := read(p, s, v.items[i], ptr+escapePointer(k)); err != nil {
				return nil, err
			}
		case k == "nullable":
			nullable = v.items[i].kind == boolValue && v.items[i].text == "true"
		case refused[k], k == "$id" && ptr != "": // a schema of its own, that references inside it mean
			return nil, p.bad(ptr, "keyword '%s' is not supported", k)
		}
	}
	if nullable { // OpenAPI's way to add null
		null := newSchema(ptr)
		null.types = isNull
		both := newSchema(ptr)
		both.anyOf = []*schema{s, null}
		return both, nil
	}
	return s, nil
}

func subschema(store func(s, sub *schema)) keyword {
	return func(p *schemaParser, s *schema, v *value, ptr string) *infer.Error {
		if v.kind == arrayValue && strings.HasSuffix(ptr, "/items") {
			return p.bad(ptr, "keyword 'items' with a list is not supported: use 'prefixItems'")
		}
		sub, err := p.schema(v, ptr)
		if err == nil {
			store(s, sub)
		}
		return err
	}
}

func subschemas(store func(s *schema, subs []*schema)) keyword {
	return func(p *schemaParser, s *schema, v *value, ptr string) *infer.Error {
		if v.kind != arrayValue || len(v.items) == 0 {
			return p.bad(ptr, "must be a list of at least one schema")
		}
		subs := make([]*schema, len(v.items))
		for i, item := range v.items {
			var err *infer.Error
			if subs[i], err = p.schema(item, ptr+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
		store(s, subs)
		return nil
	}
}

// count reads a number of things, cut to maxRepeat + 1.
func (p *schemaParser) count(v *value, ptr string) (int, *infer.Error) {
	if v.kind == numberValue {
		if x, ok := v.rat(); ok && x.IsInt() && x.Sign() >= 0 {
			if x.Num().IsInt64() && x.Num().Int64() <= maxRepeat {
				return int(x.Num().Int64()), nil
			}
			return maxRepeat + 1, nil
		}
	}
	return 0, p.bad(ptr, "must be an integer of at least 0")
}

func atLeast(field func(*schema) *span) keyword {
	return func(p *schemaParser, s *schema, v *value, ptr string) *infer.Error {
		n, err := p.count(v, ptr)
		if err == nil && n > maxRepeat {
			err = p.bad(ptr, "%s is more than the limit of %d", short(v.text), maxRepeat)
		}
		field(s).min = n
		return err
	}
}

// atMost cuts a greater maximum to maxRepeat: then there are fewer texts, none
// that is invalid.
func atMost(field func(*schema) *span) keyword {
	return func(p *schemaParser, s *schema, v *value, ptr string) *infer.Error {
		n, err := p.count(v, ptr)
		field(s).max = min(n, maxRepeat)
		return err
	}
}

func number(store func(s *schema, x *big.Rat)) keyword {
	return func(p *schemaParser, s *schema, v *value, ptr string) *infer.Error {
		if v.kind != numberValue {
			return p.bad(ptr, "must be a number")
		}
		x, ok := v.rat()
		if !ok {
			return p.bad(ptr, "%q is beyond the limit of %d digits or exponent", short(v.text), maxExponent)
		}
		store(s, x)
		return nil
	}
}

// raise makes x the lower bound if it is the stricter one.
func (s *schema) raise(x *big.Rat, out bool) {
	if s.min == nil || x.Cmp(s.min) > 0 || x.Cmp(s.min) == 0 && out {
		s.min, s.minOut = x, out
	}
}

// lower makes x the upper bound if it is the stricter one.
func (s *schema) lower(x *big.Rat, out bool) {
	if s.max == nil || x.Cmp(s.max) < 0 || x.Cmp(s.max) == 0 && out {
		s.max, s.maxOut = x, out
	}
}

func (p *schemaParser) types(s *schema, v *value, ptr string) *infer.Error {
	names := []*value{v}
	if v.kind == arrayValue {
		names = v.items
	}
	for _, n := range names {
		t, ok := typeNames[n.text]
		if n.kind != stringValue || !ok {
			return p.bad(ptr, "type %q is not known", short(n.text))
		}
		s.types |= t
	}
	if s.types == 0 {
		return p.bad(ptr, "must name at least one type")
	}
	return nil
}

func (p *schemaParser) enum(s *schema, v *value, ptr string) *infer.Error {
	switch {
	case v.kind != arrayValue:
		return p.bad(ptr, "must be a list")
	case len(v.items) == 0:
		return p.bad(ptr, "an empty list allows no value")
	case len(v.items) > maxChoices:
		return p.bad(ptr, "%d values are more than the limit of %d", len(v.items), maxChoices)
	}
	p.restrict(s, v.items)
	return nil
}

func (p *schemaParser) constant(s *schema, v *value, _ string) *infer.Error {
	p.restrict(s, []*value{v})
	return nil
}

// restrict intersects the enum of s with values.
func (b *builder) restrict(s *schema, values []*value) {
	if s.enum == nil {
		s.enum = values
		return
	}
	known := make(map[string]bool, len(values))
	for _, v := range values {
		known[b.keyOf(v)] = true
	}
	both := []*value{}
	for _, v := range s.enum {
		if known[b.keyOf(v)] {
			both = append(both, v)
		}
	}
	s.enum = both
}

func (p *schemaParser) reference(s *schema, v *value, ptr string) *infer.Error {
	if v.kind != stringValue {
		return p.bad(ptr, "must be a string")
	}
	if v.text != "#" && !strings.HasPrefix(v.text, "#/") {
		return p.bad(ptr, "keyword '$ref' to %q is not supported: only pointers into the schema are", short(v.text))
	}
	if p.at(v.text) == nil {
		return p.bad(ptr, "there is nothing at %q", short(v.text))
	}
	s.ref = v.text
	return nil
}

// at returns the value that a pointer leads to, nil if there is none.
func (p *schemaParser) at(pointer string) *value {
	v := p.root
	p.spend(5 * len(pointer))
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "#"), "/") {
		if part == "" && v == p.root {
			continue
		}
		part = unescapePointer(part)
		if v.kind == arrayValue {
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v.items) {
				return nil
			}
			v = v.items[i]
			continue
		}
		p.spend(len(v.keys) / 2)
		if v = v.member(part); v == nil {
			return nil
		}
	}
	return v
}

// unescapePointer reads a part of a pointer in a URI fragment.
func unescapePointer(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		s = plain
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
}

func (p *schemaParser) properties(s *schema, v *value, ptr string) *infer.Error {
	list, err := p.named(v, ptr)
	s.props = list
	return err
}

func (p *schemaParser) patternProperties(s *schema, v *value, ptr string) *infer.Error {
	list, err := p.named(v, ptr)
	s.patterns = list
	return err
}

func (p *schemaParser) named(v *value, ptr string) ([]property, *infer.Error) {
	if v.kind != objectValue {
		return nil, p.bad(ptr, "must be an object")
	}
	if len(v.keys) > maxProperties {
		return nil, p.bad(ptr, "%d members are more than the limit of %d", len(v.keys), maxProperties)
	}
	out := make([]property, 0, len(v.keys))
	for i, k := range v.keys {
		sub, err := p.schema(v.items[i], ptr+escapePointer(k))
		if err != nil {
			return nil, err
		}
		out = append(out, property{k, sub})
	}
	return out, nil
}

func (p *schemaParser) required(s *schema, v *value, ptr string) *infer.Error {
	if v.kind != arrayValue || len(v.items) > maxProperties {
		return p.bad(ptr, "must be a list of at most %d names", maxProperties)
	}
	for _, n := range v.items {
		if n.kind != stringValue {
			return p.bad(ptr, "must be a list of names")
		}
		p.spend(1 + len(s.required)/2)
		if !slices.Contains(s.required, n.text) {
			s.required = append(s.required, n.text)
		}
	}
	return nil
}

// not is supported for what allows everything: it is another way to write false.
func (p *schemaParser) not(s *schema, v *value, ptr string) *infer.Error {
	sub, err := p.schema(v, ptr)
	if err == nil && !sub.free() {
		err = p.bad(strings.TrimSuffix(ptr, "/not"), "keyword 'not' is not supported")
	}
	s.false = true
	return err
}

func (p *schemaParser) uniqueItems(_ *schema, v *value, ptr string) *infer.Error {
	if v.kind != boolValue {
		return p.bad(ptr, "must be true or false")
	}
	if v.text == "true" {
		return p.bad(strings.TrimSuffix(ptr, "/uniqueItems"), "keyword 'uniqueItems' is not supported")
	}
	return nil
}

func (p *schemaParser) pattern(s *schema, v *value, ptr string) *infer.Error {
	if v.kind != stringValue {
		return p.bad(ptr, "must be a string")
	}
	if v.text != "" {
		s.texts = append(s.texts, text{v.text, false})
	}
	return nil
}

func (p *schemaParser) format(s *schema, v *value, ptr string) *infer.Error {
	if v.kind != stringValue {
		return p.bad(ptr, "must be a string")
	}
	s.texts = append(s.texts, text{v.text, true})
	return nil
}
