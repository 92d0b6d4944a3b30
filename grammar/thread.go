package grammar

// frame is a rule that waits for another one to end. Frames are immutable and
// shared by all threads above them; nil is the bottom of the stack.
type frame struct {
	parent *frame
	hash   uint64 // of the whole stack, as far as a token can feel it
	ret    int32  // where to go on
	count  int32  // rounds of the loop that ret is in
	left   rounds // what is left of that loop, for masks
	depth  int32  // 1 for the lowest frame
}

// rounds says how many rounds a loop still needs and how many it may still
// make, both cut to what one token can make of them. No loop: all zero.
type rounds struct{ least, most int32 }

func depthOf(f *frame) int32 {
	if f == nil {
		return 0
	}
	return f.depth
}

func hashOf(f *frame) uint64 {
	if f == nil {
		return 0x9e3779b97f4a7c15
	}
	return f.hash
}

// mix is one round of a multiply-xorshift hash.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// sameStack compares two stacks by all they hold.
func sameStack(a, b *frame) bool {
	for a != b {
		if a == nil || b == nil || a.hash != b.hash || a.ret != b.ret || a.count != b.count {
			return false
		}
		a, b = a.parent, b.parent
	}
	return true
}

// sameMasks compares two stacks as far as a token can feel the difference.
func sameMasks(a, b *frame) bool {
	for a != b {
		if a == nil || b == nil || a.hash != b.hash || a.ret != b.ret || a.left != b.left {
			return false
		}
		a, b = a.parent, b.parent
	}
	return true
}

// thread is one way to read the text so far; it waits at a byte node or at
// matchNode.
type thread struct {
	frame *frame
	pc    int32
	count int32 // rounds of the loop that pc is in
}

// stepper moves threads through a program. It works for matchers, which keep
// the frames, and for walks over the vocabulary, which throw them away.
type stepper struct {
	p *program
	// longest is the bytes of the longest token.
	longest int
	// slab is where a walk takes frames from, nil for matchers.
	slab *slab
	// over is set when threads had to be dropped: see maxThreads.
	over bool
	// work counts the threads moved and compared. Beyond most the stepper is tired:
	// it stops, and what it has found is of no use.
	work, most int
	tired      bool

	// A local walk starts from base, a stand-in for any stack: its counter
	// counts from 0 and no limit of a loop is checked; returning from it is an
	// escape. reach is the greatest depth plus need that it met.
	base    *frame
	reach   int32
	escapes []escape
	at      int32 // the trie node of the current step
}

// escape is the end of the rule in which a local walk began: at this node of
// the trie, after this many rounds.
type escape struct {
	at     int32
	rounds int32
}

// slab hands out frames that are all given up together.
type slab struct {
	chunks [][]frame
	used   int
	most   int // of used since the last clear
}

const slabChunk = 256

func (s *slab) next() *frame {
	if s.used == len(s.chunks)*slabChunk {
		s.chunks = append(s.chunks, make([]frame, slabChunk))
	}
	f := &s.chunks[s.used/slabChunk][s.used%slabChunk]
	s.used++
	s.most = max(s.most, s.used)
	return f
}

// clear forgets the frames handed out.
func (s *slab) clear() {
	for i := 0; i < s.most; i += slabChunk {
		clear(s.chunks[i/slabChunk][:min(s.most-i, slabChunk)])
	}
	s.used, s.most = 0, 0
}

func (s *stepper) push(t thread, ret int32) *frame {
	f := &frame{}
	if s.slab != nil {
		f = s.slab.next()
	}
	left := s.p.left(ret, t.count, s.longest)
	h := mix(hashOf(t.frame), uint64(uint32(ret)))
	*f = frame{
		parent: t.frame, ret: ret, count: t.count, left: left, depth: depthOf(t.frame) + 1,
		hash: mix(h, uint64(uint32(left.least))<<32|uint64(uint32(left.most))),
	}
	return f
}

// step appends to out where the threads of in go with byte c.
func (s *stepper) step(out, in []thread, c byte) []thread {
	start := len(out)
	s.work += len(in)
	for i := range in {
		n := &s.p.nodes[in[i].pc]
		if next := s.p.nextOf(n, c); next != failNode {
			out = s.enter(out, start, thread{in[i].frame, next, in[i].count})
		}
	}
	return out
}

// enter appends the byte nodes that t reaches without a byte to set[start:].
func (s *stepper) enter(set []thread, start int, t thread) []thread {
	for {
		if s.work++; s.work > s.most {
			s.tired = true
			return set
		}
		reach := depthOf(t.frame) + s.p.need[t.pc]
		if s.base != nil {
			s.reach = max(s.reach, reach)
		} else if reach > MaxDepth {
			return set
		}
		n := &s.p.nodes[t.pc]
		switch n.op {
		case opRange, opTable, opMatch:
			return s.wait(set, start, t)
		case opSplit:
			targets := s.p.splits[n.arg]
			for _, pc := range targets[1:] {
				set = s.enter(set, start, thread{t.frame, pc, t.count})
			}
			t.pc = targets[0]
		case opCall:
			if n.next >= 0 {
				t.frame = s.push(t, n.next)
			}
			t.pc, t.count = s.p.rules[n.arg], 0
		case opReturn:
			if s.base != nil && t.frame == s.base {
				s.escapes = append(s.escapes, escape{s.at, t.count})
				return set
			}
			t = returnFrom(t.frame)
		case opRound:
			l := &s.p.loops[n.arg]
			if t.count++; l.max < 0 && !s.symbolic(t) {
				t.count = min(t.count, l.min) // more rounds make no difference
			}
			t.pc = l.head
		case opLoop:
			l := &s.p.loops[n.arg]
			if l.max < 0 || t.count < l.max || s.symbolic(t) {
				set = s.enter(set, start, thread{t.frame, l.body, t.count})
			}
			if t.count < l.min && !s.symbolic(t) {
				return set
			}
			t.pc = l.exit
		default:
			return set
		}
	}
}

// symbolic reports whether t's counter counts from an unknown value.
func (s *stepper) symbolic(t thread) bool { return s.base != nil && t.frame == s.base }

// returnFrom is where a thread goes on after leaving the rule above f.
func returnFrom(f *frame) thread {
	if f == nil {
		return thread{nil, matchNode, 0}
	}
	return thread{f.parent, f.ret, f.count}
}

// wait adds t to the set, once. Of two threads that differ by the rounds they
// made only, and need no more of them, the one with fewer can do all that the
// other can.
func (s *stepper) wait(set []thread, start int, t thread) []thread {
	if s.p.join[t.pc] {
		s.work += (len(set) - start) / 4
		for i := start; i < len(set); i++ {
			o := &set[i]
			if o.pc != t.pc || o.count != t.count && !s.enough(o.count, t) || !sameStack(o.frame, t.frame) {
				continue
			}
			o.count = min(o.count, t.count)
			return set
		}
	}
	if len(set)-start >= maxThreads {
		s.over = true
		return set
	}
	return append(set, t)
}

// enough reports whether the loop that t is in needs no more rounds, neither
// after count of them nor after t's.
func (s *stepper) enough(count int32, t thread) bool {
	id := s.p.loopOf[t.pc]
	return id >= 0 && !s.symbolic(t) && min(count, t.count) >= s.p.loops[id].min
}
