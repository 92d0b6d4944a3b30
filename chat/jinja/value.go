package jinja

import (
	"math"
	"slices"
)

// Value is what a template computes with. Its dynamic type is one of: nil
// (Python's None), bool, int64, float64, [Number], [Text], *[List], *[Dict],
// Undefined and the package's own callables and objects.
type Value any

// Number is an integer outside the range of int64, in decimal. It can be printed
// and compared with itself, but not computed with.
type Number string

// Undefined is the value of a name, attribute or item that does not exist. owner
// is "" for a name, else the type it was looked up in.
type Undefined struct{ owner, name string }

func (u Undefined) message() string {
	if u.owner == "" {
		return "'" + u.name + "' is undefined"
	}
	return "'" + u.owner + " object' has no attribute '" + u.name + "'"
}

// List is a list, or a tuple.
type List struct {
	Items []Value
	tuple bool
}

// NewList returns a list of items.
func NewList(items ...Value) *List { return &List{Items: items} }

// Dict is a mapping that keeps the order of insertion.
type Dict struct {
	keys  []Value
	vals  []Value
	index map[dictKey]int // nil while the dict is small
}

// dictKey identifies a key; numbers that are equal in Python are equal here.
type dictKey struct {
	kind byte // 's'tring, 'n'umber, '0' for None
	s    string
	n    float64
}

const smallDict = 8

// keyOf returns the identity of a key; false if the value cannot be one.
func keyOf(v Value) (dictKey, bool) {
	switch v := v.(type) {
	case Text:
		return dictKey{kind: 's', s: v.s}, true
	case bool:
		if v {
			return dictKey{kind: 'n', n: 1}, true
		}
		return dictKey{kind: 'n'}, true
	case int64:
		return dictKey{kind: 'n', n: float64(v)}, true
	case float64:
		return dictKey{kind: 'n', n: v}, !math.IsNaN(v)
	case nil:
		return dictKey{kind: '0'}, true
	}
	return dictKey{}, false
}

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.keys) }

// find returns the index of a key, or -1.
func (d *Dict) find(k dictKey) int {
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	for i, v := range d.keys {
		if o, _ := keyOf(v); o == k {
			return i
		}
	}
	return -1
}

// Get returns the value of a string key.
func (d *Dict) Get(name string) (Value, bool) {
	if i := d.find(dictKey{kind: 's', s: name}); i >= 0 {
		return d.vals[i], true
	}
	return nil, false
}

// Set sets the value of a string key written by the template or the server. A
// new key goes to the end; a known one keeps its place.
func (d *Dict) Set(name string, v Value) { d.set(Plain(name), v) }

// set is Set for any key; false if the key cannot be one.
func (d *Dict) set(key, v Value) bool {
	k, ok := keyOf(key)
	if !ok {
		return false
	}
	if i := d.find(k); i >= 0 {
		d.vals[i] = v
		return true
	}
	if d.keys == nil {
		d.keys, d.vals = make([]Value, 0, 4), make([]Value, 0, 4) // a message, a tool, a function
	}
	d.keys, d.vals = append(d.keys, key), append(d.vals, v)
	if d.index != nil {
		d.index[k] = len(d.keys) - 1
	} else {
		d.makeIndex()
	}
	return true
}

// makeIndex makes the index, if there are enough keys for one.
func (d *Dict) makeIndex() {
	d.index = nil
	if len(d.keys) <= smallDict {
		return
	}
	d.index = make(map[dictKey]int, 2*len(d.keys))
	for i, v := range d.keys {
		k, _ := keyOf(v)
		d.index[k] = i
	}
}

// Each calls f for every entry whose key is a string, in order.
func (d *Dict) Each(f func(name string, v Value)) {
	for i, k := range d.keys {
		if t, ok := k.(Text); ok {
			f(t.s, d.vals[i])
		}
	}
}

// Delete removes a string key.
func (d *Dict) Delete(name string) {
	i := d.find(dictKey{kind: 's', s: name})
	if i < 0 {
		return
	}
	d.keys, d.vals = slices.Delete(d.keys, i, i+1), slices.Delete(d.vals, i, i+1)
	d.makeIndex()
}

// namespace is the object whose attributes {% set ns.x = … %} may change.
type namespace struct{ attrs Dict }

// function is anything that can be called.
type function struct {
	name string
	call func(r *run, a args) (Value, error)
}

// truthy is Python's bool().
func truthy(v Value) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case Text:
		return v.s != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	}
	return true
}

// typeName is Python's name of a value's type, for messages.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, Number:
		return "int"
	case float64:
		return "float"
	case Text:
		return "str"
	case *List:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case Undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	case unset:
		return "nothing"
	}
	return "function"
}
