package scheduler

import (
	"fmt"

	"github.com/troupe-llm/troupe/scheduler/kvcache"
)

// Stats are gauges, and counts since the last call of [Scheduler.Stats].
type Stats struct {
	NumRunning int // sequences that hold blocks
	NumWaiting int // sequences that wait for a seat or blocks, deferred ones not included
	// NumWaitingDeferred counts isolated sequences that wait for a step of their own.
	NumWaitingDeferred int
	KVUsage            float64 // used blocks / all blocks, in [0, 1]; cached ones are not used

	// NumPromptTokensDone counts prompt tokens computed, not those found in the
	// cache, of the prefills that finished; nothing is counted twice after a
	// preemption.
	NumPromptTokensDone int
	NumGenerationTokens int // tokens drawn
	NumPreemptions      int
	// PrefixCacheQueries and PrefixCacheHits count prompt tokens looked up and
	// found, when a new sequence is selected first. Sequences that are preempted,
	// readmitted, or barred from the cache by prompt_logprobs do not count.
	PrefixCacheQueries int
	PrefixCacheHits    int
}

// deltas are the counts of Stats.
type deltas struct {
	promptTokensDone, generationTokens, preemptions int
	prefixCacheQueries, prefixCacheHits             int
}

// Stats returns the state now, and what was counted since the last call.
func (s *Scheduler) Stats() Stats {
	deferred := 0
	for _, seq := range s.isolated {
		if !seq.running {
			deferred++
		}
	}
	d := s.deltas
	s.deltas = deltas{}
	return Stats{
		NumRunning:          len(s.running),
		NumWaiting:          s.waiting.len(),
		NumWaitingDeferred:  deferred,
		KVUsage:             float64(s.cache.NumUsed()) / float64(s.cache.NumBlocks()),
		NumPromptTokensDone: d.promptTokensDone,
		NumGenerationTokens: d.generationTokens,
		NumPreemptions:      d.preemptions,
		PrefixCacheQueries:  d.prefixCacheQueries,
		PrefixCacheHits:     d.prefixCacheHits,
	}
}

// CheckInvariants returns the first broken invariant that it finds. It is for
// tests: it visits every block and every sequence.
func (s *Scheduler) CheckInvariants() error {
	tables := make([]*kvcache.Table, 0, len(s.running))
	for i, seq := range s.running {
		if i > 0 && !s.less(s.running[i-1], seq) {
			return fmt.Errorf("running sequence %d is out of order", seq.ID)
		}
		tables = append(tables, &seq.table)
	}
	if err := s.cache.CheckInvariants(tables); err != nil {
		return err
	}
	if len(s.running) > s.config.MaxNumSeqs {
		return fmt.Errorf("%d sequences run, max_num_seqs is %d", len(s.running), s.config.MaxNumSeqs)
	}
	numIsolatedRunning, aboard := 0, 0
	for id, seq := range s.byID {
		if err := s.checkSequence(seq); err != nil {
			return fmt.Errorf("sequence %d: %w", id, err)
		}
		if seq.isolate && seq.running {
			numIsolatedRunning++
		}
		if seq.numScheduled > 0 {
			aboard++
		}
	}
	if s.inFlight && aboard != len(s.batch) || !s.inFlight && aboard != 0 {
		return fmt.Errorf("%d sequences are aboard, the plan has %d", aboard, len(s.batch))
	}
	if n := len(s.running) - numIsolatedRunning + s.waiting.len() + len(s.isolated); n != len(s.byID) {
		return fmt.Errorf("%d sequences are listed, %d exist", n, len(s.byID))
	}
	if s.plan.NumTokens > s.config.MaxNumBatchedTokens {
		return fmt.Errorf("the plan has %d tokens, the budget is %d", s.plan.NumTokens, s.config.MaxNumBatchedTokens)
	}
	return nil
}

func (s *Scheduler) checkSequence(seq *Sequence) error {
	numBlocks := len(seq.table.Blocks())
	switch {
	case seq.ended:
		return fmt.Errorf("ended but not forgotten")
	case !seq.running && (numBlocks > 0 || seq.numComputed > 0 || seq.numScheduled > 0):
		return fmt.Errorf("waits with %d blocks, %d computed tokens, %d scheduled", numBlocks, seq.numComputed, seq.numScheduled)
	case seq.numComputed >= len(seq.tokens) || seq.numScheduled > seq.remaining()+seq.numDrafts:
		return fmt.Errorf("computed %d and scheduled %d of %d tokens", seq.numComputed, seq.numScheduled, len(seq.tokens))
	case numBlocks < s.cache.BlocksFor(seq.numComputed+seq.numScheduled):
		return fmt.Errorf("%d blocks for %d tokens", numBlocks, seq.numComputed+seq.numScheduled)
	case seq.numScheduled == 0:
		return nil
	}
	for _, b := range seq.table.Blocks()[seq.numComputed/s.config.BlockSize:] {
		if !s.cache.Writable(b) {
			return fmt.Errorf("is about to write to block %d, which is shared or findable", b)
		}
	}
	return nil
}
