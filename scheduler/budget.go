package scheduler

import (
	"math"
	"slices"
)

// shortShare is the part of the prefill budget kept for short prefills, one in
// so many, and the part of MaxNumBatchedTokens that a short prefill may have at
// most. A quarter bounds what a long prefill loses to them.
const shortShare = 4

// budget is what a step has left for prefills, in tokens.
type budget struct {
	s       *Scheduler
	lane    int // for any prefill, in rank order
	express int // for short ones
	// floor is the lowest Priority among prefills that did not get all they
	// wanted. With the priority policy only equals pass them.
	floor int
}

// newBudget splits the tokens that decodes leave.
func (s *Scheduler) newBudget(numTokens int) budget {
	b := budget{s: s, lane: numTokens, floor: math.MaxInt}
	if s.config.EnableChunkedPrefill {
		b.express = numTokens / shortShare
		b.lane -= b.express
	}
	return b
}

// take returns how many of its want remaining tokens a prefill gets: without
// chunked prefill, all or none.
func (b *budget) take(seq *Sequence, want int) int {
	n := min(want, b.s.chunkLimit())
	if want <= b.s.waiting.shortLimit && b.s.mayPass(seq, b.floor) {
		n = min(n, b.lane+b.express)
	} else {
		n = min(n, b.lane)
	}
	if n < want {
		if !b.s.config.EnableChunkedPrefill {
			return 0
		}
		b.floor = min(b.floor, seq.Priority)
	}
	fromLane := min(n, b.lane)
	b.lane -= fromLane
	b.express -= n - fromLane
	return n
}

// mayPass reports whether a prefill may use the express share while one of the
// given priority waits for the lane.
func (s *Scheduler) mayPass(seq *Sequence, priority int) bool {
	return s.config.Policy != Priority || seq.Priority <= priority
}

// chunkLimit is the most tokens that one prefill gets in a step.
func (s *Scheduler) chunkLimit() int {
	if s.config.EnableChunkedPrefill && s.config.LongPrefillTokenThreshold > 0 {
		return s.config.LongPrefillTokenThreshold
	}
	return math.MaxInt
}

// topUp gives what is left of the budget to the prefills in the plan that did
// not get all they wanted, in rank order, and the rest back to the lane.
func (s *Scheduler) topUp(b *budget) {
	b.lane, b.express = b.lane+b.express, 0
	for _, seq := range s.batch {
		extra := min(b.lane, min(seq.remaining(), s.chunkLimit())-seq.numScheduled)
		// An extra is not worth a preemption.
		if extra > 0 && s.cache.Grow(&seq.table, seq.numComputed+seq.numScheduled+extra) {
			seq.numScheduled += extra
			b.lane -= extra
		}
	}
}

// holdBack leaves the last token of a long prefill for the next step if a
// younger short one gets its first token in this step, so that the short one is
// first. The next step counts it as a decode, so this happens once.
func (s *Scheduler) holdBack() {
	for _, seq := range s.batch {
		if seq.chunked && seq.getsFirstToken() && seq.numScheduled > 1 && !s.waiting.isShort(seq) &&
			slices.ContainsFunc(s.batch, func(other *Sequence) bool {
				return s.waiting.isShort(other) && other.getsFirstToken() && s.less(seq, other) && s.mayPass(other, seq.Priority)
			}) {
			seq.numScheduled--
		}
	}
}

// getsFirstToken reports whether the plan finishes the prefill of a sequence
// without output.
func (q *Sequence) getsFirstToken() bool { return q.finishesPrefill() && q.numOutputTokens() == 0 }
