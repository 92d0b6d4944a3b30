package metrics

// Lapse is time of a sequence that went into something else than drawing tokens, in
// nanoseconds, and what was computed in vain.
type Lapse struct {
	Prefill, StalledByPrefill, Masking, Preempted, Recovering int64
	NumRecomputedTokens, NumPreemptions                       int
}

// Add adds what passed after l.
func (l *Lapse) Add(o Lapse) {
	l.Prefill += o.Prefill
	l.StalledByPrefill += o.StalledByPrefill
	l.Masking += o.Masking
	l.Preempted += o.Preempted
	l.Recovering += o.Recovering
	l.NumRecomputedTokens += o.NumRecomputedTokens
	l.NumPreemptions += o.NumPreemptions
}

// Total returns the time in all.
func (l *Lapse) Total() int64 {
	return l.Prefill + l.StalledByPrefill + l.Masking + l.Preempted + l.Recovering
}

// Account splits the time of one sequence from its first selection on. It is told the end
// of each step that the sequence was aboard of, and splits what has passed since the one
// before: the time in between, in which it was not aboard, and the step. A step lasts from
// the end of its batcher's last one, or from the sequence's first selection if that was
// later. What an account does not put into a [Lapse] was spent on drawing tokens.
//
//   - A step that computes a token again which the sequence had, computed or found in the
//     cache, belongs to what made it lose that: the failure of a batcher, else a
//     preemption. So does the time in between, if it was lost then.
//   - Else a step that gave no token because its mask was not ready is a wait for that, but
//     for the one that came to the end of the prompt.
//   - Else a step before the first token is prefill.
//   - Else a step is split by its tokens: the share of those that others had of prompts is
//     a stall. So is all the time in which others had steps and this sequence, with a place
//     and its blocks, had none.
//
// One goroutine at a time has it. The zero value is that of a sequence never selected.
type Account struct {
	upTo           int64 // instant up to which time is split; 0 = not selected yet
	numComputed    int   // leading tokens that were computed once, whether they still are or not
	numPreemptions int   // of its present batcher, seen so far
	preempted      bool  // and not as far as before
	interrupted    bool  // its batcher died, and it is not as far as before
	deferred       bool  // it had no token from the last step, for its mask was not ready
	lapsed         bool  // lapse is not zero
	lapse          Lapse // since the last Take
}

// StepShare is one sequence's share of a step.
type StepShare struct {
	Scheduled      int64 // instant at which the sequence was first selected
	Began, Ended   int64 // instants: end of the batcher's step before, and of this one
	NumPreemptions int   // of the sequence in this batcher so far

	StartPos, NumTokens int  // tokens computed, drafts not included
	HasOutput           bool // it had a token before
	Deferred            bool // its mask was not ready: the last token is computed again
	// NumOtherPromptTokens of the step's NumStepTokens, drafts included, were of prompts
	// of others, or were computed again by others.
	NumOtherPromptTokens, NumStepTokens int
}

// Interrupt notes that the batcher died, after the sequence was first selected.
func (a *Account) Interrupt() { a.interrupted, a.numPreemptions = true, 0 }

// Step books a step that ended well. s is not kept.
func (a *Account) Step(s *StepShare) {
	if a.upTo == s.Began && a.numComputed <= s.StartPos && s.HasOutput && !s.Deferred && s.NumOtherPromptTokens == 0 && s.NumPreemptions == a.numPreemptions {
		a.upTo, a.numComputed = s.Ended, s.StartPos+s.NumTokens // as nearly all are: it draws, nobody stalls it
		a.preempted, a.interrupted, a.deferred = false, false, false
		return
	}
	a.step(s)
}

func (a *Account) step(s *StepShare) {
	if a.upTo == 0 {
		a.upTo = s.Scheduled
	}
	if n := s.NumPreemptions - a.numPreemptions; n > 0 {
		a.lapse.NumPreemptions += n
		a.numPreemptions, a.preempted, a.lapsed = s.NumPreemptions, true, true
	}
	began := max(a.upTo, min(s.Began, s.Ended))
	if absent := began - a.upTo; absent > 0 {
		*a.absence() += absent
		a.lapsed = true
	}
	took := max(s.Ended-began, 0)
	end := s.StartPos + s.NumTokens
	if s.Deferred {
		end--
	}
	switch again := min(a.numComputed, end) - s.StartPos; {
	case again > 0:
		a.lapse.NumRecomputedTokens += again
		*a.loss() += took
		a.lapsed = true
	case s.Deferred && (s.HasOutput || a.deferred):
		a.lapse.Masking += took
		a.lapsed = true
	case !s.HasOutput:
		a.lapse.Prefill += took
		a.lapsed = true
	case s.NumOtherPromptTokens > 0:
		a.lapsed = true
		a.lapse.StalledByPrefill += int64(float64(took) * float64(s.NumOtherPromptTokens) / float64(s.NumStepTokens))
	}
	if end >= a.numComputed {
		a.numComputed, a.preempted, a.interrupted = end, false, false
	}
	a.upTo, a.deferred = began+took, s.Deferred
}

// absence returns where time goes in which the sequence was not aboard.
func (a *Account) absence() *int64 {
	if a.preempted || a.interrupted {
		return a.loss()
	}
	return &a.lapse.StalledByPrefill
}

// loss returns where the time goes that it takes to be as far as before.
func (a *Account) loss() *int64 {
	if a.interrupted {
		return &a.lapse.Recovering
	}
	return &a.lapse.Preempted
}

// HasLapsed reports whether Take has something to return.
func (a *Account) HasLapsed() bool { return a.lapsed }

// Take returns what has lapsed since the last call.
func (a *Account) Take() Lapse {
	l := a.lapse
	a.lapse, a.lapsed = Lapse{}, false
	return l
}
