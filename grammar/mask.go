package grammar

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// binding is a program together with a vocabulary, and the masks known so far.
type binding struct {
	p    *program
	v    *Vocabulary
	opts Options

	shards [cacheShards]shard
	limit  int // bytes of each shard

	mu         sync.Mutex // held by who computes a local
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
	left  rounds
}

// maskEntry holds tokens: as bits if they are many.
type maskEntry struct {
	stack *frame
	bits  []uint64
	ids   []int32
}

func newBinding(p *program, v *Vocabulary, o Options) *binding {
	n := o.CacheBytes
	b := &binding{p: p, v: v, opts: o, limit: n / 4 / cacheShards, localLimit: n - n/4}
	for i := range b.shards {
		b.shards[i].entries = map[maskKey]maskEntry{}
	}
	b.locals.Store(&map[int32]*local{})
	return b
}

// addMask sets the bits of the tokens that t survives. It returns the steps that
// it took; if those are more than most, some bits may be missing.
func (b *binding) addMask(dst []uint64, t thread, most int) (work int) {
	if t.pc == matchNode {
		return 0
	}
	known := 16 + len(dst)/wordsPerStep
	if b.p.wide[t.pc] {
		l, work := b.local(t.pc, most)
		work += known
		if work > most {
			return work
		}
		if l.reach+depthOf(t.frame) <= MaxDepth {
			rounds := int32(-1)
			if id := b.p.loopOf[t.pc]; id >= 0 && b.p.loops[id].max >= 0 {
				rounds = b.p.loops[id].max - t.count
			}
			l.addTo(dst, rounds)
			if l.leaves {
				work += b.lookUp(dst, t, l, most-work)
			}
			return work
		}
	}
	return known + b.lookUp(dst, t, nil, most-known)
}

// wordsPerStep is how many words of a known mask are written in the time of a
// step of a walk.
const wordsPerStep = 16

// lookUp sets the bits of a cached walk of t: the whole walk, or what follows
// the escapes of l.
func (b *binding) lookUp(dst []uint64, t thread, l *local, most int) (work int) {
	left := b.p.left(t.pc, t.count, b.v.longest)
	if l != nil { // no escape takes more rounds than furthest
		left.least, left.most = min(left.least, l.furthest+1), min(left.most, l.furthest+1)
	}
	key := maskKey{hashOf(t.frame), t.pc, left}
	s := &b.shards[mix(key.stack, uint64(key.pc))%cacheShards]
	s.mu.RLock()
	e, ok := s.entries[key]
	s.mu.RUnlock()
	if ok && sameMasks(e.stack, t.frame) {
		orBits(dst, e.bits)
		setBits(dst, e.ids)
		return 0
	}
	w := newWalker(b.p, b.v, most)
	defer w.release()
	if l == nil {
		w.subtree(0, []thread{t})
	} else {
		w.init = w.enter(w.init[:0], 0, returnFrom(t.frame))
		w.afterEscapes(l, left, b.p.loopOf[t.pc] >= 0)
	}
	if !w.tired {
		setBits(dst, w.ids)
		s.put(key, w.entry(t.frame), b.limit)
	}
	return w.work
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

// entry keeps what a walk from above stack has found.
func (w *walker) entry(stack *frame) maskEntry {
	e := maskEntry{stack: stack}
	if words := w.v.MaskWords(); len(w.ids) > 2*words {
		e.bits = make([]uint64, words)
		setBits(e.bits, w.ids)
	} else {
		e.ids = slices.Clone(w.ids)
	}
	return e
}

// local returns the local of a wide node, and the steps that it took; if those are
// more than most, there is none. Those of the prelude, and of loops like the one in
// the prelude, are the vocabulary's.
func (b *binding) local(pc int32, most int) (l *local, work int) {
	if pc < b.p.shared {
		return b.v.shared[pc], 0
	}
	if id := b.p.loopOf[pc]; id >= 0 && b.p.loops[id].free && b.p.loops[id].body == pc {
		return b.v.free, 0
	}
	if l := (*b.locals.Load())[pc]; l != nil {
		return l, 0
	}
	if most > unlimited/2 { // less what was spent
		b.mu.Lock() // one walk serves all who wait for it
	} else if !b.mu.TryLock() {
		return nil, most + 1
	}
	defer b.mu.Unlock()
	if l := (*b.locals.Load())[pc]; l != nil {
		return l, 0
	}
	if l = localWalk(b.p, b.v, pc, most); l == nil {
		return nil, most + 1
	}
	next := map[int32]*local{pc: l}
	if b.localBytes += l.size(); b.localBytes > b.localLimit {
		b.localBytes = l.size()
	} else {
		maps.Copy(next, *b.locals.Load())
	}
	b.locals.Store(&next)
	return l, l.work
}
