package scheduler

import (
	"fmt"

	"github.com/troupe-llm/troupe/infer"
)

// draftShare bounds the draft tokens of a step: one part in so many of what the
// decodes leave of the budget. The rest is for prefills, which do not wait for
// guesses.
const draftShare = 2

// wantedDrafts returns how many of a decoding sequence's draft tokens may be
// verified in the next step: no more than it may still generate with the token
// that is drawn in any case.
func (s *Scheduler) wantedDrafts(seq *Sequence) int {
	if len(seq.drafts) == 0 {
		return 0
	}
	return min(len(seq.drafts), s.draftRoom(seq))
}

// draftRoom returns how many draft tokens can be of use to a sequence in its next
// step.
func (s *Scheduler) draftRoom(seq *Sequence) int {
	end := min(len(seq.Prompt)+seq.Params.MaxTokens, s.config.MaxModelLen)
	return max(end-len(seq.tokens)-1, 0)
}

// selectDecode puts the one token of a decoding sequence into the plan, and as
// many of its drafts as the blocks at hand have room for: a guess is not worth a
// preemption. It returns the number of drafts.
func (s *Scheduler) selectDecode(seq *Sequence, numDrafts int) int {
	if numDrafts > 0 && !s.cache.Grow(&seq.table, seq.numComputed+1+numDrafts) {
		numDrafts = 0
	}
	if numDrafts > 0 {
		n := len(seq.tokens)
		// Beyond the length nobody has seen the memory, so it may be written to.
		seq.tokens = append(seq.tokens, seq.drafts[:numDrafts]...)[:n]
	}
	seq.numDrafts = numDrafts
	s.selectTokens(seq, 1+numDrafts)
	return numDrafts
}

// propose returns how many draft tokens the runner is asked for, and finds it
// the slots that it needs for them. end is the number of tokens computed, drafts
// included, at the end of the step.
func (s *Scheduler) propose(seq *Sequence, end int) int {
	k := min(seq.draftLen, s.draftRoom(seq)-1)
	if k <= 0 || seq.isolate || !s.cache.Grow(&seq.table, end+min(k, s.config.NumLookaheadSlots)) {
		return 0
	}
	return k
}

// checkDrafts returns the error of a result whose accepted tokens are not the
// drafts that were to be verified.
func (q *Sequence) checkDrafts(res *infer.SequenceResult) error {
	accepted := len(res.NewTokenIDs) - 1
	if accepted <= 0 {
		return nil
	}
	for i, id := range q.tokens[len(q.tokens) : len(q.tokens)+accepted] {
		if res.NewTokenIDs[i] != id {
			return fmt.Errorf("scheduler: sequence %d: draft %d is token %d, but token %d was accepted in its place",
				q.ID, i, id, res.NewTokenIDs[i])
		}
	}
	return nil
}

// settleDrafts adapts after a verification how far ahead the sequence's next
// drafts reach: where guesses fail, long ones are wasted work.
func (s *Scheduler) settleDrafts(seq *Sequence, accepted int) {
	drafted := seq.numDrafts
	seq.numDrafts = 0
	if drafted == 0 {
		return
	}
	if accepted == drafted {
		seq.draftLen = min(max(2*drafted, seq.draftLen), s.config.NumSpecTokens)
	} else {
		seq.draftLen = min(accepted+2, s.config.NumSpecTokens)
	}
}

// keepDrafts notes what a step proposed for the next one, and frees the blocks
// that only rejected drafts and proposals needed.
func (s *Scheduler) keepDrafts(seq *Sequence, proposed []int32) {
	if s.config.NumSpecTokens == 0 {
		return
	}
	seq.drafts = proposed
	s.cache.Truncate(&seq.table, seq.numComputed)
}
