package scheduler

import (
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// Schedule makes the plan of the next step. It returns nil if nothing can be
// done, which is only so if there are no sequences, or while a plan is
// outstanding. The plan and all it points to stay unchanged until Commit, and
// their memory is reused afterwards.
func (s *Scheduler) Schedule() *infer.StepPlan {
	if s.inFlight {
		return nil
	}
	s.batch, s.first, s.preempted = s.batch[:0], s.first[:0], false
	if s.share.disordered {
		s.reorder()
	}
	if !s.fill() {
		return nil
	}
	s.inFlight = true
	s.writePlan()
	return &s.plan
}

// reorder ranks the waiting sequences anew.
func (s *Scheduler) reorder() {
	s.share.order(s.waiting.all())
	s.waiting.reorder()
}

// fill selects the sequences of a step: one isolated one, or all others. If the
// side whose turn it is cannot run, for example because its blocks are held by
// the other side, the other one takes the step.
func (s *Scheduler) fill() bool {
	shared := s.waiting.len() > 0 || slices.ContainsFunc(s.running, func(q *Sequence) bool { return !q.isolate })
	switch {
	case len(s.isolated) == 0:
		s.lastIsolated = false
		s.fillShared()
	case shared && s.lastIsolated:
		s.lastIsolated = !s.fillShared() && s.fillIsolated(false)
	default:
		s.lastIsolated = s.fillIsolated(shared)
		if !s.lastIsolated && !s.fillShared() && shared {
			s.lastIsolated = s.fillIsolated(false)
		}
	}
	if len(s.batch) > 0 && !s.lastIsolated {
		for _, seq := range s.isolated {
			seq.waitShared = max(seq.waitShared-1, 0)
		}
	}
	return len(s.batch) > 0
}

// fillShared selects from the sequences that are not isolated.
func (s *Scheduler) fillShared() bool {
	b, pending := s.scheduleRunning()
	// After a preemption the blocks that became free are for those that run.
	if !s.preempted {
		pending = s.admit(&b, pending)
		s.topUp(&b)
		s.admit(&b, pending)
	}
	s.holdBack()
	return len(s.batch) > 0
}

// scheduleRunning selects from the running sequences in rank order, so that
// whoever is preempted for want of a block comes later and is not selected yet.
// It returns the budget left and the blocks that prefills will still need.
func (s *Scheduler) scheduleRunning() (b budget, pending int) {
	decodes, drafts := 0, 0
	for _, seq := range s.running {
		if !seq.isolate && seq.remaining() == 1 {
			decodes++
			drafts += s.wantedDrafts(seq)
		}
	}
	drafts = min(drafts, (s.config.MaxNumBatchedTokens-decodes)/draftShare)
	room := s.config.MaxNumBatchedTokens - decodes - drafts
	if decodes > 0 {
		room = min(room, s.pace.limit())
	}
	b = s.newBudget(room)
	for i := 0; i < len(s.running); i++ { // preemption shortens it from its end
		seq := s.running[i]
		if seq.isolate {
			continue
		}
		isDecode := seq.remaining() == 1
		n := 1
		if !isDecode {
			n = b.take(seq, seq.remaining())
		}
		if n > 0 {
			if !s.grow(seq, seq.numComputed+n) {
				s.preempt(seq)
				continue
			}
			if isDecode {
				drafts -= s.selectDecode(seq, min(s.wantedDrafts(seq), drafts))
			} else {
				s.selectTokens(seq, n)
			}
		}
		if !isDecode { // which has all its blocks now
			pending += s.blocksMissing(seq)
		}
	}
	return b, pending
}

// blocksMissing returns the blocks that seq needs for all its tokens so far,
// beside those it has.
func (s *Scheduler) blocksMissing(seq *Sequence) int {
	return max(s.cache.BlocksFor(len(seq.tokens))-len(seq.table.Blocks()), 0)
}

// admit selects waiting sequences while budget, seats and blocks last. pending
// blocks are spoken for; it returns them with those that the admitted ones will
// still need.
func (s *Scheduler) admit(b *budget, pending int) int {
	holdsNew := s.holdsNewcomers()
	for len(s.running) < s.config.MaxNumSeqs {
		seq := s.nextWaiting(b)
		if seq != nil && holdsNew && !seq.started && !seq.readmitted {
			return pending
		}
		// At least one block is needed whatever the cache holds: this spares
		// the lookup while the cache is full.
		if seq == nil || s.cache.NumAvailable() <= pending {
			return pending
		}
		m := s.cache.Match(&seq.table, seq.reusable())
		need := s.cache.BlocksFor(len(seq.tokens)) - m.NumBlocks() + m.NumIdle
		if need > s.cache.NumAvailable()-pending {
			return pending
		}
		n := b.take(seq, len(seq.tokens)-m.NumTokens)
		if n == 0 {
			return pending
		}
		s.waiting.remove(seq)
		s.start(seq, m)
		if !s.grow(seq, seq.numComputed+n) {
			panic("scheduler: blocks counted as available were not")
		}
		s.selectTokens(seq, n)
		pending += s.blocksMissing(seq)
	}
	return pending
}

// holdsNewcomers reports whether an isolated prefill is under way. A newcomer might
// be the next one to kill its step, and all that was computed would be lost: a stream
// of them could keep a long prompt from its first token for ever. They are let in
// when the turn is over.
func (s *Scheduler) holdsNewcomers() bool {
	return slices.ContainsFunc(s.isolated, func(q *Sequence) bool { return q.chunked })
}

// nextWaiting returns the waiting sequence to be admitted next: the first in
// rank while the lane has room, then the first short one that may pass.
func (s *Scheduler) nextWaiting(b *budget) *Sequence {
	if b.lane > 0 {
		return s.waiting.first()
	}
	seq := s.waiting.short.first()
	if seq == nil || b.express == 0 {
		return nil
	}
	if long := s.waiting.long.first(); long != nil && !s.mayPass(seq, long.Priority) {
		return nil
	}
	return seq
}

// fillIsolated selects the isolated sequence whose turn it is, or the next one
// that can run. Its turn lasts until it gets a token: a prefill in many chunks
// would not end if others came in between, each of which may end all. One that has
// had trials waits for shared steps first, if there are such.
func (s *Scheduler) fillIsolated(shared bool) bool {
	underWay := slices.IndexFunc(s.isolated, func(q *Sequence) bool { return q.running && q.chunked })
	if underWay >= 0 && s.fillTurn(underWay) {
		return true
	}
	for i, seq := range s.isolated {
		if (!shared || seq.waitShared == 0 || seq.running) && s.fillTurn(i) {
			return true
		}
	}
	return false
}

// fillTurn selects the isolated sequence at place i, if it can run. With its token
// it goes to the end of the queue.
func (s *Scheduler) fillTurn(i int) bool {
	seq := s.isolated[i]
	if !s.fillAlone(seq) {
		return false
	}
	if seq.finishesPrefill() {
		copy(s.isolated[i:], s.isolated[i+1:])
		s.isolated[len(s.isolated)-1] = seq
	}
	return true
}

// fillAlone selects one isolated sequence.
func (s *Scheduler) fillAlone(seq *Sequence) bool {
	starts := !seq.running
	if starts {
		if !s.makeRoom(seq) {
			return false
		}
		s.start(seq, s.cache.Match(&seq.table, seq.reusable()))
	}
	n := min(seq.remaining(), s.config.MaxNumBatchedTokens, s.chunkLimit())
	if s.grow(seq, seq.numComputed+n) {
		s.selectTokens(seq, n)
		return true
	}
	if starts {
		s.stop(seq)
	} else {
		s.preempt(seq)
	}
	return false
}

// makeRoom reports whether a waiting isolated sequence can have a seat, which it
// frees, and blocks. For both it may preempt any that rank after it, or a stream
// of new sequences could keep it waiting for ever; but none if that is no use.
func (s *Scheduler) makeRoom(seq *Sequence) bool {
	m := s.cache.Match(&seq.table, seq.reusable())
	need := s.cache.BlocksFor(len(seq.tokens)) - m.NumBlocks() + m.NumIdle
	have := s.cache.NumAvailable()
	for _, other := range s.running {
		if s.less(seq, other) {
			have += len(other.table.Blocks())
		}
	}
	if need > have {
		return false
	}
	if len(s.running) == s.config.MaxNumSeqs {
		youngest := s.running[len(s.running)-1]
		if s.less(youngest, seq) {
			return false
		}
		s.preempt(youngest)
	}
	return true
}

// writePlan fills the plan from batch.
func (s *Scheduler) writePlan() {
	s.plan.StepID++
	s.plan.NumTokens = 0
	s.plan.Sequences = s.plan.Sequences[:0]
	for _, seq := range s.batch {
		end := seq.numComputed + seq.numScheduled
		sample := end == len(seq.tokens)+seq.numDrafts && seq.Params.MaxTokens > 0
		proposals := 0
		if sample && s.config.NumSpecTokens > 0 {
			proposals = s.propose(seq, end)
		}
		blocks := seq.table.Blocks()
		if proposals == 0 {
			blocks = blocks[:s.cache.BlocksFor(end)]
		}
		s.plan.NumTokens += seq.numScheduled
		s.plan.Sequences = append(s.plan.Sequences, infer.ScheduledSequence{
			SeqID:          seq.ID,
			TokenIDs:       seq.tokens[seq.numComputed:end:end],
			StartPos:       seq.numComputed,
			BlockTable:     blocks[:len(blocks):len(blocks)],
			Sample:         sample,
			Params:         seq.Params,
			PromptTokenIDs: seq.Prompt,
			OutputTokenIDs: seq.outputWithDrafts(),
			NumDraftTokens: seq.numDrafts,
			Matcher:        seq.matcher,
			NumProposals:   proposals,
		})
	}
}
