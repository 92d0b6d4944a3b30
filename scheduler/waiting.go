package scheduler

import "slices"

// waiting holds the sequences that hold no blocks, isolated ones apart, in two
// heaps by rank: short prefills may pass long ones, so the first short one must
// be found without a walk over the long ones.
type waiting struct {
	shortLimit  int // most tokens of a short prefill
	short, long rankHeap
}

func newWaiting(less func(a, b *Sequence) bool, shortLimit int) waiting {
	return waiting{shortLimit: shortLimit, short: rankHeap{less: less}, long: rankHeap{less: less}}
}

// isShort reports whether a prefill of all of seq's tokens may pass long ones.
func (w *waiting) isShort(seq *Sequence) bool { return len(seq.tokens) <= w.shortLimit }

// heapFor returns the heap that holds seq, or is to hold it. It does not change
// while seq waits.
func (w *waiting) heapFor(seq *Sequence) *rankHeap {
	if w.isShort(seq) {
		return &w.short
	}
	return &w.long
}

func (w *waiting) len() int { return len(w.short.items) + len(w.long.items) }

func (w *waiting) push(seq *Sequence)   { w.heapFor(seq).push(seq) }
func (w *waiting) remove(seq *Sequence) { w.heapFor(seq).remove(seq) }

// all returns those that wait, in no order.
func (w *waiting) all() []*Sequence { return slices.Concat(w.short.items, w.long.items) }

// reorder follows a change of ranks.
func (w *waiting) reorder() {
	w.short.reorder()
	w.long.reorder()
}

// first returns the sequence of lowest rank, nil if there is none.
func (w *waiting) first() *Sequence {
	short, long := w.short.first(), w.long.first()
	if short == nil || long != nil && w.long.less(long, short) {
		return long
	}
	return short
}

// rankHeap is a binary heap of sequences, lowest rank first. Each knows its
// place in it, so that any of them leaves in O(log n).
type rankHeap struct {
	less  func(a, b *Sequence) bool
	items []*Sequence
}

func (h *rankHeap) first() *Sequence {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

func (h *rankHeap) push(seq *Sequence) {
	h.items = append(h.items, seq)
	seq.heapIndex = len(h.items) - 1
	h.up(seq.heapIndex)
}

func (h *rankHeap) remove(seq *Sequence) {
	i, last := seq.heapIndex, len(h.items)-1
	h.swap(i, last)
	h.items[last] = nil
	h.items = h.items[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *rankHeap) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].heapIndex, h.items[j].heapIndex = i, j
}

// reorder makes it a heap again, whatever the ranks are now.
func (h *rankHeap) reorder() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *rankHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *rankHeap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.items); child++ {
			if h.less(h.items[child], h.items[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
