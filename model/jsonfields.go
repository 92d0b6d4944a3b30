package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// fields reads the members of one JSON object with types and ranges checked.
// The first fault is kept in err and later reads return zero values, so that a
// parser can read everything and check once.
type fields struct {
	file    string // for errors: "config.json"
	prefix  string // for errors: "rope_scaling." inside a nested object
	members map[string]json.RawMessage
	err     error
}

// parseFields decodes an object. Member names are matched exactly.
func parseFields(file string, b []byte) *fields {
	f := &fields{file: file}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if what := impostor(b); what != "" {
		f.fail("", "is no JSON: %s", what)
	} else if err := json.Unmarshal(b, &f.members); err != nil {
		f.fail("", "is not a JSON object: %v", err)
	} else if f.members == nil {
		f.fail("", "is null, not a JSON object")
	}
	return f
}

// fail records an error about a member, or about the whole file if name is "".
func (f *fields) fail(name, format string, args ...any) {
	if f.err != nil {
		return
	}
	subject := f.file + ":"
	if name != "" {
		subject += " " + f.prefix + name
	}
	f.err = infer.Errorf(infer.CodeInvalid, f.file, "%s %s", subject, fmt.Sprintf(format, args...))
}

// raw returns a member's text, nil if it is absent or null.
func (f *fields) raw(name string) json.RawMessage {
	v := f.members[name]
	if bytes.Equal(v, []byte("null")) {
		return nil
	}
	return v
}

func (f *fields) has(name string) bool { return f.raw(name) != nil }

// intRange is an inclusive range; whether a member may be left out is the
// caller's to say.
type intRange struct{ min, max int64 }

func (f *fields) requiredInt(name string, r intRange) int {
	if !f.has(name) {
		f.fail(name, "is missing; it must be an integer from %d to %d", r.min, r.max)
		return 0
	}
	return f.int(name, r, 0)
}

func (f *fields) int(name string, r intRange, absent int) int {
	v := f.raw(name)
	if v == nil {
		return absent
	}
	n, err := parseInt(v)
	if err != nil || n < r.min || n > r.max {
		f.fail(name, "is %s; it must be an integer from %d to %d", clip(v), r.min, r.max)
		return 0
	}
	return int(n)
}

// floatRange is a range whose bounds may be excluded.
type floatRange struct {
	min, max         float64
	minOpen, maxOpen bool
}

func (r floatRange) contains(v float64) bool {
	if math.IsNaN(v) || v < r.min || v > r.max {
		return false
	}
	return !(r.minOpen && v == r.min) && !(r.maxOpen && v == r.max)
}

func (r floatRange) String() string {
	left, right := "[", "]"
	if r.minOpen {
		left = "("
	}
	if r.maxOpen {
		right = ")"
	}
	return fmt.Sprintf("%s%g, %g%s", left, r.min, r.max, right)
}

func (f *fields) requiredFloat(name string, r floatRange) float64 {
	if !f.has(name) {
		f.fail(name, "is missing; it must be a number in %v", r)
		return 0
	}
	return f.float(name, r, 0)
}

func (f *fields) float(name string, r floatRange, absent float64) float64 {
	v := f.raw(name)
	if v == nil {
		return absent
	}
	var x float64
	if err := json.Unmarshal(v, &x); err != nil || !r.contains(x) {
		f.fail(name, "is %s; it must be a number in %v", clip(v), r)
		return 0
	}
	return x
}

func (f *fields) bool(name string, absent bool) bool {
	v := f.raw(name)
	if v == nil {
		return absent
	}
	var b bool
	if err := json.Unmarshal(v, &b); err != nil {
		f.fail(name, "is %s; it must be true or false", clip(v))
	}
	return b
}

func (f *fields) string(name, absent string) string {
	v := f.raw(name)
	if v == nil {
		return absent
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		f.fail(name, "is %s; it must be a string", clip(v))
	}
	return s
}

func (f *fields) strings(name string) []string {
	v := f.raw(name)
	if v == nil {
		return nil
	}
	var list []string
	if err := json.Unmarshal(v, &list); err != nil {
		f.fail(name, "is %s; it must be a list of strings", clip(v))
	}
	return list
}

// tokenIDs reads a token id or a list of them; ids lie in [0, vocabSize).
func (f *fields) tokenIDs(name string, vocabSize int) []int32 {
	v := f.raw(name)
	if v == nil {
		return nil
	}
	list := []json.RawMessage{v}
	if v[0] == '[' {
		if err := json.Unmarshal(v, &list); err != nil {
			f.fail(name, "is %s; it must be a token id or a list of them", clip(v))
			return nil
		}
	}
	ids := make([]int32, 0, len(list))
	for _, item := range list {
		id, err := parseInt(item)
		if err != nil || id < 0 || id >= int64(vocabSize) {
			f.fail(name, "holds %s; token ids are integers from 0 to %d", clip(item), vocabSize-1)
			return nil
		}
		ids = append(ids, int32(id))
	}
	return ids
}

// object opens a nested object, nil if it is absent or null.
func (f *fields) object(name string) *fields {
	v := f.raw(name)
	if v == nil {
		return nil
	}
	o := &fields{file: f.file, prefix: f.prefix + name + "."}
	if err := json.Unmarshal(v, &o.members); err != nil {
		f.fail(name, "is %s; it must be an object", clip(v))
		return nil
	}
	return o
}

func parseInt(v json.RawMessage) (int64, error) {
	var n int64
	if bytes.Equal(v, []byte("null")) {
		return 0, fmt.Errorf("null is not an integer")
	}
	err := json.Unmarshal(v, &n)
	return n, err
}

// clip shortens a value for an error message.
func clip(v json.RawMessage) string {
	const limit = 60
	if len(v) > limit {
		return string(v[:limit]) + "…"
	}
	return string(v)
}
