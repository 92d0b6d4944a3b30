package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-llm/troupe/infer"
)

// StepStats is the scheduler's state after a step and what the step did.
type StepStats struct {
	NumRunning, NumWaiting int     // sequences; NumWaiting leaves out the deferred
	NumWaitingDeferred     int     // waiting for something other than capacity
	KVCacheUsage           float64 // used share of KV blocks, 0 … 1
	// Since the last ObserveStep:
	NumPromptTokens                     int // newly computed prompt tokens of prefills that finished
	NumGenerationTokens                 int // tokens drawn, those that a stop string then cut off included
	NumPreemptions                      int
	PrefixCacheQueries, PrefixCacheHits int // prompt tokens looked up and found
}

// ObserveStep records a step; one caller at a time. Its tokens count as the step's
// only: which of them a client is billed for, sequences say.
func (e *Engine) ObserveStep(s StepStats) {
	if e == nil {
		return
	}
	e.observeState(s)
	e.state.preemptions.Add(float64(s.NumPreemptions))
	e.state.cacheQueries.Add(float64(s.PrefixCacheQueries))
	e.state.cacheHits.Add(float64(s.PrefixCacheHits))
	// A step that finished no prefill and gave no token is no iteration in
	// vLLM's count either.
	if n := s.NumPromptTokens + s.NumGenerationTokens; n > 0 {
		e.tokens.perStep.Observe(float64(n))
	}
	e.recent.step(s)
}

// observeState sets the gauges.
func (e *Engine) observeState(s StepStats) {
	e.state.running.Set(float64(s.NumRunning))
	e.state.waiting.Set(float64(s.NumWaiting + s.NumWaitingDeferred))
	e.state.waitingCapacity.Set(float64(s.NumWaiting))
	e.state.waitingDeferred.Set(float64(s.NumWaitingDeferred))
	e.state.kvUsage.Set(s.KVCacheUsage)
	e.recent.state(s)
}

// ObservePrompt records one prompt when its first token is there.
func (e *Engine) ObservePrompt(numPromptTokens, numCachedTokens int) {
	if e == nil {
		return
	}
	e.tokens.prompt.Add(float64(numPromptTokens))
	e.tokens.promptCached.Add(float64(numCachedTokens))
	e.tokens.cacheHit.Add(float64(numCachedTokens))
	e.tokens.computed.Add(float64(numPromptTokens - numCachedTokens))
	e.recent.promptTokens.Add(int64(numPromptTokens - numCachedTokens))
}

// ObserveGenerationTokens counts the tokens that a step gave a sequence and that
// count in its request's usage.
func (e *Engine) ObserveGenerationTokens(n int) {
	if e == nil {
		return
	}
	e.tokens.generation.Add(float64(n))
	e.recent.generationTokens.Add(int64(n))
}

// ObserveDrafts counts a verification of draft tokens that counts for its
// request. Engines without speculation have no series for it.
func (e *Engine) ObserveDrafts(drafted, accepted int) {
	if e == nil || len(e.speculation.acceptedPerPos) < drafted {
		return
	}
	e.speculation.drafts.Inc()
	e.speculation.draftTokens.Add(float64(drafted))
	e.speculation.accepted.Add(float64(accepted))
	e.recent.drafts.Add(1)
	e.recent.draftTokens.Add(int64(drafted))
	for i := range accepted {
		e.speculation.acceptedPerPos[i].Inc()
		e.recent.acceptedPerPos[i].Add(1)
	}
}

// ObserveFirstToken records the nanoseconds from a request's arrival to the
// receipt of a sequence's first token.
func (e *Engine) ObserveFirstToken(sinceArrival int64) {
	if e == nil {
		return
	}
	e.latency.firstToken.Observe(seconds(sinceArrival))
}

// ObserveInterToken records the nanoseconds between steps that gave a sequence
// tokens: one sample per step, however many tokens it gave.
func (e *Engine) ObserveInterToken(ns ...int64) {
	if e == nil {
		return
	}
	e.latency.interToken.observe(ns)
}

// SequenceFinish describes a sequence that ended, whatever the reason.
type SequenceFinish struct {
	Stamps                                                      infer.Stamps
	NumTokens, NumPromptTokens, NumCachedTokens, NumPreemptions int
}

// ObserveSequenceFinish records a sequence's times and token counts. Times whose
// stamps are unknown, as after an abort in the queue, are left out rather than
// recorded as 0.
func (e *Engine) ObserveSequenceFinish(f SequenceFinish) {
	if e == nil {
		return
	}
	s := f.Stamps
	observeInterval(e.latency.queue, s.Queued, s.Scheduled)
	observeInterval(e.latency.prefill, s.Scheduled, s.FirstToken)
	observeInterval(e.latency.decode, s.FirstToken, s.LastToken)
	observeInterval(e.latency.inference, s.Scheduled, s.LastToken)
	if decode, ok := interval(s.FirstToken, s.LastToken); ok {
		// vLLM records 0 for a single token, where the per-request mean is null.
		perToken := 0.0
		if f.NumTokens > 1 {
			perToken = seconds(decode) / float64(f.NumTokens-1)
		}
		e.latency.perOutputToken.Observe(perToken)
	}
	e.requests.generationTokens.Observe(float64(f.NumTokens))
	e.requests.preemptions.Observe(float64(f.NumPreemptions))
	if s.Scheduled != 0 {
		e.requests.kvComputedTokens.Observe(float64(f.NumPromptTokens - f.NumCachedTokens))
	}
}

// RequestFinish describes a whole request that ended. n choices are one request.
type RequestFinish struct {
	E2E                    int64 // nanoseconds from arrival to the receipt of the last output
	Reason                 infer.FinishReason
	NumPromptTokens        int
	MaxNumGenerationTokens int // the longest choice
	MaxTokensParam         int // resolved max_tokens
	N                      int
}

// ObserveRequestFinish records a request once, aborts and failures included.
func (e *Engine) ObserveRequestFinish(f RequestFinish) {
	if e == nil {
		return
	}
	reason := f.Reason
	if reason == infer.FinishNone || int(reason) >= numFinishReasons {
		reason = infer.FinishError // every request is counted under some reason
	}
	e.requests.finished[reason].Inc()
	if reason != infer.FinishAbort && reason != infer.FinishError {
		e.latency.e2e.Observe(seconds(f.E2E)) // how long a cut answer took says nothing about latency
	}
	e.requests.promptTokens.Observe(float64(f.NumPromptTokens))
	e.requests.maxGenerationTokens.Observe(float64(f.MaxNumGenerationTokens))
	e.requests.paramMaxTokens.Observe(float64(f.MaxTokensParam))
	e.requests.paramN.Observe(float64(f.N))
}

// ObserveRestart counts a batcher that was replaced after a failure. The new one
// starts with no sequences and an empty cache, so the state is set to that: if
// nothing resubmits, no step would come to do it.
func (e *Engine) ObserveRestart() {
	if e == nil {
		return
	}
	e.faults.restarts.Inc()
	e.observeState(StepStats{})
}

// ObserveResubmission counts a sequence that goes on in this batcher after
// another one, or an earlier life of this one, died under it.
func (e *Engine) ObserveResubmission() {
	if e == nil {
		return
	}
	e.faults.resubmissions.Inc()
}

// ObserveQuarantine counts a sequence that runs alone from now on, until it gets
// a token, since it was aboard a step of this batcher that failed.
func (e *Engine) ObserveQuarantine() {
	if e == nil {
		return
	}
	e.faults.quarantined.Inc()
}

// ObserveSlowClient counts a request cancelled because its reader lagged.
func (e *Engine) ObserveSlowClient() {
	if e == nil {
		return
	}
	e.faults.slowClients.Inc()
}

// ObserveAdmissionRejection counts a request refused by an admission limit;
// reason is RejectMaxQueuedReqs or RejectMaxQueuedTokens.
func (e *Engine) ObserveAdmissionRejection(reason string) {
	if e == nil {
		return
	}
	if reason == RejectMaxQueuedTokens {
		e.faults.rejectedTokens.Inc()
		return
	}
	e.faults.rejectedReqs.Inc()
}

// ObserveUnknownMessage counts a message that an actor (engine, batcher,
// request, sequence) did not know; other names count as "other".
func (e *Engine) ObserveUnknownMessage(actor string) {
	if e == nil {
		return
	}
	i := slices.Index(actorNames, actor)
	if i < 0 {
		i = len(actorNames) - 1
	}
	e.faults.unknownMessages[i].Inc()
}

func observeInterval(h prometheus.Histogram, from, to int64) {
	if ns, ok := interval(from, to); ok {
		h.Observe(seconds(ns))
	}
}

func seconds(ns int64) float64 { return float64(ns) / nsPerSecond }
