package jinja

import (
	"strconv"
	"strings"
)

// filterFormat is value % args, or value % kwargs.
func filterFormat(r *run, a args) (Value, error) {
	t, err := r.toText(a.pos[0])
	if err != nil {
		return nil, err
	}
	if len(a.names) == 0 {
		return r.percent(t, &List{Items: a.pos[1:], tuple: true})
	}
	d := &Dict{}
	for i, name := range a.names {
		d.Set(name, a.kw[i])
	}
	return r.percent(t, d)
}

// percent is t % v: printf-style formatting with %s %r %d %i %u %x %X %o %f %F
// %e %g and %%, flags, width and precision, by position or by name.
func (r *run) percent(t Text, v Value) (Value, error) {
	f := &formatter{r: r, b: r.builder(), t: t, values: []Value{v}}
	if l, ok := v.(*List); ok && l.tuple {
		f.values = l.Items
	}
	f.named, _ = v.(*Dict)
	for f.b.err == nil {
		i := strings.IndexByte(t.s[f.at:], '%')
		if i < 0 {
			break
		}
		f.b.text(t.Slice(f.at, f.at+i))
		f.at += i + 1
		if err := f.directive(); err != nil {
			return nil, err
		}
	}
	if f.named == nil && f.used < len(f.values) {
		return nil, r.errorf("not all arguments converted during string formatting")
	}
	f.b.text(t.Slice(f.at, len(t.s)))
	return f.b.value()
}

type formatter struct {
	r      *run
	b      *builder
	t      Text
	at     int
	values []Value
	used   int
	named  *Dict
}

// directive writes what follows a '%'.
func (f *formatter) directive() error {
	rest := f.t.s[f.at:]
	if strings.HasPrefix(rest, "%") {
		f.at++
		f.b.plain("%")
		return nil
	}
	var v Value
	if strings.HasPrefix(rest, "(") && f.named != nil {
		end := strings.IndexByte(rest, ')')
		if end < 0 {
			return f.r.errorf("incomplete format key")
		}
		var ok bool
		if v, ok = f.named.Get(rest[1:end]); !ok {
			return f.r.errorf("no value for the format key '%s'", rest[1:end])
		}
		rest = rest[end+1:]
	} else {
		if f.used >= len(f.values) {
			return f.r.errorf("not enough arguments for format string")
		}
		v = f.values[f.used]
		f.used++
	}
	spec := spec{precision: -1}
	rest = spec.parse(rest)
	if rest == "" {
		return f.r.errorf("incomplete format")
	}
	f.at = len(f.t.s) - len(rest) + 1
	return f.r.convert(f.b, v, spec, rest[0])
}

// spec is the part of a directive between '%' and its letter.
type spec struct {
	left, zero, plus bool
	width, precision int // precision is -1 if absent
}

// parse reads a spec and returns what follows.
func (s *spec) parse(text string) string {
	for ; text != ""; text = text[1:] {
		switch text[0] {
		case '-':
			s.left = true
			continue
		case '0':
			s.zero = true
			continue
		case '+':
			s.plus = true
			continue
		case ' ', '#':
			continue
		}
		break
	}
	number := func() int {
		n := 0
		for text != "" && isDigit(text[0]) {
			n = min(n*10+int(text[0]-'0'), 1<<20)
			text = text[1:]
		}
		return n
	}
	s.width = number()
	if strings.HasPrefix(text, ".") {
		text = text[1:]
		s.precision = number()
	}
	return text
}

// convert writes v by one directive.
func (r *run) convert(b *builder, v Value, s spec, letter byte) error {
	var t Text
	var err error
	i, f, isFloat, isNumber := asNumber(v)
	if isFloat {
		i = int64(f)
	}
	switch letter {
	case 's':
		t, err = r.toText(v)
	case 'r':
		inner := r.builder()
		if err = r.repr(inner, v, 0); err == nil {
			t, err = inner.done()
		}
	case 'd', 'i', 'u', 'x', 'X', 'o', 'f', 'F', 'e', 'g':
		if !isNumber {
			return r.errorf("%%%c format: a number is required, not %s", letter, typeName(v))
		}
		t = Plain(formatNumber(i, f, s, letter))
	default:
		return r.errorf("unsupported format character '%c'", letter)
	}
	if err != nil {
		return err
	}
	if c, err := r.chars(t); err != nil {
		return err
	} else if (letter == 's' || letter == 'r') && s.precision >= 0 && s.precision < c.n {
		t = t.Slice(0, c.at(s.precision))
	}
	side, fill := padLeft, ' '
	if s.left {
		side = padRight
	} else if s.zero && letter != 's' && letter != 'r' {
		fill = '0'
		if t.s != "" && (t.s[0] == '-' || t.s[0] == '+') {
			b.plain(t.s[:1])
			t, s.width = t.Slice(1, len(t.s)), s.width-1
		}
	}
	padded, err := r.pad(t, s.width, fill, side)
	if err != nil {
		return err
	}
	b.text(padded.(Text))
	return b.err
}

func formatNumber(i int64, f float64, s spec, letter byte) string {
	precision := s.precision
	if precision < 0 {
		precision = 6
	}
	precision = min(precision, 1000)
	var out string
	switch letter {
	case 'x':
		out = strconv.FormatInt(i, 16)
	case 'X':
		out = strings.ToUpper(strconv.FormatInt(i, 16))
	case 'o':
		out = strconv.FormatInt(i, 8)
	case 'f', 'F':
		out = strconv.FormatFloat(f, 'f', precision, 64)
	case 'e', 'g':
		out = strconv.FormatFloat(f, letter, precision, 64)
	default:
		out = strconv.FormatInt(i, 10)
	}
	if s.plus && !strings.HasPrefix(out, "-") {
		out = "+" + out
	}
	return out
}

// formatMethod is str.format with {}, {0} and {name}, without format specs.
func formatMethod(r *run, t Text, a args) (Value, error) {
	b := r.builder()
	next, at := 0, 0
	for b.err == nil {
		i := strings.IndexAny(t.s[at:], "{}")
		if i < 0 {
			break
		}
		b.text(t.Slice(at, at+i))
		at += i
		rest := t.s[at:]
		if strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}") {
			b.text(t.Slice(at, at+1))
			at += 2
			continue
		}
		end := strings.IndexByte(rest, '}')
		if rest[0] == '}' || end < 0 {
			return nil, r.errorf("a single '%c' in a format string", rest[0])
		}
		v, err := field(r, a, rest[1:end], &next)
		if err != nil {
			return nil, err
		}
		if err := r.write(b, v); err != nil {
			return nil, err
		}
		at += end + 1
	}
	b.text(t.Slice(at, len(t.s)))
	return b.value()
}

// field returns the value that a replacement field names.
func field(r *run, a args, name string, next *int) (Value, error) {
	n, err := strconv.Atoi(name)
	if name == "" {
		n, err = *next, nil
		*next++
	}
	if err == nil {
		if n < 0 || n >= len(a.pos) {
			return nil, r.errorf("replacement index %d out of range", n)
		}
		return a.pos[n], nil
	}
	for i, kw := range a.names {
		if kw == name {
			return a.kw[i], nil
		}
	}
	return nil, r.errorf("no value for the replacement field '%s'", name)
}
