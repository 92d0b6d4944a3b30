package scheduler

import (
	"fmt"
	"slices"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler/kvcache"
)

// Scheduler holds all sequences from Add to their terminal Output.
type Scheduler struct {
	config Config
	cache  *kvcache.Cache
	less   func(a, b *Sequence) bool // rank
	added  uint64                    // sequences added so far

	byID     map[infer.SeqID]*Sequence // all sequences
	waiting  waiting                   // those that hold no blocks and are not isolated
	pace     pace                      // of steps in which sequences decode
	share    share                     // of the keys in what is admitted; fcfs policy only
	running  []*Sequence               // those that hold blocks, by rank
	isolated []*Sequence               // the isolated ones, waiting or running, next turn first
	// lastIsolated: the last step was an isolated sequence's, so the next one is
	// the others', if there are any.
	lastIsolated bool

	// The plan outstanding, if inFlight. batch is parallel to plan.Sequences.
	// All three reuse their memory.
	inFlight bool
	batch    []*Sequence
	first    []*Sequence // those of batch that were never selected before
	plan     infer.StepPlan
	// preempted: a sequence lost its blocks while this plan was made.
	preempted bool

	outputs []Output // of the last Commit
	deltas  deltas
}

// Add hands a sequence over to the scheduler. An error means that it can never
// run; the sequence is then not added and gets no Output.
func (s *Scheduler) Add(seq *Sequence) error {
	if err := s.check(seq); err != nil {
		return err
	}
	s.added++
	seq.order = s.added
	s.byID[seq.ID] = seq
	if s.config.Policy == FCFS {
		s.share.enter(seq)
	}
	if seq.isolate {
		s.addIsolated(seq)
	} else {
		s.waiting.push(seq)
	}
	return nil
}

// addIsolated puts a sequence behind those that were tried less often or as often
// and rank before it, and behind any that has been at work here.
func (s *Scheduler) addIsolated(seq *Sequence) {
	i := slices.IndexFunc(s.isolated, func(other *Sequence) bool {
		if other.started || other.numTrials < seq.numTrials {
			return false
		}
		return other.numTrials > seq.numTrials || s.less(seq, other)
	})
	if i < 0 {
		i = len(s.isolated)
	}
	s.isolated = slices.Insert(s.isolated, i, seq)
}

// check returns why seq can never run here.
func (s *Scheduler) check(seq *Sequence) error {
	switch {
	case seq.Params == nil:
		return infer.Internal(fmt.Errorf("scheduler: sequence %d has no sampling parameters", seq.ID))
	case seq.order != 0 || s.byID[seq.ID] != nil:
		return infer.Internal(fmt.Errorf("scheduler: sequence %d was added before", seq.ID))
	case len(seq.Prompt) == 0:
		return infer.Errorf(infer.CodeInvalid, "prompt", "the prompt must have at least 1 token, got 0")
	case seq.resumed && seq.numOutputTokens() >= seq.Params.MaxTokens:
		return infer.Internal(fmt.Errorf("scheduler: sequence %d is resumed with %d of %d output tokens",
			seq.ID, seq.numOutputTokens(), seq.Params.MaxTokens))
	}
	limit := s.config.MaxModelLen
	if seq.Params.MaxTokens > 0 {
		limit-- // room for one token to be drawn
	}
	if len(seq.tokens) > limit {
		return infer.Errorf(infer.CodeContextLength, "prompt",
			"the prompt must have at most %d tokens, as max_model_len is %d, got %d",
			limit, s.config.MaxModelLen, len(seq.tokens))
	}
	most := seq.maxComputed(s.config.MaxModelLen)
	if need := s.cache.BlocksFor(most); need > s.cache.NumBlocks() {
		return infer.Errorf(infer.CodeContextLength, "max_tokens",
			"%d prompt tokens with max_tokens %d may need %d KV cache blocks of %d tokens, but there are only %d",
			len(seq.Prompt), seq.Params.MaxTokens, need, s.config.BlockSize, s.cache.NumBlocks())
	}
	return nil
}

// Abort ends a sequence. It is idempotent, and an unknown id does nothing. If
// the sequence is not part of the plan outstanding its terminal Output is
// returned, with ok true. If it is, its blocks are still being written: ok is
// false, and the terminal Output comes from Commit.
func (s *Scheduler) Abort(id infer.SeqID) (out Output, ok bool) {
	seq := s.byID[id]
	if seq == nil {
		return Output{}, false
	}
	if seq.numScheduled > 0 {
		seq.aborted = true
		return Output{}, false
	}
	if seq.running {
		i := slices.Index(s.running, seq)
		s.running = slices.Delete(s.running, i, i+1)
		seq.running = false
	} else if !seq.isolate {
		s.waiting.remove(seq)
	}
	s.cache.Release(&seq.table)
	return s.end(seq, infer.FinishAbort), true
}

// EndIsolation lets an isolated sequence share steps again from the next plan
// on. It reports whether id names an isolated sequence.
func (s *Scheduler) EndIsolation(id infer.SeqID) bool {
	seq := s.byID[id]
	if seq == nil || !seq.isolate {
		return false
	}
	s.removeIsolated(seq)
	seq.isolate = false
	if !seq.running {
		s.waiting.push(seq)
	}
	return true
}

func (s *Scheduler) removeIsolated(seq *Sequence) {
	i := slices.Index(s.isolated, seq)
	s.isolated = slices.Delete(s.isolated, i, i+1)
}

// end forgets a sequence that holds no blocks any more and is in neither running
// nor waiting, and returns its terminal Output.
func (s *Scheduler) end(seq *Sequence, reason infer.FinishReason) Output {
	delete(s.byID, seq.ID)
	if len(s.byID) == 0 {
		s.share.idle()
	}
	if seq.isolate {
		s.removeIsolated(seq)
	}
	seq.ended = true
	return Output{
		Seq:             seq,
		NumOutputTokens: seq.numOutputTokens(),
		FinishReason:    reason,
		NumCachedTokens: seq.numCachedTokens,
	}
}

// Scheduled returns the sequences that the last Schedule selected for the first
// time, preempted ones not again. The slice is reused by the next Schedule.
func (s *Scheduler) Scheduled() []*Sequence { return s.first }

// Aboard returns the sequences of the plan outstanding, in its order. The slice is the
// scheduler's, and valid until Commit.
func (s *Scheduler) Aboard() []*Sequence { return s.batch }
