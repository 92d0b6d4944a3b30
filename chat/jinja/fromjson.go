package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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

// MaxJSONDepth is how deep lists and objects may be nested in what is decoded.
const MaxJSONDepth = 64

// DecodeJSON returns the value of one JSON text, with the order of keys kept and
// every string marked with its origin. As in Python, of equal keys the last one's
// value counts.
func DecodeJSON(data []byte, from Origin) (Value, error) {
	d := decoder{json.NewDecoder(bytes.NewReader(data)), from}
	d.UseNumber()
	v, err := d.value(MaxJSONDepth)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

type decoder struct {
	*json.Decoder
	from Origin
}

// text marks s with the origin.
func (d decoder) text(s string) Text {
	if d.from == FromClient {
		return Client(s)
	}
	return Plain(s)
}

// value reads one value that may nest depth levels deep.
func (d decoder) value(depth int) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, errors.New("malformed JSON")
	}
	switch t := t.(type) {
	case string:
		return d.text(t), nil
	case bool:
		return t, nil
	case json.Number:
		return decodeNumber(t)
	case json.Delim:
		if depth == 0 {
			return nil, fmt.Errorf("lists and objects are nested deeper than %d levels", MaxJSONDepth)
		}
		if t == '{' {
			return d.object(depth - 1)
		}
		return d.array(depth - 1)
	}
	return nil, nil
}

func decodeNumber(n json.Number) (Value, error) {
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

func (d decoder) array(depth int) (Value, error) {
	list := &List{}
	for d.More() {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v)
	}
	return list, d.end()
}

func (d decoder) object(depth int) (Value, error) {
	dict := &Dict{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, errors.New("malformed JSON")
		}
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		dict.set(d.text(key.(string)), v)
	}
	return dict, d.end()
}

// end reads the end of a list or object.
func (d decoder) end() error {
	if _, err := d.Token(); err != nil {
		return errors.New("malformed JSON")
	}
	return nil
}
