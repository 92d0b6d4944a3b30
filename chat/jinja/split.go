package jinja

import (
	"strings"
	"unicode/utf8"
)

// splitter collects the pieces of a text.
type splitter struct {
	r      *run
	pieces []Value
	err    error
}

func (s *splitter) add(t Text) {
	s.pieces = append(s.pieces, t)
	if s.err == nil {
		s.err = s.r.elements(1)
	}
}

func (s *splitter) value() (Value, error) { return &List{Items: s.pieces}, s.err }

// splitArgs reads the arguments of split and rsplit; sep is "" for blanks.
func splitArgs(r *run, name string, a args) (sep string, limit int, err error) {
	p, err := a.bind(r, name, "sep", "maxsplit")
	if err != nil {
		return "", 0, err
	}
	if limit, err = r.intOr(p[1], -1); err != nil {
		return "", 0, err
	}
	if !given(p[0]) || p[0] == nil {
		return "", limit, nil
	}
	t, ok := p[0].(Text)
	switch {
	case !ok:
		return "", 0, r.errorf("must be str or None, not %s", typeName(p[0]))
	case t.s == "":
		return "", 0, r.errorf("empty separator")
	}
	return t.s, limit, nil
}

func splitMethod(r *run, t Text, a args) (Value, error) {
	sep, limit, err := splitArgs(r, "split", a)
	if err != nil {
		return nil, err
	}
	s := &splitter{r: r}
	if sep == "" {
		return splitBlanks(s, t, limit)
	}
	at := 0
	for ; limit != 0 && s.err == nil; limit-- {
		i := strings.Index(t.s[at:], sep)
		if i < 0 {
			break
		}
		s.add(t.Slice(at, at+i))
		at += i + len(sep)
	}
	s.add(t.Slice(at, len(t.s)))
	return s.value()
}

// splitBlanks splits at runs of blanks; there are no empty pieces.
func splitBlanks(s *splitter, t Text, limit int) (Value, error) {
	end := len(strings.TrimRightFunc(t.s, isSpace))
	for at := 0; s.err == nil; limit-- {
		rest := strings.TrimLeftFunc(t.s[at:end], isSpace)
		if rest == "" {
			break
		}
		at = end - len(rest)
		n := strings.IndexFunc(rest, isSpace)
		if n < 0 || limit == 0 {
			s.add(t.Slice(at, end))
			break
		}
		s.add(t.Slice(at, at+n))
		at += n
	}
	return s.value()
}

func rsplitMethod(r *run, t Text, a args) (Value, error) {
	sep, limit, err := splitArgs(r, "rsplit", a)
	if err != nil {
		return nil, err
	}
	if limit < 0 {
		return splitMethod(r, t, a)
	}
	s := &splitter{r: r}
	for limit > 0 && s.err == nil {
		i := strings.LastIndex(t.s, sep)
		if sep == "" {
			t = t.Slice(0, len(strings.TrimRightFunc(t.s, isSpace)))
			i = strings.LastIndexFunc(t.s, isSpace)
		}
		if i < 0 {
			break
		}
		width := len(sep)
		if sep == "" {
			width = len(t.s[i:]) - len(strings.TrimLeftFunc(t.s[i:], isSpace))
		}
		s.add(t.Slice(i+width, len(t.s)))
		t = t.Slice(0, i)
		limit--
	}
	if sep == "" {
		t = t.Slice(0, len(strings.TrimRightFunc(t.s, isSpace)))
	}
	if sep != "" || t.s != "" {
		s.add(t)
	}
	for i, j := 0, len(s.pieces)-1; i < j; i, j = i+1, j-1 {
		s.pieces[i], s.pieces[j] = s.pieces[j], s.pieces[i]
	}
	return s.value()
}

func splitlinesMethod(r *run, t Text, a args) (Value, error) {
	p, err := a.bind(r, "splitlines", "keepends")
	if err != nil {
		return nil, err
	}
	s := &splitter{r: r}
	for at := 0; at < len(t.s) && s.err == nil; {
		end, next := len(t.s), len(t.s)
		if i := strings.IndexAny(t.s[at:], "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"); i >= 0 {
			end = at + i
			_, n := utf8.DecodeRuneInString(t.s[end:])
			if strings.HasPrefix(t.s[end:], "\r\n") {
				n = 2
			}
			next = end + n
		}
		if r.boolOr(p[0], false) {
			end = next
		}
		s.add(t.Slice(at, end))
		at = next
	}
	return s.value()
}

// partition is partition and rpartition: what is before the separator, it, and
// what is after. Without one the text comes first, or last if fromEnd.
func partition(r *run, t Text, a args, index func(s, x string) int, fromEnd bool) (Value, error) {
	sep, err := textArg(r, a)
	if err != nil {
		return nil, err
	}
	if sep.s == "" {
		return nil, r.errorf("empty separator")
	}
	i := index(t.s, sep.s)
	switch {
	case i >= 0:
		j := i + len(sep.s)
		return &List{Items: []Value{t.Slice(0, i), t.Slice(i, j), t.Slice(j, len(t.s))}, tuple: true}, nil
	case fromEnd:
		return &List{Items: []Value{Text{}, Text{}, t}, tuple: true}, nil
	}
	return &List{Items: []Value{t, Text{}, Text{}}, tuple: true}, nil
}
