package grammar

import (
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// builder turns rules made of expressions into a program.
type builder struct {
	program
	*meter
	opts  Options
	base  int     // rules below are the prelude's and built already
	exprs []*expr // by rule
	names []string
	steps int // spent, of maxSteps

	nullable, productive []bool
	least                []int         // by rule: bytes of its shortest text, or fewer
	bytes                map[*expr]int // the same by expression
	filled               map[*expr]*expr
	nonEmptyOf           map[int]int

	interned map[node]int32 // byte nodes and calls
	lowered  map[place]int32
	proven   map[*expr]bool   // found productive
	inLoop   int32            // the loop that is being lowered, -1 = none
	merged   map[string]int32 // splits and tables, by what they lead to
	indexes  map[[256]uint8]tableIndex
	numbers  map[string]*expr // calls of the rules of numbers, by what bounds them
	size     int              // bytes of tables and splits, of maxProgramBytes
	budget   int              // nodes that determinise may still add
}

// newBuilder starts from the rules of the prelude.
func newBuilder(o Options) *builder { return from(prelude(), o) }

func from(p *program, o Options) *builder {
	b := &builder{
		meter: &meter{pause: o.Pause}, opts: o, base: len(p.rules), exprs: make([]*expr, len(p.rules)), names: make([]string, len(p.rules)),
		nonEmptyOf: map[int]int{}, interned: map[node]int32{}, lowered: map[place]int32{}, proven: map[*expr]bool{}, filled: map[*expr]*expr{}, inLoop: -1, merged: map[string]int32{}, indexes: map[[256]uint8]tableIndex{}, numbers: map[string]*expr{},
	}
	b.program = program{
		nodes: slices.Clone(p.nodes), tables: slices.Clone(p.tables), splits: slices.Clone(p.splits),
		loops: slices.Clone(p.loops), rules: slices.Clone(p.rules), need: slices.Clone(p.need),
		loopOf: slices.Clone(p.loopOf), shared: int32(len(p.nodes)),
	}
	return b
}

// bare is the program of no rules.
func bare() *program {
	return &program{nodes: []node{{op: opFail}, {op: opMatch}, {op: opReturn}}, loopOf: []int32{-1, -1, -1}}
}

// newRule reserves a rule; the caller sets its expression. Too many rules are
// too many nodes: build says so.
func (b *builder) newRule() int {
	b.exprs = append(b.exprs, never)
	b.names = append(b.names, "")
	b.rules = append(b.rules, failNode)
	return len(b.exprs) - 1
}

// step spends one step of compiling.
func (b *builder) step() error {
	b.spend(40)
	if b.steps++; b.steps > maxSteps {
		return b.opts.invalid("", "compiling takes more than the limit of %d steps", maxSteps)
	}
	return nil
}

// tooLarge travels as a panic from deep inside lower up to build.
type tooLarge struct {
	limit int
	of    string
}

// hold counts bytes of the machine.
func (b *builder) hold(bytes int) {
	if b.size += bytes; b.size > maxProgramBytes-nodeBytes*maxNodes {
		panic(tooLarge{maxProgramBytes, "bytes"})
	}
}

// build lowers all rules and makes the text start at rule root.
func (b *builder) build(root int) (p *program, err *infer.Error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(tooLarge)
			if !ok {
				panic(r)
			}
			err = b.opts.invalid("", "the machine needs more than the limit of %d %s", e.limit, e.of)
		}
	}()
	b.analyse()
	if !b.productive[root] {
		return nil, b.opts.invalid("", "no text can ever satisfy it")
	}
	if r := b.leftRecursive(); r >= 0 {
		return nil, b.opts.invalid("", "rule %q begins with itself: left recursion is not supported", b.names[r])
	}
	for i := b.base; i < len(b.exprs); i++ { // lowering may add rules
		if b.productive[i] {
			b.rules[i] = b.lower(b.exprs[i], returnNode)
		}
	}
	b.program.root = b.rules[root]
	b.determinise()
	b.computeNeed()
	if need := b.need[b.program.root]; need > MaxDepth {
		return nil, b.opts.invalid("", "it nests deeper than the limit of %d", MaxDepth)
	}
	b.markNodes()
	out := b.program
	return &out, nil
}

func (b *builder) emit(n node) int32 {
	if len(b.nodes) >= maxNodes {
		panic(tooLarge{maxNodes, "nodes"})
	}
	b.nodes = append(b.nodes, n)
	b.loopOf = append(b.loopOf, b.inLoop)
	return int32(len(b.nodes) - 1)
}

// intern returns a node like n that exists already, or a new one. Equal nodes
// lead to equal futures, except for which loop they count in: that follows from
// where they lead.
func (b *builder) intern(n node) int32 {
	if pc, ok := b.interned[n]; ok && b.loopOf[pc] == b.inLoop {
		return pc
	}
	pc := b.emit(n)
	b.interned[n] = pc
	return pc
}

func (b *builder) split(targets []int32) int32 {
	switch {
	case len(targets) == 0:
		return failNode
	case len(targets) == 1:
		return targets[0]
	}
	b.spend(10 + len(targets))
	key := string(b.appendKey([]byte{'s'}, targets))
	if pc, ok := b.merged[key]; ok {
		return pc
	}
	b.hold(splitBytes + 4*len(targets))
	b.splits = append(b.splits, targets)
	pc := b.emit(node{op: opSplit, arg: int32(len(b.splits) - 1)})
	b.merged[key] = pc
	return pc
}

// place is where an expression was lowered.
type place struct {
	e            *expr
	next, inLoop int32
}

// lower returns the node from which e is matched and then next. What is shared
// among expressions is lowered once for each next.
func (b *builder) lower(e *expr, next int32) int32 {
	if len(e.subs) == 0 {
		return b.lowerNew(e, next)
	}
	b.spend(10)
	at := place{e, next, b.inLoop}
	if pc, ok := b.lowered[at]; ok {
		return pc
	}
	pc := b.lowerNew(e, next)
	b.lowered[at] = pc
	return pc
}

func (b *builder) lowerNew(e *expr, next int32) int32 {
	switch e.kind {
	case kindEmpty:
		return next
	case kindSet:
		return b.lowerSet(&e.set, next)
	case kindLit:
		b.spend(10 * len(e.lit))
		for i := len(e.lit) - 1; i >= 0; i-- {
			next = b.intern(node{op: opRange, lo: e.lit[i], hi: e.lit[i], next: next})
		}
		return next
	case kindCat:
		for _, s := range slices.Backward(e.subs) {
			next = b.lower(s, next)
		}
		return next
	case kindAlt:
		var targets []int32
		seen := map[int32]bool{}
		b.spend(10 * len(e.subs))
		for _, s := range e.subs {
			if !b.isProductive(s) {
				continue
			}
			if pc := b.lower(s, next); !seen[pc] {
				seen[pc] = true
				targets = append(targets, pc)
			}
		}
		return b.split(targets)
	case kindRepeat:
		return b.lowerRepeat(e, next)
	case kindRef:
		if next == returnNode {
			next = -1
		}
		return b.intern(node{op: opCall, arg: int32(e.rule), next: next})
	}
	return failNode
}

// lowerSet makes a range, or a table if the set has gaps.
func (b *builder) lowerSet(s *byteSet, next int32) int32 {
	b.spend(40)
	lo, hi, count := 256, -1, 0
	for i := range 256 {
		if s.has(byte(i)) {
			lo, hi, count = min(lo, i), i, count+1
		}
	}
	if count == 0 {
		return failNode
	}
	if count == hi-lo+1 {
		return b.intern(node{op: opRange, lo: byte(lo), hi: byte(hi), next: next})
	}
	var index [256]uint8
	for i := range 256 {
		if s.has(byte(i)) {
			index[i] = 1
		}
	}
	return b.internTable(&index, []int32{failNode, next})
}

// unrolled is up to how many nodes a repetition may become copies instead of a
// counter: a copy costs memory once, a counter costs at every byte.
const unrolled = 24

func (b *builder) lowerRepeat(e *expr, next int32) int32 {
	body, lo, hi := e.subs[0], e.min, e.max
	if !b.isProductive(body) {
		return next // productive as a whole, so zero times is allowed
	}
	if b.isNullable(body) {
		body, lo = b.nonEmpty(body), 0
		if !b.isProductive(body) {
			return next
		}
	}
	if size := max(lo, hi) * weight(body); size > unrolled && (lo > 1 || hi > 1) {
		return b.lowerLoop(body, lo, hi, next)
	}
	if hi < 0 {
		head := b.emit(node{op: opSplit, arg: int32(len(b.splits))})
		b.hold(splitBytes + 8)
		b.splits = append(b.splits, nil)
		first := b.lower(body, head)
		b.splits[b.nodes[head].arg] = []int32{first, next}
		next = head
		if lo == 1 {
			return first
		}
	} else {
		end := next
		for range hi - lo {
			next = b.split([]int32{b.lower(body, next), end})
		}
	}
	for range lo {
		next = b.lower(body, next)
	}
	return next
}

// weight estimates how many nodes e becomes.
func weight(e *expr) int {
	n := 1
	if e.kind == kindLit {
		n = len(e.lit)
	}
	for _, s := range e.subs {
		if n > unrolled {
			break
		}
		n += weight(s)
	}
	if e.kind == kindRepeat {
		n *= max(1, min(max(e.min, e.max), unrolled))
	}
	return n
}

// lowerLoop makes a rule with a counter and calls it.
func (b *builder) lowerLoop(body *expr, lo, hi int, next int32) int32 {
	outer, id := b.inLoop, int32(len(b.loops))
	b.inLoop = id
	b.loops = append(b.loops, loop{
		min: int32(lo), max: int32(hi), exit: returnNode,
		bytes: int32(max(1, min(b.shortest(body), maxTokenBytes))), free: body == freeChar,
	})
	head := b.emit(node{op: opLoop, arg: id})
	round := b.emit(node{op: opRound, arg: id})
	first := b.lower(body, round)
	b.loops[id].head, b.loops[id].body = head, first
	b.inLoop = outer

	rule := b.newRule()
	b.rules[rule] = head
	b.nullable = grow(b.nullable, rule+1, lo == 0)
	b.productive = grow(b.productive, rule+1, false) // lowered already: build passes it by
	return b.intern(node{op: opCall, arg: int32(rule), next: next})
}
