package grammar

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// maxProduct bounds the states of a product.
const maxProduct = 3_000

// product matches the texts that several patterns match at once and whose
// length is in a span: an automaton over characters whose states are sets of
// instructions of every pattern, and a count. Each state becomes a rule that
// ends in a call to the next one, which takes no stack.
type product struct {
	*schemaCompiler
	parts  []*searcher
	length span
	rules  map[string]int
	queue  []productState
	chars  *regex // for charOf
	some   bool   // some state is an end
}

var notLineEnd = anyRune.minus(lineEnds)

// productState is where a text can be: for each pattern its instructions, nil
// once it has matched for good, and the characters so far.
type productState struct {
	rule  int
	sets  [][]uint32
	count int
}

// searcher runs a pattern anywhere in a text.
type searcher struct {
	*meter
	prog    *syntax.Prog
	not     bool     // the text must not match
	classes []runes  // by instruction: the characters that it takes, nil if it takes none
	seen    []uint32 // by instruction: the last call of follow that was there
	calls   uint32   // of follow
}

func newSearcher(m *meter, prog *syntax.Prog, not bool) *searcher {
	s := &searcher{meter: m, prog: prog, not: not, seen: make([]uint32, len(prog.Inst)), classes: make([]runes, len(prog.Inst))}
	for pc := range prog.Inst {
		s.classes[pc] = classOf(&prog.Inst[pc])
	}
	return s
}

// genProduct returns the product of conditions.
func (c *schemaCompiler) genProduct(s *schema, conditions []condition) (*expr, *infer.Error) {
	if len(conditions) > maxConditions {
		return nil, c.bad(s.ptr, "%d patterns, formats and lookaheads for one string are more than the limit of %d", len(conditions), maxConditions)
	}
	p := &product{schemaCompiler: c, length: s.length, rules: map[string]int{}, chars: c.regexAt(s.ptr)}
	start := productState{}
	for _, cond := range conditions {
		if _, err := c.regexAt(s.ptr + "/pattern").translate(cond.tree); err != nil {
			return nil, err // what a pattern can't have alone it can't have here
		}
		c.spend(min(20*progWork(cond.tree), maxWork))
		prog, err := syntax.Compile(cond.tree.Simplify())
		if err != nil {
			return nil, c.bad(s.ptr, "the pattern can't be compiled")
		}
		part := newSearcher(c.meter, prog, cond.not)
		set := part.closure([]uint32{uint32(prog.Start)}, true)
		if part.lost(set) {
			return c.never(s, "its pattern excludes every text"), nil
		}
		p.parts = append(p.parts, part)
		start.sets = append(start.sets, set)
	}
	first := p.state(start)
	for len(p.queue) > 0 {
		state := p.queue[0]
		p.queue = p.queue[1:]
		if len(p.rules) > maxProduct {
			return nil, c.bad(s.ptr, "'pattern' or 'format' together with another one or with lengths takes more than the limit of %d states", maxProduct)
		}
		if err := p.expand(state); err != nil {
			return nil, err
		}
	}
	if !p.some {
		return c.never(s, "no text is right for its patterns, formats and lengths together"), nil
	}
	return ref(first), nil
}

// state returns the rule of a state, and queues it if it is new.
func (p *product) state(s productState) int {
	for _, set := range s.sets {
		p.spend(10 + 4*len(set))
	}
	key := binary.AppendVarint(nil, int64(s.count))
	for _, set := range s.sets {
		key = binary.AppendVarint(key, int64(len(set)))
		for _, pc := range set {
			key = binary.AppendVarint(key, int64(pc))
		}
		if set == nil {
			key = append(key, 0xff)
		}
	}
	if r, ok := p.rules[string(key)]; ok {
		return r
	}
	s.rule = p.newRule()
	p.rules[string(key)] = s.rule
	p.queue = append(p.queue, s)
	return s.rule
}

// expand makes the rule of a state: the end if it may be there, and a character
// of each class with the state behind it.
func (p *product) expand(s productState) *infer.Error {
	end := p.length.has(s.count)
	for i, set := range s.sets {
		end = end && (set == nil || p.parts[i].atEnd(set) != p.parts[i].not)
	}
	var alts []*expr
	if end {
		p.some = true
		alts = append(alts, empty)
	}
	count := s.count + 1
	if p.length.max < 0 {
		count = min(count, p.length.min)
	}
	if p.length.max < 0 || count <= p.length.max {
		classes := map[int]runes{}
		var order []int
		for _, r := range p.ranges(s.sets) {
			if err := p.step(); err != nil {
				return infer.AsError(err)
			}
			next, ok := p.after(s.sets, r[0])
			if !ok {
				continue
			}
			rule := p.state(productState{sets: next, count: count})
			if classes[rule] == nil {
				order = append(order, rule)
			}
			classes[rule] = append(classes[rule], r[0], r[1])
		}
		for _, rule := range order {
			alts = append(alts, cat(p.chars.char(classes[rule]), ref(rule)))
		}
	}
	p.exprs[s.rule] = alt(alts...)
	return nil
}

// after returns the sets behind a character, false if a pattern can't match any
// more.
func (p *product) after(sets [][]uint32, r rune) ([][]uint32, bool) {
	next := make([][]uint32, len(sets))
	for i, set := range sets {
		if set == nil {
			continue
		}
		if next[i] = p.parts[i].step(set, r); p.parts[i].lost(next[i]) {
			return nil, false
		}
	}
	return next, true
}

// ranges cuts all characters into stretches that no instruction tells apart.
func (p *product) ranges(sets [][]uint32) [][2]rune {
	cuts := []rune{0, 0xd800, 0xe000, anyRune[1] + 1}
	for i, set := range sets {
		for _, pc := range set {
			class := p.parts[i].classes[pc]
			p.spend(10 + 2*len(class))
			for j := 0; j < len(class); j += 2 {
				cuts = append(cuts, class[j], class[j+1]+1)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out [][2]rune
	for i, lo := range cuts[:len(cuts)-1] {
		if !surrogates.has(lo) {
			out = append(out, [2]rune{lo, cuts[i+1] - 1})
		}
	}
	return out
}

// lost reports whether no text from here on can do what the pattern says.
func (s *searcher) lost(set []uint32) bool {
	if s.not {
		return set == nil
	}
	return set != nil && len(set) == 0
}

// classOf returns the characters that an instruction takes, nil if it takes none.
func classOf(i *syntax.Inst) runes {
	switch i.Op {
	case syntax.InstRune, syntax.InstRune1:
		if len(i.Rune) == 1 {
			return folded(i.Rune[0], syntax.Flags(i.Arg)&syntax.FoldCase != 0)
		}
		return runes(i.Rune)
	case syntax.InstRuneAny:
		return anyRune
	case syntax.InstRuneAnyNotNL:
		return notLineEnd
	}
	return nil
}

// step returns the instructions after r, nil if the pattern has matched; a
// match may begin at every character.
func (s *searcher) step(set []uint32, r rune) []uint32 {
	next := []uint32{uint32(s.prog.Start)}
	for _, pc := range set {
		s.spend(3)
		if s.classes[pc].has(r) {
			next = append(next, s.prog.Inst[pc].Out)
		}
	}
	return s.closure(next, false)
}

// closure follows the instructions that take no character. It returns those
// that take one or wait for the end, sorted; nil if there is a match.
func (s *searcher) closure(from []uint32, atStart bool) []uint32 {
	set, matched := s.follow(from, atStart, false)
	if matched {
		return nil
	}
	slices.Sort(set)
	return set
}

// atEnd reports whether the pattern matches if the text ends here.
func (s *searcher) atEnd(set []uint32) bool {
	_, matched := s.follow(set, false, true)
	return matched
}

func (s *searcher) follow(from []uint32, atStart, atEnd bool) (set []uint32, matched bool) {
	s.spend(20)
	set = []uint32{}
	stack := slices.Clone(from)
	s.calls++
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.seen[pc] == s.calls {
			continue
		}
		s.seen[pc] = s.calls
		s.spend(2)
		switch i := &s.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, i.Out)
		case syntax.InstEmptyWidth:
			begin, end := syntax.EmptyOp(i.Arg)&syntax.EmptyBeginText != 0, syntax.EmptyOp(i.Arg)&syntax.EmptyEndText != 0
			switch {
			case begin && !atStart:
			case end && !atEnd:
				set = append(set, pc)
			default:
				stack = append(stack, i.Out)
			}
		case syntax.InstMatch:
			matched = true
		case syntax.InstFail:
		default:
			set = append(set, pc)
		}
	}
	return set, matched
}
