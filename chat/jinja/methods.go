package jinja

import (
	"strings"
	"unicode"
)

// textMethod returns a bound method of str, nil if there is none of that name.
func textMethod(t Text, name string) *function {
	m, ok := textMethods[name]
	if !ok {
		return nil
	}
	return &function{name, func(r *run, a args) (Value, error) {
		if err := r.scan(t); err != nil {
			return nil, err
		}
		return m(r, t, a)
	}}
}

// textMethods are the methods of str. Those that only ask something of the
// characters are in textPredicates.
var textMethods map[string]func(r *run, t Text, a args) (Value, error)

func init() {
	textMethods = map[string]func(r *run, t Text, a args) (Value, error){
		"strip":  func(r *run, t Text, a args) (Value, error) { return stripMethod(r, t, a, true, true) },
		"lstrip": func(r *run, t Text, a args) (Value, error) { return stripMethod(r, t, a, true, false) },
		"rstrip": func(r *run, t Text, a args) (Value, error) { return stripMethod(r, t, a, false, true) },
		"split":  splitMethod, "rsplit": rsplitMethod, "splitlines": splitlinesMethod,
		"partition":  func(r *run, t Text, a args) (Value, error) { return partition(r, t, a, strings.Index, false) },
		"rpartition": func(r *run, t Text, a args) (Value, error) { return partition(r, t, a, strings.LastIndex, true) },
		"startswith": func(r *run, t Text, a args) (Value, error) { return affix(r, t, a, strings.HasPrefix) },
		"endswith":   func(r *run, t Text, a args) (Value, error) { return affix(r, t, a, strings.HasSuffix) },
		"removeprefix": func(r *run, t Text, a args) (Value, error) {
			s, err := textArg(r, a)
			return t.Slice(len(t.s)-len(strings.TrimPrefix(t.s, s.s)), len(t.s)), err
		},
		"removesuffix": func(r *run, t Text, a args) (Value, error) {
			s, err := textArg(r, a)
			return t.Slice(0, len(strings.TrimSuffix(t.s, s.s))), err
		},
		"replace": replaceMethod, "join": joinMethod, "format": formatMethod,
		"find":  func(r *run, t Text, a args) (Value, error) { return find(r, t, a, strings.Index) },
		"rfind": func(r *run, t Text, a args) (Value, error) { return find(r, t, a, strings.LastIndex) },
		"index": indexMethod,
		"count": func(r *run, t Text, a args) (Value, error) {
			s, err := textArg(r, a)
			return int64(strings.Count(t.s, s.s)), err
		},
		"lower": func(r *run, t Text, _ args) (Value, error) {
			return r.mapRunes(t, func(_ int, c rune) string { return strings.ToLower(string(c)) })
		},
		"upper": func(r *run, t Text, _ args) (Value, error) {
			return r.mapRunes(t, func(_ int, c rune) string { return upper(c) })
		},
		"casefold": func(r *run, t Text, _ args) (Value, error) {
			return r.mapRunes(t, func(_ int, c rune) string { return strings.ToLower(string(c)) })
		},
		"swapcase": func(r *run, t Text, _ args) (Value, error) {
			return r.mapRunes(t, func(_ int, c rune) string {
				if unicode.IsUpper(c) {
					return strings.ToLower(string(c))
				}
				return upper(c)
			})
		},
		"capitalize": func(r *run, t Text, _ args) (Value, error) {
			return r.mapRunes(t, func(i int, c rune) string { return inCase(c, i == 0) })
		},
		"title": func(r *run, t Text, _ args) (Value, error) {
			inWord := false
			return r.mapRunes(t, func(_ int, c rune) string {
				first := !inWord
				inWord = unicode.IsLetter(c)
				return inCase(c, first)
			})
		},
		"ljust":  func(r *run, t Text, a args) (Value, error) { return justify(r, t, a, padRight) },
		"rjust":  func(r *run, t Text, a args) (Value, error) { return justify(r, t, a, padLeft) },
		"center": func(r *run, t Text, a args) (Value, error) { return justify(r, t, a, padCenter) },
		"zfill":  zfillMethod,
	}
	for name, is := range textPredicates {
		textMethods[name] = func(_ *run, t Text, _ args) (Value, error) { return is(t.s), nil }
	}
}

// textPredicates are true for a string that is not empty and passes throughout.
var textPredicates = map[string]func(s string) bool{
	"isdigit":   every(unicode.IsDigit),
	"isdecimal": every(unicode.IsDigit),
	"isnumeric": every(unicode.IsNumber),
	"isalpha":   every(unicode.IsLetter),
	"isalnum":   every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
	"isspace":   every(isSpace),
	"islower":   func(s string) bool { return s == strings.ToLower(s) && s != strings.ToUpper(s) },
	"isupper":   func(s string) bool { return s == strings.ToUpper(s) && s != strings.ToLower(s) },
}

func every(is func(c rune) bool) func(s string) bool {
	return func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
	}
}

// upper is str.upper for one character: ß has two capitals.
func upper(c rune) string {
	if c == 'ß' {
		return "SS"
	}
	return strings.ToUpper(string(c))
}

func inCase(c rune, capital bool) string {
	if capital {
		return string(unicode.ToTitle(c))
	}
	return strings.ToLower(string(c))
}

// first returns the first positional argument, or unset.
func first(a args) Value {
	if len(a.pos) == 0 {
		return unset{}
	}
	return a.pos[0]
}

// textArg returns the one string argument of a method.
func textArg(r *run, a args) (Text, error) {
	t, ok := first(a).(Text)
	if !ok {
		return t, r.errorf("a string argument is needed, got %s", typeName(first(a)))
	}
	return t, nil
}

// strip cuts characters off the ends of t: those in chars, or blanks.
func (r *run) strip(t Text, chars Value, left, right bool) (Value, error) {
	cut := isSpace
	if given(chars) && chars != nil {
		set, ok := chars.(Text)
		if !ok {
			return nil, r.errorf("strip arg must be None or str, not %s", typeName(chars))
		}
		// What looking characters up in a long set costs, as if it were memory.
		if err := r.charge(len(t.s) * (len(set.s) / 64)); err != nil {
			return nil, err
		}
		cut = func(c rune) bool { return strings.ContainsRune(set.s, c) }
	}
	from, to := 0, len(t.s)
	if left {
		from = len(t.s) - len(strings.TrimLeftFunc(t.s, cut))
	}
	if right {
		to = max(from, len(strings.TrimRightFunc(t.s, cut)))
	}
	return t.Slice(from, to), nil
}

func stripMethod(r *run, t Text, a args, left, right bool) (Value, error) {
	return r.strip(t, first(a), left, right)
}

// affix is startswith and endswith, with one string or a tuple of them.
func affix(r *run, t Text, a args, has func(s, x string) bool) (Value, error) {
	options := []Value{first(a)}
	if l, ok := first(a).(*List); ok && l.tuple {
		options = l.Items
	}
	for _, v := range options {
		x, ok := v.(Text)
		if !ok {
			return nil, r.errorf("first arg must be str or a tuple of str, not %s", typeName(v))
		}
		if has(t.s, x.s) {
			return true, nil
		}
	}
	return false, nil
}

// replace replaces the first n occurrences of old, all if n < 0.
func (r *run) replace(t, old, new Text, n int) (Value, error) {
	if old.s == "" {
		return r.interleave(t, new, n)
	}
	b := r.builder()
	at := 0
	for ; n != 0 && b.err == nil; n-- {
		i := strings.Index(t.s[at:], old.s)
		if i < 0 {
			break
		}
		b.text(t.Slice(at, at+i))
		b.text(new)
		at += i + len(old.s)
	}
	b.text(t.Slice(at, len(t.s)))
	return b.value()
}

// interleave puts sep before each of the first n characters and, if any of n is
// left, at the end: what replacing the empty string means.
func (r *run) interleave(t, sep Text, n int) (Value, error) {
	c, err := r.chars(t)
	if err != nil {
		return nil, err
	}
	b := r.builder()
	for i := 0; i <= c.n && b.err == nil; i++ {
		if n != 0 {
			b.text(sep)
			n--
		}
		if i < c.n {
			b.text(t.Slice(c.at(i), c.at(i+1)))
		}
	}
	return b.value()
}

func replaceMethod(r *run, t Text, a args) (Value, error) {
	p, err := a.bind(r, "replace", "old", "new", "count")
	if err != nil {
		return nil, err
	}
	old, ok1 := p[0].(Text)
	to, ok2 := p[1].(Text)
	if !ok1 || !ok2 {
		return nil, r.errorf("replace() arguments must be strings")
	}
	n, err := r.intOr(p[2], -1)
	if err != nil {
		return nil, err
	}
	return r.replace(t, old, to, n)
}

func joinMethod(r *run, t Text, a args) (Value, error) {
	items, err := r.iterate(first(a))
	if err != nil {
		return nil, err
	}
	for _, v := range items {
		if _, ok := v.(Text); !ok {
			return nil, r.errorf("sequence item: expected str instance, %s found", typeName(v))
		}
	}
	return r.join(items, t)
}

// find returns the number of the character where the argument is found, or -1.
func find(r *run, t Text, a args, index func(s, x string) int) (Value, error) {
	x, err := textArg(r, a)
	if err != nil {
		return nil, err
	}
	i := index(t.s, x.s)
	if i < 0 {
		return int64(-1), nil
	}
	c, err := r.chars(t.Slice(0, i))
	return int64(c.n), err
}

func indexMethod(r *run, t Text, a args) (Value, error) {
	i, err := find(r, t, a, strings.Index)
	if err == nil && i == int64(-1) {
		return nil, r.errorf("substring not found")
	}
	return i, err
}

type padding uint8

const (
	padRight padding = iota
	padLeft
	padCenter
)

// pad fills t up to width characters.
func (r *run) pad(t Text, width int, fill rune, side padding) (Value, error) {
	c, err := r.chars(t)
	if err != nil {
		return nil, err
	}
	left, right := 0, max(0, width-c.n)
	switch side {
	case padLeft:
		left, right = right, 0
	case padCenter:
		left = right/2 + (right & width & 1)
		right -= left
	}
	if left+right > r.lim.MaxOutput {
		return nil, r.tooLong()
	}
	b := r.builder()
	b.plain(strings.Repeat(string(fill), left))
	b.text(t)
	b.plain(strings.Repeat(string(fill), right))
	return b.value()
}

// zfillMethod fills with zeros after a sign.
func zfillMethod(r *run, t Text, a args) (Value, error) {
	width, err := r.intOr(first(a), 0)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(t.s, "-") && !strings.HasPrefix(t.s, "+") {
		return r.pad(t, width, '0', padLeft)
	}
	digits, err := r.pad(t.Slice(1, len(t.s)), width-1, '0', padLeft)
	if err != nil {
		return nil, err
	}
	return r.binary("+", t.Slice(0, 1), digits)
}

func justify(r *run, t Text, a args, side padding) (Value, error) {
	p, err := a.bind(r, "justify", "width", "fillchar")
	if err != nil {
		return nil, err
	}
	width, err := r.intOr(p[0], 0)
	if err != nil {
		return nil, err
	}
	fill, err := r.textOr(p[1], " ")
	if err != nil {
		return nil, err
	}
	if runes := []rune(fill.s); len(runes) == 1 {
		return r.pad(t, width, runes[0], side)
	}
	return nil, r.errorf("the fill character must be exactly one character long")
}

// listMethod returns a bound method of list. The methods that change a list are
// missing: the sandbox of transformers forbids them too.
func listMethod(l *List, name string) *function {
	switch name {
	case "index", "count":
	default:
		return nil
	}
	return &function{name, func(r *run, a args) (Value, error) {
		n := int64(0)
		for i, v := range l.Items {
			same, err := r.equal(v, first(a), 0)
			if err != nil {
				return nil, err
			}
			if same && name == "index" {
				return int64(i), nil
			}
			if same {
				n++
			}
		}
		if name == "index" {
			return nil, r.errorf("the value is not in the list")
		}
		return n, nil
	}}
}

// dictMethod returns a bound method of dict, nil if there is none of that name.
func dictMethod(d *Dict, name string) *function {
	switch name {
	case "items":
		return &function{name, func(r *run, _ args) (Value, error) { return pairs(r, d) }}
	case "keys":
		return &function{name, func(r *run, _ args) (Value, error) { return &List{Items: d.keys}, r.elements(d.Len()) }}
	case "values":
		return &function{name, func(r *run, _ args) (Value, error) { return &List{Items: d.vals}, r.elements(d.Len()) }}
	case "get":
		return &function{name, d.get}
	case "copy":
		return &function{name, func(r *run, _ args) (Value, error) { return d, nil }} // nothing can change it
	}
	return nil
}

// get is dict.get.
func (d *Dict) get(r *run, a args) (Value, error) {
	p, err := a.bind(r, "get", "key", "default")
	if err != nil {
		return nil, err
	}
	k, ok := keyOf(p[0])
	if !ok {
		return nil, r.errorf("unhashable type: '%s'", typeName(p[0]))
	}
	if i := d.find(k); i >= 0 {
		return d.vals[i], nil
	}
	if given(p[1]) {
		return p[1], nil
	}
	return nil, nil
}
