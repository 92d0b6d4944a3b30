package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// builtin is a filter: the value that is piped comes first in a.pos.
type builtin func(r *run, a args) (Value, error)

// filters is filled by init because filters such as map look filters up.
var filters map[string]builtin

func init() {
	filters = map[string]builtin{
		"abs": filterAbs, "attr": filterAttr, "batch": filterBatch, "capitalize": method("capitalize"),
		"center": filterCenter, "count": filterLength, "d": filterDefault, "default": filterDefault,
		"dictsort": filterDictsort, "e": filterEscape, "escape": filterEscape, "first": filterFirst,
		"float": filterFloat, "forceescape": filterEscape, "format": filterFormat, "groupby": filterGroupby,
		"indent": filterIndent, "int": filterInt, "items": filterItems, "join": filterJoin,
		"last": filterLast, "length": filterLength, "list": filterList, "lower": method("lower"),
		"map": filterMap, "max": filterMax, "min": filterMin, "reject": filterReject,
		"rejectattr": filterRejectattr, "replace": filterReplace, "reverse": filterReverse,
		"round": filterRound, "safe": filterSafe, "select": filterSelect, "selectattr": filterSelectattr,
		"slice": filterSlice, "sort": filterSort, "string": filterString, "sum": filterSum,
		"title": filterTitle, "tojson": filterToJSON, "trim": filterTrim, "truncate": filterTruncate,
		"unique": filterUnique, "upper": method("upper"), "wordcount": filterWordcount,
	}
}

// filter applies a filter by name.
func (r *run) filter(name string, a args) (Value, error) {
	f, ok := filters[name]
	if !ok {
		return nil, r.errorf("no filter named '%s'", name)
	}
	if err := r.step(); err != nil {
		return nil, err
	}
	if t, ok := a.pos[0].(Text); ok {
		if err := r.scan(t); err != nil {
			return nil, err
		}
	}
	return f(r, a)
}

// method makes a filter of a method of str.
func method(name string) builtin {
	return func(r *run, a args) (Value, error) {
		t, err := r.toText(a.pos[0])
		if err != nil {
			return nil, err
		}
		return textMethod(t, name).call(r, args{pos: a.pos[1:], names: a.names, kw: a.kw})
	}
}

// textOr returns a parameter as text, or what stands for it if it was not given.
func (r *run) textOr(v Value, absent string) (Text, error) {
	if !given(v) {
		return Plain(absent), nil
	}
	return r.toText(v)
}

// intOr returns a parameter as an integer, or what stands for it if it was not given.
func (r *run) intOr(v Value, absent int) (int, error) {
	if !given(v) {
		return absent, nil
	}
	i, _, isFloat, ok := asNumber(v)
	if !ok || isFloat {
		return 0, r.errorf("expected an integer, got %s", typeName(v))
	}
	return int(min(max(i, -1<<31), 1<<31-1)), nil
}

func (r *run) boolOr(v Value, absent bool) bool {
	if !given(v) {
		return absent
	}
	return truthy(v)
}

func filterDefault(r *run, a args) (Value, error) {
	p, err := a.bind(r, "default", "value", "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if _, missing := p[0].(Undefined); !missing && (!r.boolOr(p[2], false) || truthy(p[0])) {
		return p[0], nil
	}
	if !given(p[1]) {
		return Text{}, nil
	}
	return p[1], nil
}

func filterLength(r *run, a args) (Value, error) {
	switch v := a.pos[0].(type) {
	case *List:
		return int64(len(v.Items)), nil
	case *Dict:
		return int64(len(v.keys)), nil
	case Text:
		c, err := r.chars(v)
		return int64(c.n), err
	case Undefined:
		return int64(0), nil
	}
	return nil, r.errorf("object of type '%s' has no len()", typeName(a.pos[0]))
}

func filterString(r *run, a args) (Value, error) { return wrap(r.toText(a.pos[0])) }

// wrap turns a Text and an error into a Value and an error.
func wrap(t Text, err error) (Value, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

func filterSafe(_ *run, a args) (Value, error) { return a.pos[0], nil }

func filterTrim(r *run, a args) (Value, error) {
	p, err := a.bind(r, "trim", "value", "chars")
	if err != nil {
		return nil, err
	}
	t, err := r.toText(p[0])
	if err != nil {
		return nil, err
	}
	return r.strip(t, p[1], true, true)
}

func filterReplace(r *run, a args) (Value, error) {
	p, err := a.bind(r, "replace", "s", "old", "new", "count")
	if err != nil {
		return nil, err
	}
	var t [3]Text
	for i := range t {
		if !given(p[i]) {
			return nil, r.errorf("replace() needs the arguments old and new")
		}
		if t[i], err = r.toText(p[i]); err != nil {
			return nil, err
		}
	}
	n := -1
	if given(p[3]) && p[3] != nil {
		if n, err = r.intOr(p[3], -1); err != nil {
			return nil, err
		}
	}
	return r.replace(t[0], t[1], t[2], n)
}

func filterEscape(r *run, a args) (Value, error) {
	t, err := r.toText(a.pos[0])
	if err != nil {
		return nil, err
	}
	b := r.builder()
	escapeRuns(b, t, func(c rune) string {
		switch c {
		case '&':
			return "&amp;"
		case '<':
			return "&lt;"
		case '>':
			return "&gt;"
		case '"':
			return "&#34;"
		case '\'':
			return "&#39;"
		}
		return ""
	})
	return b.value()
}

// filterTitle differs from str.title: words start after blanks, hyphens and
// opening brackets.
func filterTitle(r *run, a args) (Value, error) {
	t, err := r.toText(a.pos[0])
	if err != nil {
		return nil, err
	}
	start := true
	return r.mapRunes(t, func(_ int, c rune) string {
		first := start
		start = unicode.IsSpace(c) || strings.ContainsRune("-([{<", c)
		if first {
			return strings.ToUpper(string(c))
		}
		return strings.ToLower(string(c))
	})
}

func filterIndent(r *run, a args) (Value, error) {
	p, err := a.bind(r, "indent", "s", "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	t, err := r.toText(p[0])
	if err != nil {
		return nil, err
	}
	pad, isText := p[1].(Text)
	if !isText {
		n, err := r.intOr(p[1], 4)
		if err != nil {
			return nil, err
		}
		pad = Plain(strings.Repeat(" ", min(max(n, 0), 1<<16)))
	}
	b := r.builder()
	if r.boolOr(p[2], false) {
		b.text(pad)
	}
	for from := 0; b.err == nil; {
		end := strings.IndexByte(t.s[from:], '\n')
		if end < 0 {
			b.text(t.Slice(from, len(t.s)))
			break
		}
		b.text(t.Slice(from, from+end+1))
		from += end + 1
		if r.boolOr(p[3], false) || (from < len(t.s) && t.s[from] != '\n') {
			b.text(pad)
		}
	}
	return b.value()
}

func filterCenter(r *run, a args) (Value, error) {
	p, err := a.bind(r, "center", "value", "width")
	if err != nil {
		return nil, err
	}
	t, err := r.toText(p[0])
	if err != nil {
		return nil, err
	}
	width, err := r.intOr(p[1], 80)
	if err != nil {
		return nil, err
	}
	return r.pad(t, width, ' ', padCenter)
}

func filterTruncate(r *run, a args) (Value, error) {
	p, err := a.bind(r, "truncate", "s", "length", "killwords", "end", "leeway")
	if err != nil {
		return nil, err
	}
	t, err := r.toText(p[0])
	if err != nil {
		return nil, err
	}
	length, err := r.intOr(p[1], 255)
	if err != nil {
		return nil, err
	}
	leeway, err := r.intOr(p[4], 5)
	if err != nil {
		return nil, err
	}
	end, err := r.textOr(p[3], "...")
	if err != nil {
		return nil, err
	}
	c, err := r.chars(t)
	if err != nil || c.n <= length+leeway {
		return t, err
	}
	keep := length - len([]rune(end.s))
	if keep < 0 {
		return nil, r.errorf("truncate: length %d is shorter than the end '%s'", length, end.s)
	}
	cut := t.Slice(0, c.at(keep))
	if i := strings.LastIndexByte(cut.s, ' '); i >= 0 && !r.boolOr(p[2], false) {
		cut = cut.Slice(0, i)
	}
	b := r.builder()
	b.text(cut)
	b.text(end)
	return b.value()
}

func filterWordcount(r *run, a args) (Value, error) {
	t, err := r.toText(a.pos[0])
	if err != nil {
		return nil, err
	}
	words := strings.FieldsFunc(t.s, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	return int64(len(words)), r.charge(16 * len(words))
}

func filterInt(r *run, a args) (Value, error) {
	p, err := a.bind(r, "int", "value", "default", "base")
	if err != nil {
		return nil, err
	}
	base, err := r.intOr(p[2], 10)
	if err != nil {
		return nil, err
	}
	switch v := p[0].(type) {
	case float64:
		if math.Abs(v) < 1<<62 {
			return int64(v), nil
		}
	case Text:
		s := strings.TrimFunc(strings.ReplaceAll(v.s, "_", ""), isSpace)
		if base >= 2 && base <= 36 {
			if n, err := strconv.ParseInt(s, base, 64); err == nil {
				return n, nil
			}
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<62 {
			return int64(f), nil
		}
	default:
		if i, _, _, ok := asNumber(v); ok {
			return i, nil
		}
	}
	if !given(p[1]) {
		return int64(0), nil
	}
	return p[1], nil
}

func filterFloat(r *run, a args) (Value, error) {
	p, err := a.bind(r, "float", "value", "default")
	if err != nil {
		return nil, err
	}
	if t, ok := p[0].(Text); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(t.s, isSpace), 64); err == nil {
			return f, nil
		}
	}
	if _, f, _, ok := asNumber(p[0]); ok {
		return f, nil
	}
	if !given(p[1]) {
		return 0.0, nil
	}
	return p[1], nil
}

func filterAbs(r *run, a args) (Value, error) {
	i, f, isFloat, ok := asNumber(a.pos[0])
	switch {
	case !ok:
		return nil, r.errorf("bad operand type for abs(): '%s'", typeName(a.pos[0]))
	case isFloat:
		return math.Abs(f), nil
	case i < 0:
		return r.sign("-", i)
	}
	return i, nil
}

func filterRound(r *run, a args) (Value, error) {
	p, err := a.bind(r, "round", "value", "precision", "method")
	if err != nil {
		return nil, err
	}
	precision, err := r.intOr(p[1], 0)
	if err != nil {
		return nil, err
	}
	how, err := r.textOr(p[2], "common")
	if err != nil {
		return nil, err
	}
	_, f, _, ok := asNumber(p[0])
	if !ok {
		return nil, r.errorf("type %s doesn't define __round__ method", typeName(p[0]))
	}
	scale := math.Pow(10, float64(precision))
	switch how.s {
	case "common":
		if precision >= 0 && precision <= 300 { // correctly rounded, halves to even
			f, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
			if err == nil {
				return f, nil
			}
		}
		return math.RoundToEven(f*scale) / scale, nil
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	return nil, r.errorf("round: method must be common, ceil or floor")
}
