package grammar

import (
	"encoding/binary"
	"iter"
	"slices"
)

// determinise merges the byte nodes of a split into one table, so that one
// thread goes on instead of many. Where a byte has several targets they become
// a split of their own, merged in turn: the subset construction, as far as the
// budget goes. What is left as it was is slower, not wrong.
func (b *builder) determinise() {
	b.budget = min(maxNodes-len(b.nodes), 4*(len(b.nodes)-int(b.shared))+1_000)
	inner := b.innerSplits()
	for pc := b.shared; pc < int32(len(b.nodes)); pc++ {
		if b.nodes[pc].op == opSplit && b.affords() && (int(pc) >= len(inner) || !inner[pc]) {
			b.mergeSplit(pc)
		}
	}
}

// innerSplits says of every node whether it is a split that only other splits
// lead to: no thread is ever there alone.
func (b *builder) innerSplits() []bool {
	landed := make([]bool, len(b.nodes))
	for _, r := range b.rules {
		landed[r] = true
	}
	for _, l := range b.loops {
		landed[l.body] = true
	}
	for pc := b.shared; pc < int32(len(b.nodes)); pc++ {
		switch n := &b.nodes[pc]; n.op {
		case opRange, opCall:
			if n.next >= 0 {
				landed[n.next] = true
			}
		case opTable:
			for _, t := range b.tables[n.arg].targets {
				landed[t] = true
			}
		}
	}
	inner := make([]bool, len(b.nodes))
	for pc := range inner {
		inner[pc] = int32(pc) >= b.shared && b.nodes[pc].op == opSplit && !landed[pc]
	}
	return inner
}

// affords reports whether determinise may go on.
func (b *builder) affords() bool {
	return b.budget > 0 && b.size < (maxProgramBytes-nodeBytes*maxNodes)/4*3
}

func (b *builder) mergeSplit(pc int32) {
	var flat []int32
	b.flatten(pc, &flat)
	b.budget -= len(flat) / 8
	var bytes, others []int32
	for _, t := range flat {
		if o := b.nodes[t].op; o == opRange || o == opTable {
			bytes = append(bytes, t)
		} else if o != opFail {
			others = append(others, t)
		}
	}
	if len(bytes) < 2 {
		return
	}
	b.inLoop = b.loopOf[pc]
	defer func() { b.inLoop = -1 }()
	index, targets, ok := b.mergeBytes(bytes)
	if !ok {
		return
	}
	if len(others) == 0 {
		b.nodes[pc] = b.tableNode(index, targets)
		return
	}
	b.splits[b.nodes[pc].arg] = append(others, b.internTable(index, targets))
}

// flatten appends the nodes that a split leads to, through other splits.
func (b *builder) flatten(pc int32, out *[]int32) {
	seen := map[int32]bool{}
	var visit func(pc int32)
	visit = func(pc int32) {
		b.spend(15)
		if seen[pc] {
			return
		}
		seen[pc] = true
		if n := &b.nodes[pc]; n.op == opSplit {
			for _, t := range b.splits[n.arg] {
				visit(t)
			}
			return
		}
		*out = append(*out, pc)
	}
	visit(pc)
}

// mergeBytes returns the index and the targets of the table that does what all
// the byte nodes do together.
func (b *builder) mergeBytes(nodes []int32) (index *[256]uint8, targets []int32, ok bool) {
	b.spend(200)
	var groups [256][]int32
	for _, pc := range nodes {
		n := &b.nodes[pc]
		if n.op == opTable {
			b.spend(200)
		}
		if n.op == opRange {
			b.spend(int(n.hi-n.lo) + 2)
			for c := int(n.lo); c <= int(n.hi); c++ {
				groups[c] = append(groups[c], n.next)
			}
			continue
		}
		for c := range 256 {
			if next := b.nextOf(n, byte(c)); next != failNode {
				groups[c] = append(groups[c], next)
			}
		}
	}
	index, targets = new([256]uint8), []int32{failNode}
	for c, group := range groups {
		if len(group) == 0 {
			continue
		}
		b.spend(3 * len(group))
		slices.Sort(group)
		target := b.groupNode(slices.Compact(group))
		i := slices.Index(targets, target)
		if i < 0 {
			i = len(targets)
			targets = append(targets, target)
		}
		if !b.affords() || i > 255 {
			return nil, nil, false
		}
		index[c] = uint8(i)
	}
	return index, targets, true
}

// groupNode returns the split that leads to all of group, which is sorted.
func (b *builder) groupNode(group []int32) int32 {
	if len(group) == 1 {
		return group[0]
	}
	before := len(b.nodes)
	pc := b.split(slices.Clone(group))
	b.budget -= 2 * (len(b.nodes) - before)
	return pc
}

func (b *builder) appendKey(key []byte, nodes []int32) []byte {
	key = binary.LittleEndian.AppendUint32(key, uint32(b.inLoop))
	for _, n := range nodes {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	return key
}

// tableIndex is an index that tables share, with a number for keys.
type tableIndex struct {
	index  *[256]uint8
	bytes  uint64 // see table
	number int32
}

func (b *builder) sharedIndex(index *[256]uint8) tableIndex {
	known, ok := b.indexes[*index]
	if !ok {
		b.hold(len(index))
		known = tableIndex{index, foldIndex(index), int32(len(b.indexes))}
		b.indexes[*index] = known
	}
	return known
}

// internTable returns a byte node for a table.
func (b *builder) internTable(index *[256]uint8, targets []int32) int32 {
	b.spend(50)
	shared := b.sharedIndex(index)
	key := string(b.appendKey(binary.LittleEndian.AppendUint32([]byte{'t'}, uint32(shared.number)), targets))
	if pc, ok := b.merged[key]; ok {
		return pc
	}
	b.budget--
	pc := b.emit(b.tableNode(shared.index, targets))
	b.merged[key] = pc
	return pc
}

// tableNode is a table as a node: a range if it is one.
func (b *builder) tableNode(index *[256]uint8, targets []int32) node {
	if len(targets) == 2 {
		lo := slices.Index(index[:], 1)
		hi := lo
		for hi < 255 && index[hi+1] == 1 {
			hi++
		}
		if !slices.Contains(index[hi+1:], 1) {
			return node{op: opRange, lo: byte(lo), hi: byte(hi), next: targets[1]}
		}
	}
	b.hold(tableBytes + 4*len(targets))
	shared := b.sharedIndex(index)
	b.tables = append(b.tables, table{shared.index, shared.bytes, slices.Clip(targets)})
	return node{op: opTable, arg: int32(len(b.tables) - 1)}
}

// computeNeed fills need, the least fixpoint from above: after one look at all
// nodes, at those that lead to one whose need became less.
func (b *builder) computeNeed() {
	for len(b.need) < len(b.nodes) {
		b.need = append(b.need, infinite)
	}
	b.need[matchNode], b.need[returnNode] = 0, 0
	first, sources := b.sourcesOf()
	var changed []int32
	look := func(pc int32) {
		b.spend(2)
		if n := b.needOf(&b.nodes[pc]); n < b.need[pc] {
			b.need[pc] = n
			changed = append(changed, pc)
		}
	}
	for pc := int32(len(b.nodes)) - 1; pc >= b.shared; pc-- {
		look(pc)
	}
	for len(changed) > 0 {
		pc := changed[0]
		changed = changed[1:]
		for _, source := range sources[first[pc]:first[pc+1]] {
			look(source)
		}
	}
}

// sourcesOf returns the nodes, after the shared ones, that lead to each node: those
// of node pc are sources[first[pc]:first[pc+1]].
func (b *builder) sourcesOf() (first, sources []int32) {
	first = make([]int32, len(b.nodes)+2)
	for pc := b.shared; pc < int32(len(b.nodes)); pc++ {
		for target := range b.targetsOf(&b.nodes[pc]) {
			b.spend(1)
			first[target+2]++
		}
	}
	for i := range len(first) - 1 {
		first[i+1] += first[i]
	}
	sources = make([]int32, first[len(first)-1])
	for pc := b.shared; pc < int32(len(b.nodes)); pc++ {
		for target := range b.targetsOf(&b.nodes[pc]) {
			sources[first[target+1]] = pc
			first[target+1]++
		}
	}
	return first[:len(b.nodes)+1], sources
}

// targetsOf visits the nodes on which the need of n depends.
func (b *builder) targetsOf(n *node) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		var targets []int32
		switch n.op {
		case opRange:
			yield(n.next)
			return
		case opTable:
			targets = b.tables[n.arg].targets[1:]
		case opSplit:
			targets = b.splits[n.arg]
		case opLoop:
			yield(b.loops[n.arg].body)
			return
		case opCall:
			if yield(b.rules[n.arg]) && n.next >= 0 {
				yield(n.next)
			}
			return
		}
		for _, t := range targets {
			if !yield(t) {
				return
			}
		}
	}
}

func (b *builder) needOf(n *node) int32 {
	least := func(targets []int32) int32 {
		b.spend(len(targets) / 4)
		out := int32(infinite)
		for _, t := range targets {
			out = min(out, b.need[t])
		}
		return out
	}
	switch n.op {
	case opRange:
		return b.need[n.next]
	case opTable:
		return least(b.tables[n.arg].targets[1:])
	case opSplit:
		return least(b.splits[n.arg])
	case opCall:
		callee := b.need[b.rules[n.arg]]
		if n.next < 0 || callee == infinite {
			return callee
		}
		return max(callee+1, b.need[n.next])
	case opLoop:
		// Of later rounds the first one is proof enough: they start as deep.
		if b.loops[n.arg].min > 0 {
			return b.need[b.loops[n.arg].body]
		}
		return 0
	case opMatch, opReturn, opRound:
		return 0
	}
	return infinite
}

// markNodes fills join and wide.
func (b *builder) markNodes() {
	p := &b.program
	p.join = make([]bool, len(p.nodes))
	p.wide = make([]bool, len(p.nodes))
	seen := make([]bool, len(p.nodes))
	var mark func(pc int32)
	mark = func(pc int32) {
		if p.join[pc] {
			return
		}
		p.join[pc] = true
		if n := &p.nodes[pc]; n.op == opSplit { // passed without a byte: threads meet behind it
			for _, t := range p.splits[n.arg] {
				mark(t)
			}
		}
	}
	reach := func(pc int32) {
		if seen[pc] {
			mark(pc)
		}
		seen[pc] = true
	}
	for _, r := range p.rules {
		mark(r)
	}
	for _, l := range p.loops {
		mark(l.head)
		mark(l.body)
		mark(l.exit)
	}
	for pc := range p.nodes {
		switch n := &p.nodes[pc]; n.op {
		case opRange:
			reach(n.next)
			p.wide[pc] = p.isWide(n)
		case opTable:
			for _, t := range p.tables[n.arg].targets {
				reach(t)
			}
			p.wide[pc] = p.isWide(n)
		case opSplit:
			for _, t := range p.splits[n.arg] {
				reach(t)
			}
		case opCall:
			if n.next >= 0 {
				mark(n.next)
			}
		}
	}
}
