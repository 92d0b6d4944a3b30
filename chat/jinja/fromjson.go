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

// DecodeJSON returns the value of one JSON text, with the order of keys kept and
// every string marked as a client's. Lists and objects may be nested to maxDepth
// levels. As in Python, of equal keys the last one's value counts.
func DecodeJSON(data []byte, maxDepth int) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, maxDepth)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, errors.New("malformed JSON")
	}
	switch t := t.(type) {
	case string:
		return Client(t), nil
	case bool:
		return t, nil
	case json.Number:
		return decodeNumber(t)
	case json.Delim:
		if depth <= 0 {
			return nil, errors.New("too many nested lists and objects")
		}
		if t == '{' {
			return decodeObject(d, depth-1)
		}
		return decodeArray(d, depth-1)
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

func decodeArray(d *json.Decoder, depth int) (Value, error) {
	list := &List{}
	for d.More() {
		v, err := decodeValue(d, depth)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v)
	}
	return list, endOf(d)
}

func decodeObject(d *json.Decoder, depth int) (Value, error) {
	dict := &Dict{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, errors.New("malformed JSON")
		}
		v, err := decodeValue(d, depth)
		if err != nil {
			return nil, err
		}
		dict.set(Client(key.(string)), v)
	}
	return dict, endOf(d)
}

func endOf(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return errors.New("malformed JSON")
	}
	return nil
}
