package actors

import (
	"math"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// breakdown is what a sequence keeps to say where its time went; nil = it is not asked.
type breakdown struct {
	account metrics.Account // the batcher's that has the sequence; nobody else looks into it
	gaps    *metrics.Gaps   // nil = no gap yet: those that wait need no room for any
	grammar int64           // nanoseconds that compiling the form of its output took
	lapse   metrics.Lapse   // of the outputs so far
}

func newBreakdown(env *environment, j *job) *breakdown {
	if !env.breakdown {
		return nil
	}
	return &breakdown{grammar: j.grammarTime}
}

// handOut returns the account for a batcher, nil if there is none.
func (b *breakdown) handOut() *metrics.Account {
	if b == nil {
		return nil
	}
	return &b.account
}

// note takes what an output says of the time since the one before.
func (b *breakdown) note(m *SequenceOutput) {
	if b == nil {
		return
	}
	b.lapse.StalledByPrefill += int64(m.Stalled)
	if l := m.details().Lapse; l != nil {
		b.lapse.Add(*l)
	}
}

func (b *breakdown) observeGap(ns int64) {
	if b == nil {
		return
	}
	if b.gaps == nil {
		b.gaps = new(metrics.Gaps)
	}
	b.gaps.Observe(ns)
}

// result returns the breakdown of a sequence that has finished, nil if it is off or the
// sequence never had a token.
func (b *breakdown) result(s *SequenceActor) *infer.Breakdown {
	t := s.stamps
	if b == nil || t.Queued == 0 || t.Scheduled == 0 || t.LastToken == 0 {
		return nil
	}
	l := &b.lapse
	return &infer.Breakdown{
		Receive: s.request.Receive, Arrival: s.request.Arrival, LastToken: t.LastToken,
		Accept: t.Queued - s.request.Arrival - b.grammar, GrammarCompile: b.grammar, Queue: t.Scheduled - t.Queued,
		Prefill: l.Prefill, StalledByPrefill: l.StalledByPrefill, Decode: t.LastToken - t.Scheduled - l.Total(), Masking: l.Masking,
		Preempted: l.Preempted, Recovering: l.Recovering,
		NumComputedPromptTokens: len(s.spec.prompt.tokenIDs) - s.numCached, NumCachedPromptTokens: s.numCached,
		NumRecomputedTokens: l.NumRecomputedTokens, NumPreemptions: l.NumPreemptions, NumRecoveries: s.recoveries,
		NumGaps: b.gaps.Num(), MaxGap: b.gaps.Max(), P99Gap: b.gaps.P99(),
	}
}

// keepAccounts books the step in flight, which has ended well, with those aboard.
func (b *BatcherActor) keepAccounts(result *infer.StepResult, endedAt int64) {
	if !b.env.breakdown {
		return
	}
	plan := b.inFlight
	numPrompt := 0
	for i := range plan.Sequences {
		numPrompt += promptTokens(&plan.Sequences[i])
	}
	step := metrics.StepShare{Began: b.lastGood, Ended: endedAt, NumStepTokens: plan.NumTokens}
	for i, seq := range b.device.scheduler.Aboard() {
		e, share := seq.Tag.(*entry), &plan.Sequences[i]
		if e.account == nil {
			continue
		}
		step.Scheduled, step.NumPreemptions = e.stamps.Scheduled, seq.NumPreemptions()
		step.StartPos, step.NumTokens = share.StartPos, len(share.TokenIDs)-share.NumDraftTokens
		step.Deferred = result.Sequences[i].Deferred
		step.HasOutput = len(share.OutputTokenIDs) > share.NumDraftTokens
		step.NumOtherPromptTokens = numPrompt
		if numPrompt > 0 {
			step.NumOtherPromptTokens -= promptTokens(share)
		}
		e.account.Step(&step)
	}
}

// promptTokens returns how many tokens of a sequence's share of a step are of a prompt,
// or are computed again: all but those of a sequence that draws.
func promptTokens(s *infer.ScheduledSequence) int {
	if len(s.OutputTokenIDs) > s.NumDraftTokens && len(s.TokenIDs) == 1+s.NumDraftTokens {
		return 0
	}
	return len(s.TokenIDs)
}

// openAccount takes over the account of a sequence that is added, nil if there is none.
func openAccount(m *AddSequence) *metrics.Account {
	if m.account != nil && m.Stamps.Scheduled != 0 {
		m.account.Interrupt()
	}
	return m.account
}

// lapsed returns what has lapsed since the last output. Most lapse is a stall, and has its
// place in an output; the rest is seldom. lapse is nil if there is no more.
func (e *entry) lapsed() (stalled uint32, lapse *metrics.Lapse) {
	if e.account == nil || !e.account.HasLapsed() {
		return 0, nil
	}
	l := e.account.Take()
	if l.StalledByPrefill <= math.MaxUint32 {
		stalled, l.StalledByPrefill = uint32(l.StalledByPrefill), 0
	}
	if l == (metrics.Lapse{}) {
		return stalled, nil
	}
	rest := l // only now is it to be allocated
	return stalled, &rest
}
