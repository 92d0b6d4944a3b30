package toolcall

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxSchemas bounds how many schemas anyOf, oneOf, allOf and $ref may lead to for one
// parameter.
const maxSchemas = 256

// schema is what the type of a value depends on.
type schema struct {
	Type  json.RawMessage   `json:"type"`
	Enum  []json.RawMessage `json:"enum"`
	AnyOf []json.RawMessage `json:"anyOf"`
	OneOf []json.RawMessage `json:"oneOf"`
	AllOf []json.RawMessage `json:"allOf"`
	Ref   string            `json:"$ref"`
}

// parameters are the types of a tool's parameters.
type parameters struct {
	Properties  map[string]json.RawMessage `json:"properties"`
	Defs        map[string]json.RawMessage `json:"$defs"`
	Definitions map[string]json.RawMessage `json:"definitions"`

	found map[string][]string // what types returned: an output may ask very often
}

// parametersOf returns nothing for a tool without a usable schema.
func parametersOf(t *Tool) *parameters {
	var p parameters
	if t == nil || json.Unmarshal(t.Parameters, &p) != nil {
		p = parameters{}
	}
	p.found = map[string][]string{}
	return &p
}

var stringOnly = []string{"string"}

// types returns the JSON types that a parameter may have, "string" if nothing is known.
func (p *parameters) types(name string) []string {
	schema, declared := p.Properties[name]
	if !declared {
		return stringOnly
	}
	types, ok := p.found[name]
	if !ok {
		w := typeWalk{parameters: p, left: maxSchemas, seen: map[string]bool{}}
		w.visit(schema)
		if types = w.types; len(types) == 0 {
			types = stringOnly
		}
		p.found[name] = types
	}
	return types
}

// typeWalk collects the types of one parameter.
type typeWalk struct {
	*parameters
	types []string
	left  int             // schemas that may still be visited
	seen  map[string]bool // references, which may lead in circles
}

func (w *typeWalk) visit(raw json.RawMessage) {
	var s schema
	if w.left--; len(raw) == 0 || w.left < 0 || json.Unmarshal(raw, &s) != nil {
		return
	}
	var one string
	var several []string
	if json.Unmarshal(s.Type, &one) == nil {
		several = []string{one}
	} else if json.Unmarshal(s.Type, &several) != nil {
		several = nil
	}
	for _, t := range several {
		w.add(canonical(t))
	}
	for _, v := range s.Enum {
		w.add(typeOf(v))
	}
	for _, sub := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		w.visit(sub)
	}
	if w.seen[s.Ref] {
		return
	}
	w.seen[s.Ref] = true
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		w.visit(w.Defs[name])
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		w.visit(w.Definitions[name])
	}
}

func (w *typeWalk) add(t string) {
	if !slices.Contains(w.types, t) && slices.Contains(typePriority, t) {
		w.types = append(w.types, t)
	}
}

// typePriority is the order in which types are tried, vLLM's (tool_parsers/utils.py,
// coerce_to_schema_type).
var typePriority = []string{"null", "integer", "number", "boolean", "object", "array", "string"}

// canonical maps the names that schemas in the wild use.
func canonical(t string) string {
	switch t = strings.ToLower(strings.TrimSpace(t)); t {
	case "str", "text", "varchar", "char", "enum":
		return "string"
	case "int", "int32", "int64", "uint", "uint32", "uint64", "long", "short", "unsigned":
		return "integer"
	case "float", "float32", "float64", "double":
		return "number"
	case "bool":
		return "boolean"
	case "dict":
		return "object"
	case "arr", "list", "sequence":
		return "array"
	}
	return t
}

// typeOf returns the type of a JSON value.
func typeOf(v json.RawMessage) string {
	switch c := trimBlanks(string(v))[0]; {
	case c == 'n':
		return "null"
	case c == 't', c == 'f':
		return "boolean"
	case c == '"':
		return "string"
	case c == '{':
		return "object"
	case c == '[':
		return "array"
	case strings.ContainsAny(string(v), ".eE"):
		return "number"
	}
	return "integer"
}

// coerce writes text as a JSON value of the first of the types that it can have, as any
// JSON that it is, or as a string. JSON goes out as it came in.
func coerce(text string, types []string) []byte {
	t := strings.TrimSpace(text)
	for _, want := range typePriority {
		if !slices.Contains(types, want) {
			continue
		}
		if out, ok := coerceTo(want, t); ok {
			return []byte(out)
		}
		if want == "string" {
			return quote(text)
		}
	}
	if json.Valid([]byte(t)) {
		return []byte(t)
	}
	return quote(text)
}

func coerceTo(want, t string) (string, bool) {
	switch want {
	case "null":
		return "null", strings.EqualFold(t, "null") || t == "None"
	case "integer":
		return integer(t)
	case "number":
		return number(t)
	case "boolean":
		switch strings.ToLower(t) {
		case "true", "1":
			return "true", true
		case "false", "0":
			return "false", true
		}
	case "object", "array":
		open := byte('{')
		if want == "array" {
			open = '['
		}
		if t == "" || t[0] != open {
			return "", false
		}
		if json.Valid([]byte(t)) {
			return t, true
		}
		return python(t) // the template of Qwen 3 renders some values as Python
	}
	return "", false
}

// integer takes decimal digits of any number with a sign and leading zeros.
func integer(t string) (string, bool) {
	digits, negative := strings.CutPrefix(t, "-")
	if !negative {
		digits = strings.TrimPrefix(t, "+")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		return "0", true
	}
	if negative {
		digits = "-" + digits
	}
	return digits, true
}

func number(t string) (string, bool) {
	if c := strings.TrimLeft(t, "-"); c != "" && c[0] >= '0' && c[0] <= '9' && json.Valid([]byte(t)) {
		return t, true
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}
