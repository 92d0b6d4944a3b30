package scheduler

import "github.com/troupe-llm/troupe/scheduler/kvcache"

// Cache shows tests the books of the blocks.
func (s *Scheduler) Cache() *kvcache.Cache { return s.cache }

// Blocks shows tests the blocks that a sequence holds.
func (q *Sequence) Blocks() []int32 { return q.table.Blocks() }

// Running shows tests whether a sequence holds a seat.
func (q *Sequence) Running() bool { return q.running }

// Remaining shows tests how many tokens are to be computed before the next draw.
func (q *Sequence) Remaining() int { return q.remaining() }

// Before shows tests whether q ranks before other in the next plan.
func (s *Scheduler) Before(q, other *Sequence) bool {
	if s.share.disordered {
		s.reorder()
	}
	return s.less(q, other)
}

// Tokens shows tests the memory of a sequence's tokens.
func (q *Sequence) Tokens() []int32 { return q.tokens }
