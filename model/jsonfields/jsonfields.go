package jsonfields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// Fields reads the members of one JSON object. The first fault is kept, and what
// has one reads as zero, or as the smallest integer allowed: so a parser can read
// everything and check once.
type Fields struct {
	prefix  string // for errors: "rope_scaling." inside a nested object
	members map[string]json.RawMessage
	root    *root
}

// root is what a file's objects share.
type root struct {
	file string // for errors: "config.json"
	err  error  // the first fault
}

// Parse decodes an object. Member names are matched exactly.
func Parse(file string, b []byte) *Fields {
	f := &Fields{root: &root{file: file}}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if err := json.Unmarshal(b, &f.members); err != nil {
		f.Fail("", "is not a JSON object: %v", err)
	} else if f.members == nil {
		f.Fail("", "is null, not a JSON object")
	}
	return f
}

// Failed returns an object without members whose fault is that message.
func Failed(file, message string) *Fields {
	f := &Fields{root: &root{file: file}}
	f.Fail("", "%s", message)
	return f
}

// Err returns the first fault of the file.
func (f *Fields) Err() error { return f.root.err }

// Fail records a fault of a member, or of the whole file if name is "".
func (f *Fields) Fail(name, format string, args ...any) {
	if f.root.err != nil {
		return
	}
	subject := f.root.file + ":"
	if name != "" {
		subject += " " + f.prefix + name
	}
	f.root.err = infer.Errorf(infer.CodeInvalid, f.root.file, "%s %s", subject, fmt.Sprintf(format, args...))
}

// Raw returns a member's text, nil if it is absent or null.
func (f *Fields) Raw(name string) json.RawMessage {
	v := f.members[name]
	if bytes.Equal(v, []byte("null")) {
		return nil
	}
	return v
}

// Has reports whether a member is there and not null.
func (f *Fields) Has(name string) bool { return f.Raw(name) != nil }

// Inherit gives f the members of from that it does not have itself.
func (f *Fields) Inherit(from *Fields) {
	for name, v := range from.members {
		if !f.Has(name) {
			f.members[name] = v
		}
	}
}

// Default gives f a member if it does not have it; value must be one that JSON
// knows.
func (f *Fields) Default(name string, value any) {
	if f.Has(name) {
		return
	}
	b, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("jsonfields: default of %s: %v", name, err))
	}
	f.members[name] = b
}

// IntRange is an inclusive range.
type IntRange struct{ Min, Max int64 }

// RequiredInt reads an integer that must be there.
func (f *Fields) RequiredInt(name string, r IntRange) int {
	if !f.Has(name) {
		f.Fail(name, "is missing; it must be an integer from %d to %d", r.Min, r.Max)
		return int(r.Min)
	}
	return f.Int(name, r, 0)
}

// Int reads an integer; the value of one that is not there is absent.
func (f *Fields) Int(name string, r IntRange, absent int) int {
	v := f.Raw(name)
	if v == nil {
		return absent
	}
	n, err := parseInt(v)
	if err != nil || n < r.Min || n > r.Max {
		f.Fail(name, "is %s; it must be an integer from %d to %d", clip(v), r.Min, r.Max)
		return int(r.Min)
	}
	return int(n)
}

// Ints reads a list of at most limit integers, nil if it is not there.
func (f *Fields) Ints(name string, r IntRange, limit int) []int {
	list := f.list(name, limit)
	if list == nil {
		return nil
	}
	out := make([]int, len(list))
	for i, v := range list {
		n, err := parseInt(v)
		if err != nil || n < r.Min || n > r.Max {
			f.Fail(name, "holds %s; it must be a list of integers from %d to %d", clip(v), r.Min, r.Max)
			return nil
		}
		out[i] = int(n)
	}
	return out
}

// FloatRange is a range whose bounds may be excluded.
type FloatRange struct {
	Min, Max         float64
	MinOpen, MaxOpen bool
}

func (r FloatRange) contains(v float64) bool {
	if math.IsNaN(v) || v < r.Min || v > r.Max {
		return false
	}
	return !(r.MinOpen && v == r.Min) && !(r.MaxOpen && v == r.Max)
}

// String gives the range in brackets, round ones where the bound is excluded.
func (r FloatRange) String() string {
	left, right := "[", "]"
	if r.MinOpen {
		left = "("
	}
	if r.MaxOpen {
		right = ")"
	}
	return fmt.Sprintf("%s%g, %g%s", left, r.Min, r.Max, right)
}

// RequiredFloat reads a number that must be there.
func (f *Fields) RequiredFloat(name string, r FloatRange) float64 {
	if !f.Has(name) {
		f.Fail(name, "is missing; it must be a number in %v", r)
		return 0
	}
	return f.Float(name, r, 0)
}

// Float reads a number; the value of one that is not there is absent.
func (f *Fields) Float(name string, r FloatRange, absent float64) float64 {
	v := f.Raw(name)
	if v == nil {
		return absent
	}
	var x float64
	if err := json.Unmarshal(v, &x); err != nil || !r.contains(x) {
		f.Fail(name, "is %s; it must be a number in %v", clip(v), r)
		return 0
	}
	return x
}

// Floats reads a list of exactly n numbers that must be there.
func (f *Fields) Floats(name string, r FloatRange, n int) []float64 {
	list := f.list(name, n)
	if len(list) != n {
		f.Fail(name, "has %d elements; it must be a list of %d numbers", len(list), n)
		return nil
	}
	out := make([]float64, n)
	for i, v := range list {
		if err := json.Unmarshal(v, &out[i]); err != nil || !r.contains(out[i]) || bytes.Equal(v, []byte("null")) {
			f.Fail(name, "holds %s; it must be a list of numbers in %v", clip(v), r)
			return nil
		}
	}
	return out
}

// list reads a list of at most limit elements.
func (f *Fields) list(name string, limit int) []json.RawMessage {
	v := f.Raw(name)
	if v == nil {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(v, &list); err != nil {
		f.Fail(name, "is %s; it must be a list", clip(v))
		return nil
	}
	if len(list) > limit {
		f.Fail(name, "has %d elements; there may be at most %d", len(list), limit)
		return nil
	}
	return list
}

// Bool reads true or false; the value of one that is not there is absent.
func (f *Fields) Bool(name string, absent bool) bool {
	v := f.Raw(name)
	if v == nil {
		return absent
	}
	var b bool
	if err := json.Unmarshal(v, &b); err != nil {
		f.Fail(name, "is %s; it must be true or false", clip(v))
	}
	return b
}

// String reads a string; the value of one that is not there is absent.
func (f *Fields) String(name, absent string) string {
	v := f.Raw(name)
	if v == nil {
		return absent
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		f.Fail(name, "is %s; it must be a string", clip(v))
	}
	return s
}

// Strings reads a list of strings, nil if it is not there.
func (f *Fields) Strings(name string) []string {
	v := f.Raw(name)
	if v == nil {
		return nil
	}
	var list []string
	if err := json.Unmarshal(v, &list); err != nil {
		f.Fail(name, "is %s; it must be a list of strings", clip(v))
	}
	return list
}

// TokenIDs reads a token id or a list of them; ids lie in [0, vocabSize).
func (f *Fields) TokenIDs(name string, vocabSize int) []int32 {
	v := f.Raw(name)
	if v == nil {
		return nil
	}
	list := []json.RawMessage{v}
	if v[0] == '[' {
		if err := json.Unmarshal(v, &list); err != nil {
			f.Fail(name, "is %s; it must be a token id or a list of them", clip(v))
			return nil
		}
	}
	ids := make([]int32, 0, len(list))
	for _, item := range list {
		id, err := parseInt(item)
		if err != nil || id < 0 || id >= int64(vocabSize) {
			f.Fail(name, "holds %s; token ids are integers from 0 to %d", clip(item), vocabSize-1)
			return nil
		}
		ids = append(ids, int32(id))
	}
	return ids
}

// Object opens a nested object, nil if it is absent or null. Its faults are the
// file's.
func (f *Fields) Object(name string) *Fields {
	v := f.Raw(name)
	if v == nil {
		return nil
	}
	o := &Fields{prefix: f.prefix + name + ".", root: f.root, members: map[string]json.RawMessage{}}
	if err := json.Unmarshal(v, &o.members); err != nil {
		f.Fail(name, "is %s; it must be an object", clip(v))
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
