package grammar

import "math/big"

// schema is a JSON Schema after parsing. References and allOf are kept and
// resolved when it is used; the zero value but for max… = -1 allows everything.
type schema struct {
	ptr   string // where it stands, as in "/properties/a"
	false bool   // the schema false

	ref   string // pointer, "#" is the root; "" = none
	allOf []*schema
	anyOf []*schema // at least one must hold
	oneOf []*schema // exactly one must hold

	types typeSet // 0 = not restricted
	enum  []*value

	props    []property // nil = keyword not given: then an object is open
	required []string
	extra    *schema // additionalProperties, nil = not given
	patterns []property
	names    *schema // propertyNames, nil = not given

	prefix []*schema
	items  *schema // nil = not given

	texts []text // pattern and format

	properties, length, itemCount span
	min, max                      *big.Rat // nil = none
	minOut, maxOut                bool     // exclusive
	multipleOf                    *big.Rat
}

// property is a name, or a pattern for names, with its schema.
type property struct {
	name string
	s    *schema
}

// text is a keyword that says what a string looks like: the value of "pattern",
// or of "format" if that is a name.
type text struct {
	value  string
	format bool
}

// span is a range of counts; max < 0 means no upper end.
type span struct{ min, max int }

var anyCount = span{0, -1}

func (a span) and(b span) span {
	out := span{max(a.min, b.min), a.max}
	if out.max < 0 || b.max >= 0 && b.max < out.max {
		out.max = b.max
	}
	return out
}

func (a span) has(n int) bool { return n >= a.min && (a.max < 0 || n <= a.max) }

func (a span) within(b span) bool {
	return a.min >= b.min && (b.max < 0 || a.max >= 0 && a.max <= b.max)
}

// typeSet is a set of JSON types. A number that is an integer has a bit of its
// own, so that type sets intersect.
type typeSet uint8

const (
	isNull typeSet = 1 << iota
	isBool
	isInteger
	isFraction
	isString
	isArray
	isObject

	isNumber = isInteger | isFraction
	allTypes = isObject<<1 - 1
)

var typeNames = map[string]typeSet{
	"null": isNull, "boolean": isBool, "integer": isInteger, "number": isNumber,
	"string": isString, "array": isArray, "object": isObject,
}

func newSchema(ptr string) *schema {
	return &schema{ptr: ptr, properties: anyCount, length: anyCount, itemCount: anyCount}
}

// implied returns the types that the keywords of s speak of.
func (s *schema) implied() typeSet {
	var t typeSet
	if s.props != nil || len(s.required) > 0 || s.extra != nil || len(s.patterns) > 0 || s.names != nil || s.properties != anyCount {
		t |= isObject
	}
	if len(s.prefix) > 0 || s.items != nil || s.itemCount != anyCount {
		t |= isArray
	}
	if len(s.texts) > 0 || s.length != anyCount {
		t |= isString
	}
	if s.min != nil || s.max != nil || s.multipleOf != nil {
		t |= isNumber
	}
	return t
}

// free reports whether s allows everything.
func (s *schema) free() bool {
	return s == nil || !s.false && s.ref == "" && len(s.allOf) == 0 && len(s.anyOf) == 0 && len(s.oneOf) == 0 &&
		s.types == 0 && s.enum == nil && s.implied() == 0
}

// onlyRef reports whether s is a reference and nothing else.
func (s *schema) onlyRef() bool {
	if s.ref == "" {
		return false
	}
	rest := *s
	rest.ref = ""
	return rest.free()
}

// prop returns the schema of a declared property, nil if it is not declared.
func (s *schema) prop(name string) *schema {
	for _, p := range s.props {
		if p.name == name {
			return p.s
		}
	}
	return nil
}
