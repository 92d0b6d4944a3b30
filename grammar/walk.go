package grammar

import (
	"math/bits"
	"slices"
	"sync"
)

// walker runs threads over the trie of a vocabulary. Pooled: its memory serves
// the next walk.
type walker struct {
	stepper
	v    *Vocabulary
	sets []thread // of the trie nodes from the start of the walk to the current one
	off  []int32  // where each of them starts in sets
	used []int    // frames in use at each depth
	init []thread // where an escape goes on
	ids  []int32  // tokens that some thread survives
	// rounds is, per entry of ids, the fewest rounds that a survivor took;
	// local walks only.
	rounds []int32
	fewest []int32 // by token, scratch of local walks: 0 between them
	frames slab
	// limit bounds work. A walk that is as ambiguous as to reach it finds fewer
	// tokens than there are, always the same ones, and at least one.
	limit int
}

// maxPooledChunks bounds the memory of a walker in the pool.
const maxPooledChunks = 64

var walkers = sync.Pool{New: func() any { return new(walker) }}

// newWalker returns a walker that is tired after most steps.
func newWalker(p *program, v *Vocabulary, most int) *walker {
	w := walkers.Get().(*walker)
	w.stepper = stepper{p: p, longest: v.longest, most: most, slab: &w.frames, escapes: w.escapes[:0]}
	w.v, w.ids, w.rounds = v, w.ids[:0], w.rounds[:0]
	w.limit = v.walkLimit()
	return w
}

func (w *walker) release() {
	if len(w.frames.chunks) > maxPooledChunks || cap(w.sets) > maxPooledChunks*slabChunk {
		return // an ambiguous grammar was here: what it needed is not worth keeping
	}
	// The pool must not keep the stacks of a text alive.
	clear(w.sets[:cap(w.sets)])
	clear(w.init[:cap(w.init)])
	w.frames.clear()
	w.p, w.v, w.base = nil, nil, nil
	walkers.Put(w)
}

// subtree visits what lies below trie node top, with the threads of init there.
func (w *walker) subtree(top int32, init []thread) {
	w.sets = append(w.sets[:0], init...)
	w.off = append(w.off[:0], 0, int32(len(w.sets)))
	w.used = append(w.used[:0], w.frames.used)
	if top > 0 {
		w.visit(top+1, w.v.trie[top].end)
	} else {
		// The root has a child for almost every byte, and init mostly goes on with few.
		for left := w.firstBytes(init); left != 0; left &= left - 1 {
			for b := bits.TrailingZeros64(left); b < 256; b += 64 {
				if child := w.v.first[b]; child > 0 {
					w.visit(child, w.v.trie[child].end)
				}
			}
		}
	}
	w.frames.used = w.used[0]
}

// visit goes through the trie nodes from first to before end, first's brothers and
// all that is below. The threads in front of first are those that off begins with.
func (w *walker) visit(first, end int32) {
	trie := w.v.trie
	above := trie[first].depth - 1
	for i := first; i < end && !w.tired && (w.work < w.limit || len(w.ids) == 0); {
		n := &trie[i]
		d := int(n.depth - above)
		from, to := w.off[d-1], w.off[d]
		w.sets, w.off, w.at = w.sets[:to], w.off[:d+1], i
		w.used, w.frames.used = w.used[:d], w.used[d-1]
		w.stepSet(int(from), int(to), n.b)
		if len(w.sets) == int(to) {
			i = n.end
			continue
		}
		w.off = append(w.off, int32(len(w.sets)))
		w.used = append(w.used, w.frames.used)
		w.mark(i, w.sets[to:])
		if i++; i < n.end && w.v.follow[i-1]&w.firstBytes(w.sets[to:]) == 0 {
			i = n.end
		}
	}
}

// stepSet appends where sets[from:to] go with c.
func (w *walker) stepSet(from, to int, c byte) {
	if w.work++; w.work > w.most {
		w.tired = true
		return
	}
	if to-from == 1 { // by far the most frequent case: inside a string
		t := &w.sets[from]
		next := w.p.nextOf(&w.p.nodes[t.pc], c)
		if next == failNode {
			return
		}
		if o := w.p.nodes[next].op; (o == opRange || o == opTable) && depthOf(t.frame)+w.p.need[next] < MaxDepth {
			if w.base != nil {
				w.reach = max(w.reach, depthOf(t.frame)+w.p.need[next])
			}
			w.sets = append(w.sets, thread{t.frame, next, t.count})
			return
		}
		if w.base != nil && t.frame == w.base && w.nextRound(next, t.count) {
			return
		}
	}
	w.sets = w.step(w.sets, w.sets[from:to:to], c)
}

// nextRound is enter for the end of a round of the loop of a local walk, if the
// next round begins with a byte.
func (w *walker) nextRound(pc, count int32) bool {
	n := &w.p.nodes[pc]
	if n.op != opRound {
		return false
	}
	l := &w.p.loops[n.arg]
	if o := w.p.nodes[l.body].op; o != opRange && o != opTable || l.exit != returnNode {
		return false
	}
	w.reach = max(w.reach, w.p.need[l.body])
	w.sets = append(w.sets, thread{w.base, l.body, count + 1})
	w.escapes = append(w.escapes, escape{w.at, count + 1})
	return true
}

// mark notes the tokens that end at trie node i, with the threads there.
func (w *walker) mark(i int32, set []thread) {
	ids := w.v.at(i)
	w.ids = append(w.ids, ids...)
	if w.base == nil || len(ids) == 0 {
		return
	}
	fewest := roundsOf(set[0], w.base)
	for _, t := range set[1:] {
		fewest = min(fewest, roundsOf(t, w.base))
	}
	for range ids {
		w.rounds = append(w.rounds, fewest)
	}
}

// roundsOf returns the rounds that the rule above base had made when t was
// there, or when it called the rules above it.
func roundsOf(t thread, base *frame) int32 {
	f, count := t.frame, t.count
	for f != base {
		f, count = f.parent, f.count
	}
	return count
}

// local is what a byte node means for a vocabulary whatever lies below it on
// the stack: immutable.
type local struct {
	bits []uint64 // tokens that end before the rule does
	// If the node is in a loop, byRounds holds those tokens sorted by the rounds
	// that they complete, upTo[r] how many complete at most r, and few[r] the
	// bits of those, for small r. atEnd are the tokens that end with the last of
	// these rounds: they remain when no other one is possible.
	byRounds []int32
	upTo     []int32
	few      [][]uint64
	atEnd    []uint64
	// The ways out of the rule inside a token; of a loop only those after which
	// a token goes on.
	escapes  []escape
	leaves   bool  // there is a way out at all
	furthest int32 // most rounds of an escape
	reach    int32 // depth that the walk needed above the rule
	work     int   // steps of the walk
}

// localWalk computes the local of node pc, or returns nil after most steps.
func localWalk(p *program, v *Vocabulary, pc int32, most int) *local {
	w := newWalker(p, v, most)
	defer w.release()
	w.base = &frame{}
	w.subtree(0, []thread{{w.base, pc, 0}})
	if w.tired {
		return nil
	}
	l := &local{bits: make([]uint64, v.MaskWords()), leaves: len(w.escapes) > 0, reach: w.reach, work: w.work}
	setBits(l.bits, w.ids)
	inLoop := p.loopOf[pc] >= 0
	if inLoop {
		l.sortByRounds(w.ids, w.rounds)
		l.atEnd = make([]uint64, v.MaskWords())
		w.markLast(l)
	}
	for _, e := range w.escapes {
		l.furthest = max(l.furthest, e.rounds)
		if !inLoop || v.follow[e.at] != 0 {
			l.escapes = append(l.escapes, e)
		}
	}
	l.escapes = slices.Clip(l.escapes)
	return l
}

// markLast fills atEnd.
func (w *walker) markLast(l *local) {
	if len(w.fewest) < w.v.Size() {
		w.fewest = make([]int32, w.v.Size())
	}
	for i, id := range w.ids {
		w.fewest[id] = w.rounds[i]
	}
	for _, e := range w.escapes {
		for _, id := range w.v.at(e.at) {
			if e.rounds == w.fewest[id] {
				l.atEnd[id>>6] |= 1 << (id & 63)
			}
		}
	}
	for _, id := range w.ids {
		w.fewest[id] = 0
	}
}

// afterEscapes walks on from the escapes of l with the threads of w.init.
func (w *walker) afterEscapes(l *local, left rounds, inLoop bool) {
	if len(w.init) == 0 {
		return
	}
	if most := int(left.most); inLoop && most < len(l.upTo) {
		for _, id := range l.byRounds[l.upTo[most-1]:l.upTo[most]] {
			if l.atEnd[id>>6]>>(id&63)&1 != 0 {
				w.ids = append(w.ids, id)
			}
		}
	}
	first := w.firstBytes(w.init)
	for _, e := range l.escapes {
		if inLoop && (e.rounds < left.least || e.rounds > left.most) {
			continue
		}
		if !inLoop {
			w.mark(e.at, w.init)
		}
		if w.v.follow[e.at]&first != 0 {
			w.subtree(e.at, w.init)
		}
	}
}

// firstBytes has bit b%64 set for every byte b that a thread accepts, and maybe more.
func (w *walker) firstBytes(set []thread) (bytes uint64) {
	for i := range set {
		bytes |= w.p.bytesOf(&w.p.nodes[set[i].pc])
	}
	return bytes
}

// sortByRounds is a counting sort.
func (l *local) sortByRounds(ids, rounds []int32) {
	most := int32(0)
	for _, r := range rounds {
		most = max(most, r)
	}
	l.upTo = make([]int32, most+1)
	for _, r := range rounds {
		l.upTo[r]++
	}
	for i := range most {
		l.upTo[i+1] += l.upTo[i]
	}
	next := append([]int32{0}, l.upTo[:most]...)
	l.byRounds = make([]int32, len(ids))
	for i, id := range ids {
		l.byRounds[next[rounds[i]]] = id
		next[rounds[i]]++
	}
	l.fillFew()
}

// denseRounds is up to how many rounds a local has bits of its own: most tokens
// are shorter.
const denseRounds = 12

func (l *local) fillFew() {
	bits := make([]uint64, len(l.bits))
	from := int32(0)
	for r := 0; r < len(l.upTo)-1 && r < denseRounds; r++ {
		setBits(bits, l.byRounds[from:l.upTo[r]])
		from = l.upTo[r]
		l.few = append(l.few, slices.Clone(bits))
	}
}

// addTo sets the bits of the tokens that complete fewer than limit rounds;
// limit < 0 means any number.
func (l *local) addTo(dst []uint64, limit int32) {
	if limit < 0 || int(limit) >= len(l.upTo) {
		orBits(dst, l.bits)
		return
	}
	dense := min(int(limit), len(l.few))
	if dense == 0 {
		return
	}
	orBits(dst, l.few[dense-1])
	setBits(dst, l.byRounds[l.upTo[dense-1]:l.upTo[limit-1]])
}

// size estimates the memory of l in bytes.
func (l *local) size() int {
	return 8*len(l.bits)*(2+len(l.few)) + 4*len(l.byRounds) + 8*len(l.escapes) + 128
}

func orBits(dst, bits []uint64) {
	for i, w := range bits {
		dst[i] |= w
	}
}

func setBits(dst []uint64, ids []int32) {
	for _, id := range ids {
		dst[id>>6] |= 1 << (id & 63)
	}
}
