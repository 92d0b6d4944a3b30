package scheduler

import (
	"slices"

	"github.com/troupe-llm/troupe/scheduler/kvcache"
)

// start gives a sequence that was waiting a seat and the prefix found for it.
func (s *Scheduler) start(seq *Sequence, m kvcache.Match) {
	seq.reserve()
	seq.table.Reserve(s.cache.BlocksFor(len(seq.tokens) + spareOutput))
	s.cache.Attach(&seq.table, m)
	seq.numComputed = m.NumTokens
	seq.running = true
	if seq.matcher == nil && seq.Params.Grammar != nil {
		seq.matcher = seq.Params.Grammar.NewMatcher()
	}
	seq.drafts, seq.draftLen = nil, s.config.NumSpecTokens
	s.share.admitted(seq)
	i := len(s.running)
	for i > 0 && s.less(seq, s.running[i-1]) {
		i--
	}
	s.running = slices.Insert(s.running, i, seq)
}

// selectTokens puts the next n tokens of a running sequence into the plan.
func (s *Scheduler) selectTokens(seq *Sequence, n int) {
	seq.numScheduled = n
	s.batch = append(s.batch, seq)
	if seq.started {
		return
	}
	seq.started = true
	s.first = append(s.first, seq)
	seq.numCachedTokens = min(seq.numComputed, len(seq.Prompt))
	if s.config.EnablePrefixCaching && !seq.readmitted && !seq.wantsPromptLogprobs() {
		s.deltas.prefixCacheQueries += len(seq.Prompt)
		s.deltas.prefixCacheHits += seq.numCachedTokens
	}
}

// grow gives a running sequence blocks for numTokens positions, preempting those
// that rank after it, last first. It reports false if that is not enough.
func (s *Scheduler) grow(seq *Sequence, numTokens int) bool {
	for !s.cache.Grow(&seq.table, numTokens) {
		youngest := s.running[len(s.running)-1]
		if youngest == seq {
			return false
		}
		s.preempt(youngest)
	}
	return true
}

// preempt takes the blocks of a running sequence that is not in the plan. Its
// tokens are computed anew when it gets its turn again.
func (s *Scheduler) preempt(seq *Sequence) {
	seq.numPreemptions++
	s.deltas.preemptions++
	s.preempted = true
	s.stop(seq)
	if !seq.isolate {
		s.waiting.push(seq)
	}
}

// stop takes seat and blocks of the running sequence of highest rank.
func (s *Scheduler) stop(seq *Sequence) {
	last := len(s.running) - 1
	if s.running[last] != seq {
		panic("scheduler: only the running sequence of highest rank can be stopped")
	}
	s.running[last] = nil
	s.running = s.running[:last]
	s.cache.Release(&seq.table)
	seq.running, seq.chunked, seq.numComputed = false, false, 0
	seq.drafts = nil
}
