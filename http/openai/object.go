package openai

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// object reads the fields of a JSON object by name and type. The first thing
// wrong is kept in err; later reads then return zero values. A missing field and
// null read the same: nil.
type object struct {
	path   string // prefix of field names in errors: "" or "stream_options."
	fields map[string]json.RawMessage
	parts  *int            // parts of content so far in a conversation of which this is a message; nil = it stands alone
	read   map[string]bool // names of fields that were asked for; nil = not kept
	err    *infer.Error
}

// parseBody checks a whole body and opens its object.
func parseBody(body []byte) *object {
	if err := checkBody(body); err != nil {
		return &object{err: err}
	}
	return parseObject(body[skipSpace(body, 0):], "")
}

// parseObject opens valid JSON that should be an object; the last of equal names wins.
func parseObject(raw []byte, name string) *object {
	if kind(raw) != "an object" {
		o := &object{}
		o.mismatch(name, "an object", raw)
		return o
	}
	o := &object{fields: make(map[string]json.RawMessage)}
	if name != "" {
		o.path = name + "."
	}
	for key, value := range members(raw) {
		if len(o.fields) == maxFields {
			o.fail(infer.CodeMalformed, name, "more than %d fields", maxFields)
			break
		}
		o.fields[key] = value
	}
	return o
}

// fail records the first error; name is the field within this object.
func (o *object) fail(code infer.Code, name, format string, args ...any) {
	if o.err != nil {
		return
	}
	param := o.path + name
	subject := param
	if subject == "" {
		subject = "The body"
	}
	o.err = infer.Errorf(code, param, "%s: "+format, append([]any{subject}, args...)...)
}

// adopt takes over the first error of an object within this one.
func (o *object) adopt(inner *object) {
	if o.err == nil {
		o.err = inner.err
	}
}

func (o *object) mismatch(name, want string, raw []byte) {
	o.fail(infer.CodeMalformed, name, "must be %s, got %s: %s", want, kind(raw), excerpt(string(raw)))
}

// raw returns a field's JSON, nil if it is missing or null, or after an error.
func (o *object) raw(name string) json.RawMessage {
	raw := o.fields[name]
	if o.read != nil {
		o.read[name] = true
	}
	if o.err != nil || len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	return raw
}

const maxIgnored = 16 // names that ignored returns

// ignored returns the names, cut, of fields that nobody has asked for.
func (o *object) ignored() []string {
	var names []string
	for name := range o.fields {
		if o.read == nil || o.read[name] {
			continue
		}
		if names = append(names, excerpt(name)); len(names) == maxIgnored {
			break
		}
	}
	slices.Sort(names)
	return names
}

func (o *object) has(name string) bool { return o.raw(name) != nil }

// typed returns a field's JSON if it is of the wanted kind.
func (o *object) typed(name, want string) json.RawMessage {
	raw := o.raw(name)
	if raw != nil && kind(raw) != want {
		o.mismatch(name, want, raw)
		return nil
	}
	return raw
}

func (o *object) str(name string) *string {
	raw := o.typed(name, "a string")
	if raw == nil {
		return nil
	}
	s := unquote(raw)
	return &s
}

func (o *object) boolean(name string) *bool {
	raw := o.typed(name, "a boolean")
	if raw == nil {
		return nil
	}
	b := raw[0] == 't'
	return &b
}

// flag is boolean with a default.
func (o *object) flag(name string, otherwise bool) bool {
	if b := o.boolean(name); b != nil {
		return *b
	}
	return otherwise
}

func (o *object) float(name string) *float64 {
	raw := o.typed(name, "a number")
	if raw == nil {
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		o.fail(infer.CodeMalformed, name, "must be a finite number, got %s", excerpt(string(raw)))
		return nil
	}
	return &f
}

func (o *object) integer(name string, lo, hi int64) *int64 {
	raw := o.raw(name)
	if raw == nil {
		return nil
	}
	i, ok := parseInteger(raw)
	if !ok {
		o.mismatch(name, "an integer", raw)
		return nil
	}
	if !within(i, lo, hi) {
		if lo <= math.MinInt32 && hi >= math.MaxInt32 { // bounds of the type, which mean nothing to a client
			o.fail(infer.CodeMalformed, name, "must be an integer within range, got %s", excerpt(string(raw)))
			return nil
		}
		o.fail(infer.CodeMalformed, name, "must be between %d and %d, got %s", lo, hi, excerpt(string(raw)))
		return nil
	}
	return &i.value
}

// count is integer as an int.
func (o *object) count(name string, lo, hi int64) *int {
	i := o.integer(name, lo, hi)
	if i == nil {
		return nil
	}
	n := int(*i)
	return &n
}

// bigInt is an integer of a body; huge = it does not fit into an int64.
type bigInt struct {
	value int64
	huge  bool
}

func within(i bigInt, lo, hi int64) bool { return !i.huge && i.value >= lo && i.value <= hi }

// parseInteger reads a whole number, written 5, 5.0 or 5e0. ok is false for
// everything else.
func parseInteger(raw []byte) (i bigInt, ok bool) {
	if kind(raw) != "a number" {
		return i, false
	}
	if v, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return bigInt{value: v}, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return bigInt{huge: true}, true
	}
	if f != math.Trunc(f) {
		return i, false
	}
	const exact = 1 << 53
	if math.Abs(f) > exact {
		return bigInt{huge: true}, true
	}
	return bigInt{value: int64(f)}, true
}
