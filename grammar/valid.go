package grammar

import (
	"slices"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// verdict is what admits found out.
type verdict uint8

const (
	no verdict = iota
	yes
	unknown // it takes more than admits looks at
)

// admits judges a value of an enum by the other keywords next to it.
func (c *schemaCompiler) admits(s *schema, v *value) (verdict, *infer.Error) {
	f, err := c.flat(s, 0)
	if err != nil {
		return no, err
	}
	if f.false || f.types != 0 && f.types&c.typeOf(v) == 0 || f.enum != nil && !c.isAmong(f.enum, v) {
		return no, nil
	}
	out := yes
	switch v.kind {
	case stringValue:
		c.spend(len(v.text) / 4)
		if !f.length.has(utf8.RuneCountInString(v.text)) {
			return no, nil
		}
		for _, t := range f.texts {
			if t.format {
				out = unknown
			} else if ok, err := c.regexAt(f.ptr+"/pattern").matches(t.value, v.text); err != nil || !ok {
				return no, err
			}
		}
	case numberValue:
		c.spend(v.ratWork())
		if out = admitsNumber(f, v); out == no {
			return no, nil
		}
	case arrayValue:
		if f.implied()&isArray != 0 {
			out = unknown
		}
	case objectValue:
		if f.implied()&isObject != 0 {
			out = unknown
		}
	}
	if len(f.anyOf) == 0 {
		return out, nil
	}
	best := no
	for _, branch := range f.anyOf {
		w, err := c.admits(branch, v)
		if err != nil {
			return no, err
		}
		if w == yes || w == unknown && best == no {
			best = w
		}
	}
	if best == yes {
		return out, nil
	}
	return best, nil
}

func admitsNumber(s *schema, v *value) verdict {
	x, ok := v.rat()
	if !ok {
		return unknown
	}
	if s.min != nil && (x.Cmp(s.min) < 0 || s.minOut && x.Cmp(s.min) == 0) ||
		s.max != nil && (x.Cmp(s.max) > 0 || s.maxOut && x.Cmp(s.max) == 0) {
		return no
	}
	if s.multipleOf != nil {
		return unknown
	}
	return yes
}

// noneOf reports whether s plainly admits none of the values.
func (c *schemaCompiler) noneOf(values []*value, s *schema) bool {
	for _, v := range values {
		if w, err := c.admits(s, v); err != nil || w != no {
			return false
		}
	}
	return true
}

// isAmong reports whether v is one of values.
func (c *schemaCompiler) isAmong(values []*value, v *value) bool {
	key := c.keyOf(v)
	return slices.ContainsFunc(values, func(w *value) bool { return c.keyOf(w) == key })
}

func (c *schemaCompiler) typeOf(v *value) typeSet {
	switch v.kind {
	case nullValue:
		return isNull
	case boolValue:
		return isBool
	case stringValue:
		return isString
	case arrayValue:
		return isArray
	case objectValue:
		return isObject
	}
	c.spend(v.ratWork())
	if x, ok := v.rat(); ok && x.IsInt() {
		return isInteger
	}
	return isFraction
}
