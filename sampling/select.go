package sampling

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// candidate is one token that may be drawn or reported.
type candidate struct {
	logit  float32
	id     int32
	weight float64 // exp of the scaled logit; set by nucleus only
}

// before is the order of likelihood: higher logit first, then lower id.
func (a candidate) before(b candidate) bool {
	return a.logit > b.logit || (a.logit == b.logit && a.id < b.id)
}

func compare(a, b candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// heapLimit is the largest selection made with a heap, which touches only the
// few logits that beat its root; beyond it the row is copied and partitioned.
const heapLimit = 512

// selectTop returns the n most likely tokens among those with logit >= floor and
// above -Inf, in no particular order. The result lies in s.cands.
func (s *Sampler) selectTop(logits []float32, n int, floor float32) []candidate {
	if floor == negInf {
		floor = -math.MaxFloat32
	}
	if n > heapLimit {
		c := s.cands[:0]
		for i, v := range logits {
			if v >= floor {
				c = append(c, candidate{logit: v, id: int32(i)})
			}
		}
		s.cands = c
		if len(c) <= n {
			return c
		}
		for i := range c {
			c[i].weight = 1
		}
		return c[:prefix(c, float64(n))]
	}
	h := s.cands[:0]
	for i, v := range logits {
		c := candidate{logit: v, id: int32(i)}
		switch {
		case v < floor:
		case len(h) < n:
			h = append(h, c)
			siftUp(h)
		case v > h[0].logit: // an equal one has a higher id than all in the heap
			h[0] = c
			siftDown(h)
		}
	}
	s.cands = h
	return h
}

// siftUp restores a heap with the least likely candidate at its root after the
// last element was added.
func siftUp(h []candidate) {
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[parent].before(h[i]) {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

// siftDown restores the heap after its root was replaced.
func siftDown(h []candidate) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child].before(h[child+1]) {
			child++
		}
		if !h[i].before(h[child]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// nucleus moves the most likely candidates whose probabilities sum to at least
// topP to the front and returns how many they are: the smallest such set, and
// never empty.
func nucleus(c []candidate, topP float64, d *drawing) int {
	var total float64
	for i := range c {
		c[i].weight = math.Exp(d.scaled(c[i].logit))
		total += c[i].weight
	}
	// Candidates that weigh less than an equal share of what may be left out weigh
	// less than that all together: none of them is in the set, and the search for
	// its border, which is the costly part, can do without them.
	share := (1 - topP) * total / float64(len(c))
	n := 0
	for i := range c {
		if c[i].weight >= share {
			c[n], c[i] = c[i], c[n]
			n++
		}
	}
	return prefix(c[:n], topP*total)
}

// prefix moves to the front the shortest run of candidates, in order of
// likelihood, whose weights sum to target, and returns its length (at least 1 if
// there is any). It is a quickselect that compares masses in place of counts.
func prefix(c []candidate, target float64) int {
	lo, hi, mass := 0, len(c), 0.0
	for rounds := 2 * bits.Len(uint(len(c))); hi-lo > 12 && rounds > 0; rounds-- {
		mid, left := partition(c[lo:hi])
		if mass+left >= target {
			hi = lo + mid
		} else {
			lo, mass = lo+mid, mass+left
		}
	}
	slices.SortFunc(c[lo:hi], compare)
	for i := lo; i < hi; i++ {
		mass += c[i].weight
		if mass >= target {
			return i + 1
		}
	}
	return hi
}

// partition splits c (at least 3 long) so that c[:mid] come before c[mid:], both
// non-empty, and returns mid and the weight of c[:mid].
func partition(c []candidate) (mid int, weight float64) {
	pivot := median(c[0], c[len(c)/2], c[len(c)-1])
	i, j := 0, len(c)-1
	for {
		for c[i].before(pivot) {
			weight += c[i].weight
			i++
		}
		for pivot.before(c[j]) {
			j--
		}
		if i >= j {
			break
		}
		c[i], c[j] = c[j], c[i]
	}
	return i, weight
}

func median(a, b, c candidate) candidate {
	if b.before(a) {
		a, b = b, a
	}
	if c.before(b) {
		b = c
	}
	if b.before(a) {
		return a
	}
	return b
}
