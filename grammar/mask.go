package grammar

import (
	"slices"
	"sync"
	"sync/atomic"
)

// binding is a program together with a vocabulary, and the masks known so far.
type binding struct {
	p *program
	v *Vocabulary

	shards [cacheShards]shard
	limit  int // bytes of each shard

	mu         sync.Mutex // serialises writers of locals
	locals     atomic.Pointer[map[int32]*local]
	localBytes int
	localLimit int
}

const cacheShards = 8

// shard is a part of the cache of masks. A full one starts again from nothing:
// what is in use comes back at the price of one walk each.
type shard struct {
	mu      sync.RWMutex
	entries map[maskKey]maskEntry
	bytes   int
}

// maskKey says what the mask of a thread depends on; the stack only by its
// hash, so an entry holds the stack too.
type maskKey struct {
	stack uint64
	pc    int32
	// lo and hi are the rounds still needed and still possible of the loop that
	// pc is in, cut to what a token can do.
	lo, hi int32
}

// maskEntry holds tokens: as bits if they are many.
type maskEntry struct {
	stack *frame
	bits  []uint64
	ids   []int32
}

func newBinding(p *program, v *Vocabulary, cacheBytes int) *binding {
	b := &binding{p: p, v: v, limit: cacheBytes / 2 / cacheShards, localLimit: cacheBytes / 2}
	for i := range b.shards {
		b.shards[i].entries = map[maskKey]maskEntry{}
	}
	b.locals.Store(&map[int32]*local{})
	return b
}

// addMask sets the bits of the tokens that t survives.
func (b *binding) addMask(dst []uint64, t thread) {
	if t.pc == matchNode {
		return
	}
	if b.p.wide[t.pc] {
		if l := b.local(t.pc); l.reach+depthOf(t.frame) <= MaxDepth {
			_, hi := b.rounds(t, maxTokenBytes)
			l.addTo(dst, hi)
			if len(l.escapes) > 0 {
				b.lookUp(dst, t, l)
			}
			return
		}
	}
	b.lookUp(dst, t, nil)
}

// rounds returns how many rounds t's loop still needs, and how many it may
// still make (-1 if it is in no loop), both cut to limit.
func (b *binding) rounds(t thread, limit int32) (lo, hi int32) {
	id := b.p.loopOf[t.pc]
	if id < 0 {
		return 0, -1
	}
	l := &b.p.loops[id]
	lo, hi = min(max(l.min-t.count, 0), limit), limit
	if l.max >= 0 {
		hi = min(l.max-t.count, limit)
	}
	return lo, hi
}

// lookUp sets the bits of a cached walk of t: the whole walk, or what follows
// the escapes of l.
func (b *binding) lookUp(dst []uint64, t thread, l *local) {
	limit := int32(b.v.longest) + 1
	if l != nil {
		limit = l.furthest + 1
	}
	lo, hi := b.rounds(t, limit)
	key := maskKey{hashOf(t.frame), t.pc, lo, hi}
	s := &b.shards[mix(key.stack, uint64(key.pc))%cacheShards]
	s.mu.RLock()
	e, ok := s.entries[key]
	s.mu.RUnlock()
	if !ok || !sameStack(e.stack, t.frame) {
		e = b.compute(t, l)
		s.put(key, e, b.limit)
	}
	orBits(dst, e.bits)
	setBits(dst, e.ids)
}

func (s *shard) put(key maskKey, e maskEntry, limit int) {
	size := 8*len(e.bits) + 4*len(e.ids) + 128
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes += size; s.bytes > limit {
		clear(s.entries)
		s.bytes = size
	}
	s.entries[key] = e
}

func (b *binding) compute(t thread, l *local) maskEntry {
	w := newWalker(b.p, b.v)
	defer w.release()
	if l == nil {
		w.subtree(0, []thread{t})
	} else {
		lo, hi := b.rounds(t, l.furthest+1)
		w.init = w.enter(w.init[:0], 0, returnFrom(t.frame))
		for _, e := range l.escapes {
			if e.rounds >= lo && (hi < 0 || e.rounds <= hi) && len(w.init) > 0 {
				w.mark(e.at, w.init)
				w.subtree(e.at, w.init)
			}
		}
	}
	e := maskEntry{stack: t.frame}
	if words := b.v.MaskWords(); len(w.ids) > 2*words {
		e.bits = make([]uint64, words)
		setBits(e.bits, w.ids)
	} else {
		e.ids = slices.Clone(w.ids)
	}
	return e
}

// local returns the local of a wide node, from the vocabulary if the node is
// the prelude's: then all grammars share it.
func (b *binding) local(pc int32) *local {
	if pc < b.p.shared {
		slot := &b.v.shared[pc]
		if l := slot.Load(); l != nil {
			return l
		}
		l := localWalk(b.p, b.v, pc)
		slot.Store(l)
		return l
	}
	if l := (*b.locals.Load())[pc]; l != nil {
		return l
	}
	l := localWalk(b.p, b.v, pc)
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[int32]*local{pc: l}
	if b.localBytes += l.size(); b.localBytes > b.localLimit {
		b.localBytes = l.size()
	} else {
		for k, v := range *b.locals.Load() {
			next[k] = v
		}
	}
	b.locals.Store(&next)
	return l
}
