package gguf

import (
	"encoding/binary"
	"fmt"
)

// cursor reads the header front to back. After the first fault it reads zeros.
type cursor struct {
	data  []byte
	at    int
	fault string // what is wrong, "" = nothing
}

func (c *cursor) fail(format string, args ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf(format, args...)
	}
}

// take returns the next n bytes.
func (c *cursor) take(n uint64) []byte {
	if c.fault == "" && n > uint64(len(c.data)-c.at) {
		c.fail("ends at byte %d inside its header, where %d more bytes are claimed: it is truncated (download it again) or corrupt", len(c.data), n-uint64(len(c.data)-c.at))
	}
	if c.fault != "" {
		return nil
	}
	b := c.data[c.at : c.at+int(n) : c.at+int(n)]
	c.at += int(n)
	return b
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) string() []byte { return c.take(c.uint64()) }

// maxNesting bounds arrays in arrays.
const maxNesting = 4

// value reads a value of v's kind, which is depth arrays deep.
func (c *cursor) value(v *Value, depth int) {
	switch {
	case !v.Kind.known():
		c.fail("has a value of the unknown kind %d", uint32(v.Kind))
	case v.Kind == String:
		v.raw = c.string()
	case v.Kind == Array:
		c.array(v, depth)
	default:
		v.raw = c.take(uint64(v.Kind.size()))
	}
}

// array reads an array. Its elements are walked, so that reading them again
// cannot fail; nothing is allocated for them.
func (c *cursor) array(v *Value, depth int) {
	v.Elem = Kind(c.uint32())
	n := c.uint64()
	least := uint64(8) // of a string; an array takes more
	if v.Elem.known() && v.Elem.size() > 0 {
		least = uint64(v.Elem.size())
	}
	left := uint64(len(c.data) - c.at)
	switch {
	case c.fault != "":
		return
	case !v.Elem.known():
		c.fail("has an array of the unknown kind %d", uint32(v.Elem))
	case depth >= maxNesting:
		c.fail("has arrays in arrays, more than %d deep", maxNesting)
	case n > left/least:
		c.fail("has an array of %d elements of kind %v, but only %d bytes follow: it is truncated (download it again) or corrupt", n, v.Elem, left)
	}
	if c.fault != "" {
		return
	}
	v.Len = int(n)
	begin := c.at
	if v.Elem.size() > 0 {
		c.take(n * least)
	} else {
		for range v.Len {
			e := Value{Kind: v.Elem}
			if c.value(&e, depth+1); c.fault != "" {
				return
			}
		}
	}
	v.raw = c.data[begin:c.at:c.at]
}
