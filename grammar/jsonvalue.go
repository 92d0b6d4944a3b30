package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// value is a JSON value that remembers the order of its members.
type value struct {
	kind  valueKind
	text  string   // of a string; of a number as it was written; "true" or "false"
	items []*value // of an array, or the values of an object
	keys  []string // of an object
	key   string   // see builder.keyOf; "" = not known yet
}

type valueKind uint8

const (
	nullValue valueKind = iota
	boolValue
	numberValue
	stringValue
	arrayValue
	objectValue
)

// member returns the value of a key, nil if there is none.
func (v *value) member(key string) *value {
	if v.kind == objectValue {
		if i := slices.Index(v.keys, key); i >= 0 {
			return v.items[i]
		}
	}
	return nil
}

// parseJSON reads one value from outside.
func parseJSON(data []byte, o Options) (*value, *infer.Error) {
	d := &decoder{Decoder: json.NewDecoder(bytes.NewReader(data)), opts: o}
	d.UseNumber()
	v, err := d.value(0)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = o.invalid("", "there is more after the end of the JSON value")
		}
	}
	return v, err
}

type decoder struct {
	*json.Decoder
	opts Options
}

func (d *decoder) next() (json.Token, *infer.Error) {
	t, err := d.Token()
	if err != nil {
		return nil, d.opts.invalid("", "not JSON, at byte %d", d.InputOffset())
	}
	return t, nil
}

func (d *decoder) value(depth int) (*value, *infer.Error) {
	if depth > maxNesting {
		return nil, d.opts.invalid("", "it nests deeper than the limit of %d", maxNesting)
	}
	t, err := d.next()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		return &value{kind: nullValue}, nil
	case bool:
		return &value{kind: boolValue, text: strconv.FormatBool(t)}, nil
	case json.Number:
		return &value{kind: numberValue, text: t.String()}, nil
	case string:
		return &value{kind: stringValue, text: t}, nil
	case json.Delim:
		if t == '[' {
			return d.array(depth)
		}
	}
	return d.object(depth)
}

func (d *decoder) array(depth int) (*value, *infer.Error) {
	v := &value{kind: arrayValue}
	for d.More() {
		item, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, item)
	}
	_, err := d.next()
	return v, err
}

func (d *decoder) object(depth int) (*value, *infer.Error) {
	v := &value{kind: objectValue}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.next()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		if seen[key] {
			return nil, d.opts.invalid("", "member %q appears twice", short(key))
		}
		seen[key] = true
		item, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		v.keys, v.items = append(v.keys, key), append(v.items, item)
	}
	_, err := d.next()
	return v, err
}

// maxExponent bounds the exponents of numbers in a schema.
const maxExponent = 400

// rat returns the exact value of a number, false if it is too long to handle.
func (v *value) rat() (*big.Rat, bool) {
	if i := strings.IndexAny(v.text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(v.text[i+1:]); err != nil || e > maxExponent || e < -maxExponent {
			return nil, false
		}
	}
	if len(v.text) > maxExponent {
		return nil, false
	}
	return new(big.Rat).SetString(v.text)
}

// ratWork estimates what it takes to read a number exactly, and to compare it.
func (v *value) ratWork() int {
	work := 50 + len(v.text)
	if i := strings.IndexAny(v.text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(v.text[i+1:]); err == nil {
			work += min(max(e, -e), maxExponent)
		}
	}
	return work
}

// keyOf returns the same text for values that are equal as JSON Schema compares
// them: numbers by value, objects without order.
func (b *builder) keyOf(v *value) string {
	b.spend(2)
	if v.key == "" {
		v.key = b.newKey(v)
		b.spend(20 + len(v.key)/2)
	}
	return v.key
}

func (b *builder) newKey(v *value) string {
	kind := strconv.Itoa(int(v.kind)) + ":"
	switch v.kind {
	case numberValue:
		return kind + decimalKey(v.text)
	case arrayValue, objectValue:
		parts := make([]string, len(v.items))
		for i, item := range v.items {
			key := b.keyOf(item)
			if v.kind == objectValue {
				key = strconv.Quote(v.keys[i]) + key
			}
			parts[i] = strconv.Itoa(len(key)) + " " + key
		}
		if v.kind == objectValue {
			slices.Sort(parts)
		}
		return kind + strings.Join(parts, "")
	}
	return kind + v.text
}

// decimalKey writes a JSON number as digits without zeros at either end, and the
// power of ten behind the last of them.
func decimalKey(text string) string {
	digits, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.ParseInt(text[i+1:], 10, 32)
		if err != nil {
			return text // beyond what is handled: equal to itself
		}
		digits, exponent = text[:i], int(e)
	}
	digits, minus := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "0"
	}
	exponent += len(digits) - len(trimmed) - len(fraction)
	if minus {
		trimmed = "-" + trimmed
	}
	return trimmed + "e" + strconv.Itoa(exponent)
}

// valueExpr matches v as JSON.
func (b *builder) valueExpr(v *value) *expr {
	b.spend(10)
	switch v.kind {
	case nullValue:
		return lit("null")
	case boolValue:
		return lit(v.text)
	case numberValue:
		b.spend(100 + 2*v.ratWork())
		return v.numberExpr()
	case stringValue:
		b.spend(4 * len(v.text))
		return cat(lit(`"`), jsonText(v.text), lit(`"`))
	}
	open, end := "[", "]"
	if v.kind == objectValue {
		open, end = "{", "}"
	}
	parts := []*expr{lit(open)}
	for i, item := range v.items {
		if i > 0 {
			parts = append(parts, comma)
		}
		if v.kind == objectValue {
			b.spend(4 * len(v.keys[i]))
			parts = append(parts, lit(`"`), jsonText(v.keys[i]), lit(`"`), colon)
		}
		parts = append(parts, b.valueExpr(item))
	}
	b.spend(4 * len(parts))
	return cat(append(parts, lit(end))...)
}

// numberExpr matches a number as the schema writes it, and as encoding/json
// does.
func (v *value) numberExpr() *expr {
	spellings := []string{v.text}
	if f, err := strconv.ParseFloat(v.text, 64); err == nil {
		exact, ok := v.rat()
		if own, err := json.Marshal(f); err == nil && ok && exact.Cmp(new(big.Rat).SetFloat64(f)) == 0 {
			spellings = append(spellings, string(own))
		}
	}
	return literals(spellings)
}
