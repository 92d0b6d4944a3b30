package hf

import (
	"fmt"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model/gguf"
)

// meta reads metadata keys with their kinds checked. The first fault is kept and
// later reads return zero values.
type meta struct {
	file *gguf.File
	err  error
}

// fail records an error about a key.
func (m *meta) fail(key, format string, args ...any) {
	if m.err == nil {
		m.err = infer.Errorf(infer.CodeInvalid, m.file.Name(), "%s: metadata key %q %s", m.file.Name(), key, fmt.Sprintf(format, args...))
	}
}

// failTensor records an error about a tensor.
func (m *meta) failTensor(name, format string, args ...any) {
	if m.err == nil {
		m.err = infer.Errorf(infer.CodeInvalid, m.file.Name(), "%s: tensor %q %s", m.file.Name(), name, fmt.Sprintf(format, args...))
	}
}

func (m *meta) has(key string) bool {
	_, ok := m.file.Key(key)
	return ok
}

// required reports whether a key is there, and records an error if it is not.
func (m *meta) required(key string) bool {
	if !m.has(key) {
		m.fail(key, "is missing")
		return false
	}
	return true
}

// maxInt bounds integers: what they size is bounded further by whoever uses it.
const maxInt = 1<<31 - 1

// int returns an integer from 0 to maxInt.
func (m *meta) int(key string, absent int) int {
	v, ok := m.file.Key(key)
	if !ok {
		return absent
	}
	n, ok := v.Int()
	if !ok || n < 0 || n > maxInt {
		m.fail(key, "is no integer from 0 to %d", maxInt)
		return 0
	}
	return int(n)
}

func (m *meta) requiredInt(key string) int {
	m.required(key)
	return m.int(key, 0)
}

func (m *meta) float(key string, absent float64) float64 {
	v, ok := m.file.Key(key)
	if !ok {
		return absent
	}
	f, ok := v.Float()
	if !ok || f-f != 0 { // JSON knows neither NaN nor infinities
		m.fail(key, "is no finite floating-point number")
		return 0
	}
	return f
}

// number returns an integer or a floating-point number, whichever it is.
func (m *meta) number(key string) (v any, ok bool) {
	value, ok := m.file.Key(key)
	if !ok {
		return nil, false
	}
	if _, ok := value.Float(); ok {
		return m.float(key, 0), true
	}
	return m.int(key, 0), true
}

func (m *meta) bool(key string, absent bool) bool {
	v, ok := m.file.Key(key)
	if !ok {
		return absent
	}
	b, ok := v.Bool()
	if !ok {
		m.fail(key, "is no truth value")
	}
	return b
}

func (m *meta) text(key, absent string) string {
	v, ok := m.file.Key(key)
	if !ok {
		return absent
	}
	s, ok := v.Text()
	if !ok {
		m.fail(key, "is no string")
	}
	return s
}

// array returns an array of elements of a kind, empty if the key is not there.
func (m *meta) array(key string, elem gguf.Kind) gguf.Value {
	v, ok := m.file.Key(key)
	if ok && (v.Kind != gguf.Array || v.Elem != elem) {
		m.fail(key, "is no array of %v", elem)
		return gguf.Value{}
	}
	return v
}
