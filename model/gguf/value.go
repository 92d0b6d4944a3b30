package gguf

import (
	"encoding/binary"
	"iter"
	"math"
)

// Value is the value of a metadata key: a view into the parsed bytes.
type Value struct {
	Kind Kind
	Elem Kind // of an array
	Len  int  // elements of an array
	raw  []byte
}

// Int returns an integer of any kind; ok is false for other kinds and for what
// an int64 cannot hold.
func (v Value) Int() (n int64, ok bool) {
	switch v.Kind {
	case Uint8:
		return int64(v.raw[0]), true
	case Int8:
		return int64(int8(v.raw[0])), true
	case Uint16:
		return int64(binary.LittleEndian.Uint16(v.raw)), true
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(v.raw))), true
	case Uint32:
		return int64(binary.LittleEndian.Uint32(v.raw)), true
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(v.raw))), true
	case Uint64:
		u := binary.LittleEndian.Uint64(v.raw)
		return int64(u), u <= math.MaxInt64
	case Int64:
		return int64(binary.LittleEndian.Uint64(v.raw)), true
	}
	return 0, false
}

// Float returns a number of either floating-point kind.
func (v Value) Float() (f float64, ok bool) {
	switch v.Kind {
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), true
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), true
	}
	return 0, false
}

// Bool returns a truth value.
func (v Value) Bool() (b, ok bool) {
	if v.Kind != Bool {
		return false, false
	}
	return v.raw[0] != 0, true
}

// Text returns a string, copied: it stays when the parsed bytes are gone.
func (v Value) Text() (s string, ok bool) {
	if v.Kind != String {
		return "", false
	}
	return string(v.raw), true
}

// Elements yields an array's elements in order. Those of strings are views: copy
// with Text what is to stay.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Kind != Array {
			return
		}
		c := cursor{data: v.raw} // Parse has walked it: nothing can fail
		for i := range v.Len {
			e := Value{Kind: v.Elem}
			c.value(&e, 0)
			if !yield(i, e) {
				return
			}
		}
	}
}
