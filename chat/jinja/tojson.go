package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// encoder writes JSON as Python's json.dumps.
type encoder struct {
	r         *run
	b         *builder
	item, key string // separators
	indent    string // of one level
	lines     bool   // one element per line
	ascii     bool
	sortKeys  bool
}

// filterToJSON is transformers' tojson:
// json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False).
func filterToJSON(r *run, a args) (Value, error) {
	p, err := a.bind(r, "tojson", "x", "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	e := &encoder{r: r, b: r.builder(), item: ", ", key: ": "}
	e.ascii, e.sortKeys = given(p[1]) && truthy(p[1]), given(p[4]) && truthy(p[4])
	if given(p[2]) && p[2] != nil {
		e.lines, e.item = true, ","
		switch n := p[2].(type) {
		case Text:
			e.indent = n.s
		case int64:
			e.indent = strings.Repeat(" ", int(min(max(n, 0), 64)))
		default:
			return nil, r.errorf("tojson: indent must be a number or a string, not %s", typeName(n))
		}
	}
	if given(p[3]) && p[3] != nil {
		pair, ok := p[3].(*List)
		if !ok || len(pair.Items) != 2 {
			return nil, r.errorf("tojson: separators must be two strings")
		}
		item, ok1 := pair.Items[0].(Text)
		key, ok2 := pair.Items[1].(Text)
		if !ok1 || !ok2 {
			return nil, r.errorf("tojson: separators must be two strings")
		}
		e.item, e.key = item.s, key.s
	}
	if err := e.value(p[0], 0); err != nil {
		return nil, err
	}
	return e.b.value()
}

// given reports whether a parameter was passed.
func given(v Value) bool {
	_, missing := v.(unset)
	return !missing
}

func (e *encoder) value(v Value, depth int) error {
	if depth > maxNesting {
		return e.r.errorf("values nest deeper than %d levels", maxNesting)
	}
	if err := e.r.step(); err != nil {
		return err
	}
	switch v := v.(type) {
	case Text:
		e.text(v)
	case *List:
		return e.list(v, depth)
	case *Dict:
		return e.dict(v, depth)
	default:
		s, ok := e.scalar(v)
		if !ok {
			return e.r.errorf("Object of type %s is not JSON serializable", typeName(v))
		}
		e.b.plain(s)
	}
	return e.b.err
}

// scalar encodes what is neither a string nor a container.
func (e *encoder) scalar(v Value) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case Number:
		return string(v), true
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN", true
		case math.IsInf(v, 0):
			return map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0], true
		}
		return formatFloat(v), true
	}
	return "", false
}

// newline starts a line at the given depth.
func (e *encoder) newline(depth int) {
	if !e.lines {
		return
	}
	e.b.plain("\n")
	for range depth {
		e.b.plain(e.indent)
	}
}

func (e *encoder) list(v *List, depth int) error {
	if len(v.Items) == 0 {
		e.b.plain("[]")
		return e.b.err
	}
	e.b.plain("[")
	for i, item := range v.Items {
		if i > 0 {
			e.b.plain(e.item)
		}
		e.newline(depth + 1)
		if err := e.value(item, depth+1); err != nil {
			return err
		}
	}
	e.newline(depth)
	e.b.plain("]")
	return e.b.err
}

func (e *encoder) dict(d *Dict, depth int) error {
	if len(d.keys) == 0 {
		e.b.plain("{}")
		return e.b.err
	}
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if e.sortKeys {
		if err := e.sort(d, order); err != nil {
			return err
		}
	}
	e.b.plain("{")
	for n, i := range order {
		if n > 0 {
			e.b.plain(e.item)
		}
		e.newline(depth + 1)
		if key, ok := d.keys[i].(Text); ok {
			e.text(key)
		} else {
			s, _ := e.scalar(d.keys[i])
			e.b.plain(`"` + s + `"`)
		}
		e.b.plain(e.key)
		if err := e.value(d.vals[i], depth+1); err != nil {
			return err
		}
	}
	e.newline(depth)
	e.b.plain("}")
	return e.b.err
}

// sort orders the entries of d by key.
func (e *encoder) sort(d *Dict, order []int) error {
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		n, _, err := e.r.order("<", d.keys[i], d.keys[j], 0)
		if err != nil {
			failed = err
		}
		return n
	})
	return failed
}

// text writes a JSON string; its quotes are the template's, the rest has the
// origin of what it encodes.
func (e *encoder) text(t Text) {
	e.b.plain(`"`)
	escapeRuns(e.b, t, func(c rune) string {
		switch c {
		case '"', '\\':
			return "\\" + string(c)
		case '\n':
			return `\n`
		case '\r':
			return `\r`
		case '\t':
			return `\t`
		case '\b':
			return `\b`
		case '\f':
			return `\f`
		}
		switch {
		case c < 0x20 || e.ascii && c == 0x7f:
			return `\u` + hex(c, 4)
		case !e.ascii || c < 0x7f:
			return ""
		case c < 0x10000:
			return `\u` + hex(c, 4)
		}
		high, low := utf16.EncodeRune(c)
		return `\u` + hex(high, 4) + `\u` + hex(low, 4)
	})
	e.b.plain(`"`)
}
