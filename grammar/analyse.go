package grammar

import "slices"

// fix computes the least fixpoint of a property of rules: holds is asked for
// every rule until no answer changes from false to true. Rules mostly lead to
// later ones, so it starts from the last.
func fix(property []bool, first int, holds func(rule int) bool) {
	for changed := true; changed; {
		changed = false
		for i := len(property) - 1; i >= first; i-- {
			if !property[i] && holds(i) {
				property[i] = true
				changed = true
			}
		}
	}
}

// analyse finds which rules can match nothing at all (nullable) and which can
// match anything (productive).
func (b *builder) analyse() {
	n := len(b.exprs)
	b.nullable = grow(b.nullable, n, false)
	b.productive = grow(b.productive, n, false)
	for i := range b.base {
		b.productive[i] = true // the prelude's rules match, and never the empty text
	}
	fix(b.nullable, b.base, func(i int) bool { return b.isNullable(b.exprs[i]) })
	fix(b.productive, b.base, func(i int) bool { return b.isProductive(b.exprs[i]) })
	// A few passes raise the lower bounds far enough: they only sharpen caches.
	b.least = make([]int, n)
	for i := range b.base {
		b.least[i] = 1
	}
	b.bytes = map[*expr]int{}
	for pass, changed := 0, true; changed && pass < 4; pass++ {
		changed = false
		clear(b.bytes)
		for i := n - 1; i >= b.base; i-- {
			if least := b.shortest(b.exprs[i]); least != b.least[i] {
				b.least[i], changed = least, true
			}
		}
	}
	clear(b.bytes)
}

// shortest returns a lower bound for the bytes of a text of e.
func (b *builder) shortest(e *expr) int {
	b.spend(2)
	if n, ok := b.bytes[e]; ok {
		return n
	}
	n := b.countBytes(e)
	if len(e.subs) > 0 {
		b.bytes[e] = n
	}
	return n
}

func (b *builder) countBytes(e *expr) int {
	n := 0
	switch e.kind {
	case kindSet:
		n = 1
	case kindLit:
		n = len(e.lit)
	case kindCat:
		for _, s := range e.subs {
			if n += b.shortest(s); n >= maxTokenBytes {
				break
			}
		}
	case kindAlt:
		n = maxTokenBytes
		for _, s := range e.subs {
			n = min(n, b.shortest(s))
		}
	case kindRepeat:
		if e.min > 0 {
			n = min(e.min, maxTokenBytes) * b.shortest(e.subs[0])
		}
	case kindRef:
		if e.rule < len(b.least) {
			n = b.least[e.rule]
		}
	}
	return min(n, maxTokenBytes)
}

func grow(s []bool, n int, v bool) []bool {
	for len(s) < n {
		s = append(s, v)
	}
	return s
}

func (b *builder) isNullable(e *expr) bool {
	b.spend(1)
	switch e.kind {
	case kindEmpty:
		return true
	case kindCat:
		for _, s := range e.subs {
			if !b.isNullable(s) {
				return false
			}
		}
		return true
	case kindAlt:
		for _, s := range e.subs {
			if b.isNullable(s) {
				return true
			}
		}
	case kindRepeat:
		return e.min == 0 || b.isNullable(e.subs[0])
	case kindRef:
		return b.nullable[e.rule]
	}
	return false
}

// isProductive remembers what is true: that stays true as more rules are known.
func (b *builder) isProductive(e *expr) bool {
	b.spend(1)
	if len(e.subs) == 0 {
		return e.kind != kindNever && (e.kind != kindRef || b.productive[e.rule])
	}
	if !b.proven[e] && b.prove(e) {
		b.proven[e] = true
	}
	return b.proven[e]
}

func (b *builder) prove(e *expr) bool {
	switch e.kind {
	case kindCat:
		for _, s := range e.subs {
			if !b.isProductive(s) {
				return false
			}
		}
	case kindAlt:
		for _, s := range e.subs {
			if b.isProductive(s) {
				return true
			}
		}
		return false
	case kindRepeat:
		return e.min == 0 || b.isProductive(e.subs[0])
	}
	return true
}

// nonEmpty returns e without the empty text. Every round of a repetition must
// consume a byte, or the machine could turn without end.
func (b *builder) nonEmpty(e *expr) *expr {
	if !b.isNullable(e) {
		return e
	}
	b.spend(20)
	if b.steps++; b.steps > maxSteps {
		panic(tooLarge{maxSteps, "steps"})
	}
	out, ok := b.filled[e]
	if !ok {
		out = b.fill(e)
		b.filled[e] = out
	}
	return out
}

func (b *builder) fill(e *expr) *expr {
	switch e.kind {
	case kindCat:
		// The first part that is not empty, then the rest as it is.
		alts, rest := make([]*expr, len(e.subs)), empty
		for i, s := range slices.Backward(e.subs) {
			alts[i] = join(b.nonEmpty(s), rest)
			rest = join(s, rest)
		}
		return alt(alts...)
	case kindAlt:
		var alts []*expr
		for _, s := range e.subs {
			alts = append(alts, b.nonEmpty(s))
		}
		return alt(alts...)
	case kindRepeat:
		rest := e.max
		if rest > 0 {
			rest--
		}
		// A round may be left out, so fewer than e.min rounds will do.
		first := b.nonEmpty(e.subs[0])
		if b.isNullable(e.subs[0]) {
			return cat(first, repeat(first, 0, rest))
		}
		return cat(first, repeat(first, max(e.min-1, 0), rest))
	case kindRef:
		return b.nonEmptyRule(e.rule)
	}
	return never
}

// nonEmptyRule returns a reference to a rule like rule, without the empty text.
func (b *builder) nonEmptyRule(rule int) *expr {
	if r, ok := b.nonEmptyOf[rule]; ok {
		return ref(r)
	}
	r := b.newRule()
	b.nonEmptyOf[rule] = r
	b.nullable = grow(b.nullable, r+1, false)
	b.productive = grow(b.productive, r+1, true)
	b.exprs[r] = b.nonEmpty(b.exprs[rule])
	return ref(r)
}

// leftmost calls visit with every rule that can begin e.
func (b *builder) leftmost(e *expr, visit func(rule int)) {
	b.spend(1)
	switch e.kind {
	case kindCat:
		for i, s := range e.subs {
			b.leftmost(s, visit)
			if i == len(e.subs)-1 || !b.isNullable(s) {
				return
			}
		}
	case kindAlt, kindRepeat:
		for _, s := range e.subs {
			b.leftmost(s, visit)
		}
	case kindRef:
		visit(e.rule)
	}
}

// leftRecursive returns a rule that can begin with itself, or -1.
func (b *builder) leftRecursive() int {
	const open, closed = 1, 2
	state := make([]uint8, len(b.exprs))
	found := -1
	var visit func(rule int)
	visit = func(rule int) {
		if rule < b.base || state[rule] == closed || found >= 0 {
			return
		}
		if state[rule] == open {
			found = rule
			return
		}
		state[rule] = open
		b.leftmost(b.exprs[rule], visit)
		state[rule] = closed
	}
	for i := b.base; i < len(b.exprs); i++ {
		visit(i)
	}
	return found
}
