package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// maxDigits is the longest integer that is read: Python's own limit.
const maxDigits = 4300

// Origin says who wrote a text.
type Origin bool

// The origins.
const (
	FromServer Origin = false
	FromClient Origin = true
)

// maxJSONDepth is how deep lists and objects may be nested in what is decoded.
const maxJSONDepth = 64

// Decoder decodes JSON texts. It belongs to one goroutine. Every request's
// messages come this way, and the tokens of encoding/json cost several allocations
// each: so the decoder checks the syntax first, and then walks over text that is
// known to be right.
type Decoder struct {
	maxValues, numValues int

	data []byte
	text string // data; strings without escapes are parts of it
	at   int
	from Origin

	marks []infer.Span // memory of the marks of all strings
}

// NewDecoder returns a decoder of texts that hold at most maxValues lists, objects,
// strings and other values together: a list of empty objects takes some thirty
// times the memory of its text.
func NewDecoder(maxValues int) *Decoder { return &Decoder{maxValues: maxValues} }

// Decode returns the value of one JSON text, with the order of keys kept and every
// string marked with its origin. As in Python, of equal keys the last one's value
// counts.
func (d *Decoder) Decode(data []byte, from Origin) (Value, error) {
	if !json.Valid(data) {
		return nil, errors.New("malformed JSON")
	}
	d.data, d.text, d.at, d.from = data, string(data), 0, from
	return d.value(maxJSONDepth)
}

// next steps over blanks and returns the byte that follows.
func (d *Decoder) next() byte {
	for {
		switch c := d.text[d.at]; c {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return c
		}
	}
}

// more steps over the opening bracket or the comma before the next element. At
// the closing bracket it steps over that and returns false.
func (d *Decoder) more(end byte) bool {
	if c := d.next(); c != end {
		d.at++
		if d.next() != end {
			return true
		}
	}
	d.at++
	return false
}

// value reads one value that may nest depth levels deep.
func (d *Decoder) value(depth int) (Value, error) {
	if d.numValues++; d.numValues > d.maxValues {
		return nil, fmt.Errorf("the request's JSON holds more than %d values", d.maxValues)
	}
	switch c := d.next(); c {
	case '{', '[':
		if depth == 0 {
			return nil, fmt.Errorf("lists and objects are nested deeper than %d levels", maxJSONDepth)
		}
		if c == '{' {
			return d.object(depth - 1)
		}
		return d.array(depth - 1)
	case '"':
		return d.str(), nil
	case 't':
		d.at += len("true")
		return true, nil
	case 'f':
		d.at += len("false")
		return false, nil
	case 'n':
		d.at += len("null")
		return nil, nil
	}
	return d.number()
}

func (d *Decoder) array(depth int) (Value, error) {
	list := &List{}
	for d.more(']') {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v)
	}
	return list, nil
}

func (d *Decoder) object(depth int) (Value, error) {
	dict := &Dict{}
	for d.more('}') {
		key := d.str()
		d.next()
		d.at++ // the colon
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		dict.set(key, v)
	}
	return dict, nil
}

// str reads a string.
func (d *Decoder) str() Text {
	s := d.unquote()
	if d.from == FromServer || s == "" {
		return Plain(s)
	}
	d.marks = append(d.marks, infer.Span{Start: 0, End: len(s)})
	n := len(d.marks)
	return Text{s: s, marks: d.marks[n-1 : n : n]}
}

func (d *Decoder) unquote() string {
	inner := d.text[d.at+1:]
	end := strings.IndexByte(inner, '"')
	if s := inner[:end]; strings.IndexByte(s, '\\') < 0 && utf8.ValidString(s) {
		d.at += end + 2
		return s
	}
	for end = 0; inner[end] != '"'; end++ {
		if inner[end] == '\\' {
			end++
		}
	}
	quoted := d.data[d.at : d.at+end+2]
	d.at += len(quoted)
	var s string
	_ = json.Unmarshal(quoted, &s) // cannot fail: all of data is valid
	return s
}

func (d *Decoder) number() (Value, error) {
	end := d.at
	for end < len(d.text) && strings.IndexByte("+-.eE0123456789", d.text[end]) >= 0 {
		end++
	}
	n := json.Number(d.text[d.at:end])
	d.at = end
	if !strings.ContainsAny(string(n), ".eE") {
		if i, err := n.Int64(); err == nil {
			return i, nil
		}
		if len(n) > maxDigits {
			return nil, fmt.Errorf("an integer has more than %d digits", maxDigits)
		}
		return Number(n), nil
	}
	f, err := n.Float64()
	if err != nil && f == 0 {
		return nil, errors.New("malformed number")
	}
	return f, nil // out of range is infinite, as in Python
}
