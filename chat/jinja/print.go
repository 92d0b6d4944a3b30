package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// write appends str(v), which is what {{ v }} shows.
func (r *run) write(b *builder, v Value) error {
	switch v := v.(type) {
	case Text:
		b.text(v)
		return b.err
	case Undefined:
		return nil
	}
	return r.repr(b, v, 0)
}

// toText is Python's str().
func (r *run) toText(v Value) (Text, error) {
	if t, ok := v.(Text); ok {
		return t, nil
	}
	b := r.builder()
	if err := r.write(b, v); err != nil {
		return Text{}, err
	}
	return b.done()
}

// repr appends Python's repr(v).
func (r *run) repr(b *builder, v Value, depth int) error {
	if depth > maxNesting {
		return r.errorf("values nest deeper than %d levels", maxNesting)
	}
	if err := r.step(); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		b.plain("None")
	case bool:
		b.plain(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.plain(strconv.FormatInt(v, 10))
	case float64:
		b.plain(formatFloat(v))
	case Number:
		b.plain(string(v))
	case Text:
		reprText(b, v)
	case Undefined:
		b.plain("Undefined")
	case *List:
		return r.reprList(b, v, depth)
	case *Dict:
		return r.reprDict(b, v, depth)
	case *namespace:
		b.plain("<Namespace ")
		if err := r.reprDict(b, &v.attrs, depth); err != nil {
			return err
		}
		b.plain(">")
	case *function:
		b.plain("<Macro '" + v.name + "'>")
	default:
		b.plain("<" + typeName(v) + ">")
	}
	return b.err
}

func (r *run) reprList(b *builder, v *List, depth int) error {
	open, end := "[", "]"
	if v.tuple {
		open, end = "(", ")"
		if len(v.Items) == 1 {
			end = ",)"
		}
	}
	b.plain(open)
	for i, item := range v.Items {
		if i > 0 {
			b.plain(", ")
		}
		if err := r.repr(b, item, depth+1); err != nil {
			return err
		}
	}
	b.plain(end)
	return b.err
}

func (r *run) reprDict(b *builder, d *Dict, depth int) error {
	b.plain("{")
	for i, k := range d.keys {
		if i > 0 {
			b.plain(", ")
		}
		if err := r.repr(b, k, depth+1); err != nil {
			return err
		}
		b.plain(": ")
		if err := r.repr(b, d.vals[i], depth+1); err != nil {
			return err
		}
	}
	b.plain("}")
	return b.err
}

// reprText appends a string literal as Python prints it.
func reprText(b *builder, t Text) {
	quote := "'"
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		quote = `"`
	}
	b.plain(quote)
	escapeRuns(b, t, func(c rune) string {
		switch c {
		case rune(quote[0]), '\\':
			return "\\" + string(c)
		case '\n':
			return `\n`
		case '\r':
			return `\r`
		case '\t':
			return `\t`
		}
		switch {
		case c == ' ' || unicode.IsPrint(c):
			return ""
		case c < 0x100:
			return `\x` + hex(c, 2)
		case c < 0x10000:
			return `\u` + hex(c, 4)
		}
		return `\U` + hex(c, 8)
	})
	b.plain(quote)
}

func hex(c rune, width int) string {
	s := strconv.FormatInt(int64(c), 16)
	return strings.Repeat("0", width-len(s)) + s
}

// escapeRuns appends t with the characters for which escape is not "" replaced.
func escapeRuns(b *builder, t Text, escape func(c rune) string) {
	from := 0
	for i := 0; i < len(t.s); {
		c, n := rune(t.s[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRuneInString(t.s[i:])
		}
		if text := escape(c); text != "" {
			b.text(t.Slice(from, i))
			b.as(text, t, i)
			from = i + n
		}
		i += n
	}
	b.text(t.Slice(from, len(t.s)))
}

// formatFloat is Python's repr of a float: the shortest form that reads back,
// with an exponent below 1e-4 and from 1e16 on.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
