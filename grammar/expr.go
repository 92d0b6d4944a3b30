package grammar

import (
	"slices"
	"strings"
)

// expr is an expression over bytes; immutable once built, parts may be shared.
type expr struct {
	kind     exprKind
	set      byteSet // kindSet
	lit      string  // kindLit
	subs     []*expr // kindCat, kindAlt; the one of kindRepeat
	min, max int     // kindRepeat; max < 0 means no bound
	rule     int     // kindRef
}

type exprKind uint8

const (
	kindNever exprKind = iota // matches nothing
	kindEmpty
	kindSet // one byte of set
	kindLit
	kindCat
	kindAlt
	kindRepeat
	kindRef
)

var (
	never = &expr{kind: kindNever}
	empty = &expr{kind: kindEmpty}
)

// byteSet is a set of bytes, one bit each.
type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func lit(s string) *expr {
	if s == "" {
		return empty
	}
	return &expr{kind: kindLit, lit: s}
}

// bytesOf matches one byte of lo to hi.
func bytesOf(lo, hi byte) *expr {
	e := &expr{kind: kindSet}
	e.set.add(lo, hi)
	return e
}

// maxInlined is how long a sequence may be that becomes part of a longer one: what
// is longer is not copied again at every level.
const maxInlined = 16

func cat(es ...*expr) *expr {
	var subs []*expr
	var run []string // literals that follow one another
	flush := func() {
		if len(run) > 0 {
			subs = append(subs, lit(strings.Join(run, "")))
			run = run[:0]
		}
	}
	add := func(e *expr) {
		if e.kind == kindLit {
			run = append(run, e.lit)
			return
		}
		flush()
		subs = append(subs, e)
	}
	for _, e := range es {
		switch {
		case e.kind == kindNever:
			return never
		case e.kind == kindEmpty:
		case e.kind == kindCat && len(e.subs) <= maxInlined:
			for _, s := range e.subs {
				add(s)
			}
		default:
			add(e)
		}
	}
	flush()
	switch len(subs) {
	case 0:
		return empty
	case 1:
		return subs[0]
	}
	return &expr{kind: kindCat, subs: subs}
}

func alt(es ...*expr) *expr {
	var subs []*expr
	hasEmpty := false
	for _, e := range es {
		switch {
		case e.kind == kindNever:
		case e.kind == kindAlt && len(e.subs) <= maxInlined:
			for _, s := range e.subs {
				if s.kind != kindEmpty || !hasEmpty {
					hasEmpty = hasEmpty || s.kind == kindEmpty
					subs = append(subs, s)
				}
			}
		case e.kind == kindEmpty:
			if !hasEmpty {
				hasEmpty = true
				subs = append(subs, e)
			}
		default:
			subs = append(subs, e)
		}
	}
	switch len(subs) {
	case 0:
		return never
	case 1:
		return subs[0]
	}
	return &expr{kind: kindAlt, subs: subs}
}

// repeat matches e from lo to hi times; hi < 0 means without bound.
func repeat(e *expr, lo, hi int) *expr {
	switch {
	case hi == 0 || e.kind == kindEmpty || e.kind == kindNever && lo == 0:
		return empty
	case e.kind == kindNever:
		return never
	case lo == 1 && hi == 1:
		return e
	}
	return &expr{kind: kindRepeat, subs: []*expr{e}, min: lo, max: hi}
}

func star(e *expr) *expr  { return repeat(e, 0, -1) }
func plus(e *expr) *expr  { return repeat(e, 1, -1) }
func maybe(e *expr) *expr { return repeat(e, 0, 1) }

func ref(rule int) *expr { return &expr{kind: kindRef, rule: rule} }

// literals matches one of the strings. Common beginnings are merged, so that
// the machine runs one thread per string only where they differ.
func literals(list []string) *expr {
	list = slices.Clone(list)
	slices.Sort(list)
	return literalsFrom(slices.Compact(list))
}

func literalsFrom(list []string) *expr {
	var alts []*expr
	if len(list) > 0 && list[0] == "" {
		alts, list = append(alts, empty), list[1:]
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n][0] == list[0][0] {
			n++
		}
		common := commonPrefix(list[0], list[n-1])
		rest := make([]string, n)
		for i, s := range list[:n] {
			rest[i] = s[common:]
		}
		if n == 1 {
			alts = append(alts, lit(list[0]))
		} else {
			alts = append(alts, cat(lit(list[0][:common]), literalsFrom(rest)))
		}
		list = list[n:]
	}
	return alt(alts...)
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
