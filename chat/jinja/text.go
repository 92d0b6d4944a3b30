package jinja

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// Text is an immutable string that knows which of its bytes came from a client.
type Text struct {
	s     string
	marks []infer.Span // client bytes: sorted, disjoint, none empty, none adjacent
}

// Plain returns text written by the template or the server.
func Plain(s string) Text { return Text{s: s} }

// Client returns text written by a client.
func Client(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{s: s, marks: []infer.Span{{Start: 0, End: len(s)}}}
}

// String returns the text itself.
func (t Text) String() string { return t.s }

// ClientSpans returns the byte ranges that came from a client, in order. The
// caller must not change them.
func (t Text) ClientSpans() []infer.Span { return t.marks }

// Slice returns the bytes from i to j.
func (t Text) Slice(i, j int) Text {
	if i >= j {
		return Text{}
	}
	out := Text{s: t.s[i:j]}
	first := sort.Search(len(t.marks), func(k int) bool { return t.marks[k].End > i })
	last := first
	for last < len(t.marks) && t.marks[last].Start < j {
		last++
	}
	if first == last {
		return out
	}
	if i == 0 && t.marks[last-1].End <= j {
		out.marks = t.marks[first:last:last]
		return out
	}
	out.marks = make([]infer.Span, last-first)
	for k, m := range t.marks[first:last] {
		out.marks[k] = infer.Span{Start: max(m.Start, i) - i, End: min(m.End, j) - i}
	}
	return out
}

// builder puts a Text together and charges it to a run. After an error it stays
// as it is; the error is reported by done.
type builder struct {
	r     *run
	s     strings.Builder
	marks []infer.Span
	err   error
}

func (r *run) builder() *builder { return &builder{r: r} }

// room charges n more bytes and reports whether they may be written.
func (b *builder) room(n int) bool {
	if b.err == nil && b.s.Len()+n > b.r.lim.MaxOutput {
		b.err = b.r.tooLong()
	}
	if b.err == nil {
		b.err = b.r.charge(n)
	}
	return b.err == nil
}

// plain appends text of the template.
func (b *builder) plain(s string) {
	if b.room(len(s)) {
		b.s.WriteString(s)
	}
}

// as appends s with the origin of the byte of t at offset i.
func (b *builder) as(s string, t Text, i int) {
	if len(t.marks) == 0 {
		b.plain(s)
		return
	}
	k := sort.Search(len(t.marks), func(k int) bool { return t.marks[k].End > i })
	if k == len(t.marks) || t.marks[k].Start > i {
		b.plain(s)
		return
	}
	if b.room(len(s)) {
		at := b.s.Len()
		b.s.WriteString(s)
		b.mark(infer.Span{Start: at, End: at + len(s)})
	}
}

// mark adds a range of client bytes that does not start before the last one ends.
func (b *builder) mark(m infer.Span) {
	if n := len(b.marks); n > 0 && b.marks[n-1].End == m.Start {
		b.marks[n-1].End = m.End
		return
	}
	b.marks = append(b.marks, m)
}

// text appends t with its marks.
func (b *builder) text(t Text) {
	if !b.room(len(t.s)) {
		return
	}
	const size = 16 // of a mark
	if b.err = b.r.charge(size * len(t.marks)); b.err != nil {
		return
	}
	at := b.s.Len()
	b.s.WriteString(t.s)
	for _, m := range t.marks {
		b.mark(infer.Span{Start: at + m.Start, End: at + m.End})
	}
}

// done returns what was built.
func (b *builder) done() (Text, error) {
	if b.err != nil {
		return Text{}, b.err
	}
	return Text{s: b.s.String(), marks: b.marks}, nil
}

// value is done for callers that return a Value.
func (b *builder) value() (Value, error) {
	t, err := b.done()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// mapRunes replaces each character of t by f of it; invalid bytes stay.
func (r *run) mapRunes(t Text, f func(i int, c rune) string) (Value, error) {
	b := r.builder()
	for i := 0; i < len(t.s) && b.err == nil; {
		c, n := utf8.DecodeRuneInString(t.s[i:])
		if c == utf8.RuneError && n == 1 {
			b.as(t.s[i:i+1], t, i)
		} else {
			b.as(f(i, c), t, i)
		}
		i += n
	}
	return b.value()
}
