package grammar

import "math/bits"

// op is what a node of the machine does.
type op uint8

const (
	opFail   op = iota
	opRange     // a byte from lo to hi leads to next
	opTable     // a byte leads to tables[arg]
	opSplit     // on to all of splits[arg], without a byte
	opCall      // enter rules[arg], come back to next; next < 0 means that nothing follows: the callee takes the place of the caller
	opReturn    // leave the rule
	opLoop      // head of loops[arg]: one more round, or leave
	opRound     // a round of loops[arg] is over
	opMatch     // the text is complete
)

// node is one instruction. Byte nodes (opRange, opTable) and opMatch are where
// threads wait; the others are passed without a byte.
type node struct {
	op     op
	lo, hi byte
	next   int32
	arg    int32
}

// table maps a byte to a node.
type table struct {
	index   *[256]uint8 // into targets; tables that tell the same bytes apart share it
	bytes   uint64      // bit b%64 is set if the index of b is not 0
	targets []int32     // targets[0] is the failNode
}

// loop is a counted repetition. It always is a rule of its own, so that a frame
// has at most one counter.
type loop struct {
	min, max int32 // max < 0 means no bound
	head     int32
	body     int32
	exit     int32
	// bytes is how many bytes a round has at least, 1 or more.
	bytes int32
	// free marks a loop over any character of a JSON string: all of them are
	// alike, so that a vocabulary keeps one local for all.
	free bool
}

// Nodes that every program has.
const (
	failNode   int32 = 0
	matchNode  int32 = 1
	returnNode int32 = 2
)

// infinite is the need of a node from which no end can be reached.
const infinite = 1 << 30

// program is a compiled machine, immutable.
type program struct {
	nodes  []node
	tables []table
	splits [][]int32
	loops  []loop
	rules  []int32 // entry node of each rule
	// need is, per node, how many more frames it takes at least to leave the
	// rule that the node is in.
	need []int32
	// loopOf is, per node, the loop whose rounds it is in, -1 = none.
	loopOf []int32
	// join says that a node can be reached in more than one way, so that
	// threads may meet there.
	join []bool
	// wide marks byte nodes that much of a vocabulary passes.
	wide []bool
	// shared is how many nodes at the start are the prelude's.
	shared int32
	root   int32
}

// Bytes that each part of a program takes, besides what it leads to.
const (
	nodeBytes  = 16 + 4 + 4 + 1 + 1 // with need, loopOf, join and wide
	tableBytes = 8 + 8 + 24
	splitBytes = 24
)

// size is about the bytes of p.
func (p *program) size() int {
	n := nodeBytes*len(p.nodes) + tableBytes*len(p.tables) + splitBytes*len(p.splits) + 32*len(p.loops) + 4*len(p.rules)
	indexes := map[*[256]uint8]bool{}
	for _, t := range p.tables {
		indexes[t.index] = true
		n += 4 * len(t.targets)
	}
	for _, s := range p.splits {
		n += 4 * len(s)
	}
	return n + 256*len(indexes)
}

// nextOf returns the node that b leads to from a byte node.
func (p *program) nextOf(n *node, b byte) int32 {
	if n.op == opRange {
		if b >= n.lo && b <= n.hi {
			return n.next
		}
		return failNode
	}
	if n.op == opTable {
		t := &p.tables[n.arg]
		return t.targets[t.index[b]]
	}
	return failNode
}

// only returns the one byte that n accepts.
func (p *program) only(n *node) (byte, bool) {
	if n.op == opRange {
		return n.lo, n.lo == n.hi
	}
	if n.op != opTable {
		return 0, false
	}
	found := -1
	for b, i := range p.tables[n.arg].index {
		if i != 0 && found >= 0 {
			return 0, false
		} else if i != 0 {
			found = b
		}
	}
	return byte(found), found >= 0
}

// left returns what is left of the loop that node pc is in after some rounds.
// A token of at most longest bytes ends the current round and then makes
// longest/bytes more.
func (p *program) left(pc, count int32, longest int) rounds {
	id := p.loopOf[pc]
	if id < 0 {
		return rounds{}
	}
	l := &p.loops[id]
	limit := int32(longest)/l.bytes + 2
	out := rounds{min(max(l.min-count, 0), limit), limit}
	if l.max >= 0 {
		out.most = min(l.max-count, limit)
	}
	return out
}

// bytesOf has bit b%64 set for every byte b that n accepts, and maybe more.
func (p *program) bytesOf(n *node) uint64 {
	switch n.op {
	case opTable:
		return p.tables[n.arg].bytes
	case opRange:
		if count := int(n.hi-n.lo) + 1; count < 64 {
			return bits.RotateLeft64(1<<count-1, int(n.lo))
		}
		return ^uint64(0)
	}
	return 0
}

// foldIndex returns what table.bytes is for an index.
func foldIndex(index *[256]uint8) (folded uint64) {
	for b, i := range index {
		if i != 0 {
			folded |= 1 << (b & 63)
		}
	}
	return folded
}

// A wide node accepts this many characters of this range.
const (
	minWide                       = 8
	firstPrintable, lastPrintable = ' ', '~'
)

// isWide reports whether n accepts many printable characters.
func (p *program) isWide(n *node) bool {
	if n.op == opRange {
		return min(int(n.hi), lastPrintable)-max(int(n.lo), firstPrintable) >= minWide-1
	}
	count := 0
	for b := byte(firstPrintable); b <= lastPrintable; b++ {
		if p.nextOf(n, b) != failNode {
			count++
		}
	}
	return count >= minWide
}
