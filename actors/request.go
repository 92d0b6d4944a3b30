package actors

import (
	"errors"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// RequestActor owns one request: it spawns a sequence per choice, ends the stream
// when the last one has finished, and books the request. It stops when all its
// children have.
//
// Invariants: the stream gets exactly one Final, after the last delta of every
// choice; the request is observed exactly once, however it ends; places in the
// queue are given back before the reader can see the Final.
type RequestActor struct {
	env     *environment
	job     *job
	metrics *metrics.Engine

	choices    []SequenceFinished // by index; valid if FinishReason is set
	indexOf    map[string]int     // child PID id to choice, for those not terminated
	numRunning int                // choices not finished
	cancelled  infer.CancelReason // "" = not, or too late; the first reason stands
	err        *infer.Error       // the first failure of a choice
	concluded  bool

	childOptions []actor.PropsOption // nil but in tests
}

// childGone stands for a child's Terminated in the order of user messages.
// Sender: the request itself.
type childGone struct{ id string } // of the child's PID

// Receive implements actor.Actor.
func (r *RequestActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.start(c)
	case *SequenceFinished:
		r.choiceFinished(c, m)
	case *Cancel:
		r.cancel(c, m.Reason)
	case *actor.Terminated:
		// A system message, it has overtaken what the child sent before: look at
		// the child when those have been handled.
		c.Send(c.Self(), &childGone{id: m.Who.Id})
	case *childGone:
		r.childGone(c, m.id)
	case *actor.Stopping:
		r.abandon()
	case *actor.Stopped:
	default:
		r.metrics.ObserveUnknownMessage("request")
	}
}

func (r *RequestActor) start(c actor.Context) {
	specs := r.job.sequences
	r.choices = make([]SequenceFinished, len(specs))
	r.indexOf = make(map[string]int, len(specs))
	if reason := r.job.stream.bind(c.Self()); reason != "" {
		r.cancelled = reason
		r.conclude()
		c.Stop(c.Self())
		return
	}
	r.numRunning = len(specs)
	for i := range specs {
		sequence := newSequenceActor(r.env, r.job, &specs[i])
		sequence.supervisor = c.Parent()
		mailbox := newRunMailbox()
		sequence.run.mailbox = mailbox
		props := actor.PropsFromProducer(func() actor.Actor { return sequence }, actor.WithMailbox(func() actor.Mailbox { return mailbox }))
		pid := c.SpawnPrefix(props.Configure(r.childOptions...), "sequence")
		r.indexOf[pid.Id] = i
	}
}

// choiceFinished books a choice. A failed one fails the request: the others are
// of no use to a client that gets an error.
func (r *RequestActor) choiceFinished(c actor.Context, m *SequenceFinished) {
	if r.concluded || r.choices[m.Index].FinishReason != infer.FinishNone {
		return
	}
	r.choices[m.Index] = *m
	r.numRunning--
	if m.Err != nil && r.err == nil {
		r.err = m.Err
		r.cancelChildren(c, &Cancel{Reason: infer.CancelAdmin})
	}
	if r.numRunning == 0 {
		r.conclude()
	}
}

func (r *RequestActor) cancel(c actor.Context, reason infer.CancelReason) {
	if r.cancelled != "" || r.concluded {
		return
	}
	r.cancelled = reason
	if reason == infer.CancelSlowClient {
		r.metrics.ObserveSlowClient()
	}
	r.cancelChildren(c, &Cancel{Reason: reason})
}

func (r *RequestActor) cancelChildren(c actor.Context, m *Cancel) {
	for _, child := range c.Children() {
		c.Send(child, m)
	}
}

// childGone sees the end of a sequence actor. One that has not finished its
// choice died of a panic.
func (r *RequestActor) childGone(c actor.Context, id string) {
	i, ok := r.indexOf[id]
	if !ok {
		return
	}
	delete(r.indexOf, id)
	if r.choices[i].FinishReason == infer.FinishNone {
		r.choiceFinished(c, &SequenceFinished{Index: i, FinishReason: infer.FinishError,
			Err: infer.Internal(errors.New("a sequence actor died"))})
	}
	if len(r.indexOf) == 0 {
		c.Stop(c.Self())
	}
}

// abandon ends the stream of an actor that is stopped before its time: by its
// own panic, or with the tree. The children are stopped next.
func (r *RequestActor) abandon() {
	if !r.concluded {
		r.err = infer.Internal(errors.New("the request actor was stopped"))
		r.conclude()
	}
}

// conclude books the request and ends its stream.
func (r *RequestActor) conclude() {
	r.concluded = true
	if r.cancelled != infer.CancelSlowClient && r.isComplete() {
		r.cancelled = "" // it came too late to take anything from the client
	}
	final := r.final()
	r.metrics.ObserveRequestFinish(metrics.RequestFinish{
		E2E:                    r.env.clock() - r.job.request.Arrival,
		Reason:                 final.FinishReason,
		NumPromptTokens:        r.job.numPromptTokens,
		MaxNumGenerationTokens: r.longest(),
		MaxTokensParam:         r.job.sequences[0].params.MaxTokens,
		N:                      r.job.request.N,
	})
	if final.Err != nil && final.Err.Code.IsInternal() {
		cause, _ := splitStack(final.Err) // the step's own record has the stack
		r.env.logger.Error("request failed", "request", r.job.request.ID, "error", cause)
	}
	r.job.release()
	r.job.stream.finish(final)
	r.env.registry.leave(r.job.stream)
}

// isComplete reports whether every choice came to its own end. For a slow client
// that is not enough, since its stream has dropped deltas.
func (r *RequestActor) isComplete() bool {
	return !slices.ContainsFunc(r.choices, func(choice SequenceFinished) bool {
		return choice.FinishReason == infer.FinishNone || choice.FinishReason == infer.FinishAbort
	})
}

// final computes the bill. Metrics need a request that is one sequence: times
// of several cannot be told apart in one object.
func (r *RequestActor) final() *infer.Final {
	final := &infer.Final{Usage: r.usage(), FinishReason: r.reason(), Err: r.err}
	for i := range r.choices {
		final.NumRecoveries = max(final.NumRecoveries, r.choices[i].NumRecoveries)
	}
	if final.Err == nil {
		final.Err = infer.CancelError(r.cancelled)
	}
	switch {
	case final.Err != nil:
	case len(r.choices) == 1:
		final.Metrics = r.attributable(&r.choices[0])
	case r.env.perChoiceMetrics:
		final.ChoiceMetrics = r.ofChoices()
	}
	return final
}

// ofChoices returns what is reported of each choice, nil if nothing is.
func (r *RequestActor) ofChoices() []infer.RequestMetrics {
	all := make([]infer.RequestMetrics, len(r.choices))
	for i := range r.choices {
		m := r.attributable(&r.choices[i])
		if m == nil {
			return nil
		}
		all[i] = *m
	}
	return all
}

// attributable returns what is reported of one sequence: times and speculation, each
// if it is on; nil if neither is.
func (r *RequestActor) attributable(choice *SequenceFinished) *infer.RequestMetrics {
	if !r.env.perRequestMetrics && choice.Speculation == nil {
		return nil
	}
	var m infer.RequestMetrics
	if r.env.perRequestMetrics {
		m = metrics.PerRequest(choice.Stamps, choice.NumTokens)
		m.Breakdown = choice.Breakdown
	}
	m.SpeculativeDecoding = choice.Speculation
	return &m
}

// usage counts each prompt once. Its cached tokens are those that no choice had
// to compute: a later choice finds what an earlier one just left in the cache,
// which is not what the client asks about.
func (r *RequestActor) usage() infer.Usage {
	usage := infer.Usage{
		NumPromptTokens: r.job.numPromptTokens,
		NumCachedTokens: r.job.numCachedTokens(func(i int) int { return r.choices[i].NumCachedTokens }),
	}
	for i := range r.choices {
		usage.NumCompletionTokens += r.choices[i].NumTokens
		usage.NumReasoningTokens += r.choices[i].NumReasoningTokens
	}
	return usage
}

// numCachedTokens adds up, over the prompts, what no choice had to compute.
func (j *job) numCachedTokens(ofChoice func(i int) int) (sum int) {
	n := j.request.N
	for first := 0; first < len(j.sequences); first += n {
		cached := ofChoice(first)
		for i := first + 1; i < first+n; i++ {
			cached = min(cached, ofChoice(i))
		}
		sum += cached
	}
	return sum
}

func (r *RequestActor) longest() int {
	longest := 0
	for i := range r.choices {
		longest = max(longest, r.choices[i].NumTokens)
	}
	return longest
}

// reason is the one under which a request with several choices is counted: what
// went wrong comes before what was cut, and that before what ended well.
func (r *RequestActor) reason() infer.FinishReason {
	switch {
	case r.err != nil:
		return infer.FinishError
	case r.cancelled != "":
		return infer.FinishAbort
	}
	for i := range r.choices {
		if r.choices[i].FinishReason == infer.FinishLength {
			return infer.FinishLength
		}
	}
	return infer.FinishStop
}

// release gives back the places of all sequences.
func (j *job) release() {
	for i := range j.sequences {
		j.sequences[i].place.release()
	}
}
