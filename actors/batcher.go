package actors

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/troupe-llm/troupe/scheduler"
)

// BatcherActor runs one device: it feeds the scheduler, launches a step whenever
// none is in flight and there is work, and hands out what a step gave. It runs
// on an OS thread of its own, never waits, and never calls the runner itself: the
// device works, or hangs, while the mailbox fills.
//
// Invariants: every AddSequence that reaches it gets exactly one terminal answer,
// a SequenceOutput or a SequenceInterrupted; at most one step is in flight;
// outputs of a sequence leave in token order, one per step.
type BatcherActor struct {
	env     *environment
	index   int // its number; each life has an epoch of its own
	epoch   uint64
	device  *device
	metrics *metrics.Engine
	self    *actor.PID

	sequences map[infer.SeqID]*entry // those the scheduler knows
	inFlight  *infer.StepPlan        // launched and not committed; nil = idle
	adding    *AddSequence           // being added: to blame if that panics
	fault     error                  // why the last step failed
	report    func(*StepDone)        // sends to this actor's mailbox
	watchdog  *watchdog              // reused from step to step; nil = none yet
	began     int64                  // of the step in flight
	lastGood  int64                  // end of the last good step; start of this life before the first
	expected  int                    // sequences on their way at the start: the first step waits for them
	outgoing  []delivery             // scratch of commit
	blocked   bool                   // counts in admission.blocked
}

// entry is what the batcher keeps of a sequence.
type entry struct {
	id      infer.SeqID
	pid     *actor.PID
	stamps  infer.Stamps
	place   *place
	crashes Crashes          // as in AddSequence; zero again after a token
	account *metrics.Account // nil = nobody asks where its time goes

	// What the sequence has been told: its first token's stamp, and preemptions.
	toldFirstToken     bool
	toldNumPreemptions int
}

type delivery struct {
	to     *actor.PID
	output *SequenceOutput
}

// Receive implements actor.Actor.
func (b *BatcherActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		b.start(c)
	case *AddSequence:
		b.add(c, m)
	case *AbortSequence:
		b.abort(c, m.SeqID)
	case *StepDone:
		b.stepDone(c, m)
	case *stepOverdue:
		b.stepOverdue(c, m.step)
	case *waitedEnough:
		b.expected = 0
		b.step()
	case *actor.Stopping:
		b.release(c)
	case *actor.Stopped:
	default:
		b.metrics.ObserveUnknownMessage("batcher")
	}
}

func (b *BatcherActor) start(c actor.Context) {
	b.sequences = map[infer.SeqID]*entry{}
	root, self := b.env.root, c.Self()
	b.self, b.lastGood = self, b.env.clock()
	b.report = func(m *StepDone) { root.Send(self, m) }
	if b.expected > 0 {
		b.env.after(maxGathering, func() { root.Send(self, &waitedEnough{}) })
	}
}

// waitedEnough ends the wait for sequences that were expected. Sender: a timer.
type waitedEnough struct{}

// maxGathering bounds that wait. Those that lost their batcher come within
// microseconds, except for any that was cancelled meanwhile. Together they are
// computed again in the fewest steps, and in the order that the scheduler wants,
// which has the suspects last.
const maxGathering = 5 * time.Millisecond

func (b *BatcherActor) add(c actor.Context, m *AddSequence) {
	b.adding = m
	e := &entry{id: m.SeqID, pid: m.ReplyTo, stamps: m.Stamps, place: m.place, crashes: m.Crashes, account: openAccount(m)}
	err := b.device.scheduler.Add(scheduler.NewSequence(scheduler.SequenceOptions{
		ID:                    m.SeqID,
		Prompt:                m.PromptTokenIDs,
		Output:                m.OutputTokenIDs,
		Params:                m.Params,
		Priority:              m.Priority,
		Arrival:               m.Arrival,
		CacheSalt:             m.CacheSalt,
		Key:                   m.Key,
		Weight:                m.KeyWeight,
		NumPromptLogprobsDone: m.NumPromptLogprobs,
		Readmitted:            m.Stamps.Scheduled != 0,
		Isolate:               m.Crashes.isolate(len(m.OutputTokenIDs)),
		NumTrials:             m.Crashes.NumLone,
		Tag:                   e,
	}))
	b.adding = nil
	if err != nil {
		c.Send(e.pid, &SequenceOutput{
			Epoch: b.epoch, NumOutputTokens: len(m.OutputTokenIDs), LastToken: e.stamps.LastToken,
			FinishReason: infer.FinishError, Details: &OutputDetails{Stamps: e.stamps, Err: infer.AsError(err)},
		})
		return
	}
	b.sequences[m.SeqID] = e
	if b.expected--; b.expected <= 0 {
		b.step()
	}
}

// abort forgets a sequence, at once or, if it is aboard the step in flight, at
// the commit, when nobody writes to its blocks any more. Whoever waits for those
// blocks is looked at after the step in flight: as long as there is a sequence,
// there is one.
func (b *BatcherActor) abort(c actor.Context, id infer.SeqID) {
	out, ok := b.device.scheduler.Abort(id)
	if !ok {
		return
	}
	d := b.delivery(&SequenceOutput{}, &out)
	c.Send(d.to, d.output)
}

// step launches the next step if none is in flight and there is work.
func (b *BatcherActor) step() {
	if b.inFlight != nil {
		return
	}
	plan := b.device.scheduler.Schedule()
	b.began = max(b.lastGood, b.stampScheduled()) // whoever comes after a pause is new
	if plan != nil {
		b.inFlight = plan
		b.device.launch(plan, b.report)
		b.watch(plan.StepID)
	}
	b.observe() // after the launch: the device need not wait for it
}

// stampScheduled stamps the sequences selected for the first time: one clock
// reading for all, which it returns, 0 without any. Those that resume after a failure
// keep their stamp.
func (b *BatcherActor) stampScheduled() int64 {
	selected := b.device.scheduler.Scheduled()
	if len(selected) == 0 {
		return 0
	}
	now := b.env.clock()
	for _, seq := range selected {
		e := seq.Tag.(*entry)
		if e.stamps.Scheduled == 0 {
			e.stamps.Scheduled = now
		}
		e.place.leaveQueue() // one that resumes on another node queued there, too
	}
	return now
}

func (b *BatcherActor) observe() {
	stats := b.device.scheduler.Stats()
	b.setBlocked(stats.NumWaiting > 0)
	b.device.freeBlocks.Store(int64((1 - stats.KVUsage) * float64(b.device.spec.NumBlocks)))
	b.metrics.ObserveStep(metrics.StepStats{
		NumRunning:          stats.NumRunning,
		NumWaiting:          stats.NumWaiting,
		NumWaitingDeferred:  stats.NumWaitingDeferred,
		KVCacheUsage:        stats.KVUsage,
		NumPromptTokens:     stats.NumPromptTokensDone,
		NumGenerationTokens: stats.NumGenerationTokens,
		NumPreemptions:      stats.NumPreemptions,
		PrefixCacheQueries:  stats.PrefixCacheQueries,
		PrefixCacheHits:     stats.PrefixCacheHits,
	})
}

func (b *BatcherActor) setBlocked(blocked bool) {
	if blocked == b.blocked {
		return
	}
	b.blocked = blocked
	b.device.blocked.Store(blocked)
	if blocked {
		b.env.admission.blocked.Add(1)
	} else {
		b.env.admission.blocked.Add(-1)
	}
}

// stepDone commits a step and launches the next one before it hands out the
// outputs, so that the device does not wait for the fan-out.
func (b *BatcherActor) stepDone(c actor.Context, m *StepDone) {
	b.unwatch()
	err := m.Err
	if err == nil {
		err = checkResult(b.inFlight, m.Result, b.device.vocabSize)
	}
	if err != nil {
		b.fail(c, err)
		return
	}
	lone := b.aloneInFlight()
	b.keepAccounts(m.Result, m.EndedAt)
	b.device.scheduler.ObserveStep(m.EndedAt - b.began)
	outputs := b.device.scheduler.Commit(m.Result)
	b.inFlight = nil
	if b.env.onCommit != nil {
		b.env.onCommit(b.device.scheduler)
	}
	b.collect(outputs, m.EndedAt)
	b.noteGoodStep(lone, m.EndedAt)
	b.step()
	b.fanOut(c)
}

// aloneInFlight returns the suspect that has the step in flight to itself, nil if
// there is none.
func (b *BatcherActor) aloneInFlight() *entry {
	if len(b.inFlight.Sequences) != 1 {
		return nil
	}
	if e := b.sequences[b.inFlight.Sequences[0].SeqID]; e != nil && e.crashes.Num > 0 {
		return e
	}
	return nil
}

// noteGoodStep keeps what speaks for the device, and so against suspects: see
// Crashes. lone had the step to itself.
func (b *BatcherActor) noteGoodStep(lone *entry, endedAt int64) {
	b.env.goodSteps.Add(1)
	b.lastGood = endedAt
	b.device.worked.Store(true)
	if lone != nil && lone.crashes.NumLone > 0 {
		lone.crashes.goodAtLone++
	}
}

// fail stops the batcher because of the step in flight.
func (b *BatcherActor) fail(c actor.Context, fault error) {
	b.fault = fault
	cause, stack := splitStack(fault)
	b.env.logger.Error("step failed", "batcher", b.index, "epoch", b.epoch, "step", b.inFlight.StepID,
		"sequences", len(b.inFlight.Sequences), "error", cause)
	if stack != "" {
		b.env.logger.Debug("stack of the failed step", "batcher", b.index, "step", b.inFlight.StepID, "stack", stack)
	}
	c.Stop(c.Self())
}

// fanOut sends what collect prepared.
func (b *BatcherActor) fanOut(c actor.SenderContext) {
	for i, d := range b.outgoing {
		c.Send(d.to, d.output)
		b.outgoing[i] = delivery{} // the message is not ours any more
	}
	b.outgoing = b.outgoing[:0]
}

// messageRun is how many messages of a step share one allocation: enough to make
// few of them, and few enough to stay a small object for the allocator.
const messageRun = 16

// collect turns a commit's outputs into messages. The outputs slice is the
// scheduler's and will be reused.
func (b *BatcherActor) collect(outputs []scheduler.Output, endedAt int64) {
	var messages []SequenceOutput
	for i := range outputs {
		if len(messages) == 0 {
			messages = make([]SequenceOutput, min(messageRun, len(outputs)-i))
		}
		out := &outputs[i]
		e := out.Seq.Tag.(*entry)
		// A prompt that is only scored ends with its last chunk and no token: that
		// moment stands for the first token, so that its times are known.
		if len(out.NewTokenIDs) > 0 || out.FinishReason == infer.FinishLength {
			if e.stamps.FirstToken == 0 {
				e.stamps.FirstToken = endedAt
			}
			e.stamps.LastToken = endedAt
			b.clearSuspicion(e)
		}
		b.outgoing = append(b.outgoing, b.delivery(&messages[0], out))
		messages = messages[1:]
	}
}

// clearSuspicion lets a sequence that got a token share steps again.
func (b *BatcherActor) clearSuspicion(e *entry) {
	if e.crashes.Num > 0 {
		if e.crashes.NumLone > 0 {
			b.env.acquittals.Add(1)
		}
		e.crashes = Crashes{}
		b.device.scheduler.EndIsolation(e.id)
	}
}

// delivery fills a message with an output, and forgets the sequence if that is
// its last.
func (b *BatcherActor) delivery(m *SequenceOutput, out *scheduler.Output) delivery {
	e := out.Seq.Tag.(*entry)
	stalled, lapse := e.lapsed()
	*m = SequenceOutput{
		Epoch:           b.epoch,
		NewTokenIDs:     out.NewTokenIDs,
		NumOutputTokens: out.NumOutputTokens,
		LastToken:       e.stamps.LastToken,
		FinishReason:    out.FinishReason,
		Stalled:         stalled,
		Details:         e.details(out, lapse),
	}
	if out.FinishReason != infer.FinishNone {
		delete(b.sequences, e.id)
	}
	return delivery{to: e.pid, output: m}
}

// details returns nil if the sequence knows all but the tokens.
func (e *entry) details(out *scheduler.Output, lapse *metrics.Lapse) *OutputDetails {
	numPreemptions := out.Seq.NumPreemptions()
	if e.toldFirstToken && e.toldNumPreemptions == numPreemptions && out.FinishReason == infer.FinishNone &&
		len(out.Logprobs) == 0 && len(out.PromptLogprobs) == 0 && out.NumDraftTokens == 0 && lapse == nil {
		return nil
	}
	e.toldFirstToken, e.toldNumPreemptions = e.stamps.FirstToken != 0, numPreemptions
	return &OutputDetails{
		Stamps: e.stamps, NumCachedTokens: int32(out.NumCachedTokens), NumPreemptions: int32(numPreemptions), Err: infer.AsError(out.Err),
		Logprobs: out.Logprobs, PromptLogprobs: out.PromptLogprobs,
		NumDraftTokens: out.NumDraftTokens, NumAcceptedTokens: out.NumAcceptedTokens, StopReason: out.StopReason,
		Lapse: lapse,
	}
}

// release answers every sequence that has had no terminal answer. It runs while
// the actor stops, after a failed step, a panic, or with the tree.
func (b *BatcherActor) release(c actor.Context) {
	b.unwatch()
	b.setBlocked(false)            // an empty scheduler leaves nobody waiting
	for _, d := range b.outgoing { // a panic came between commit and fan-out
		if d.output != nil {
			c.Send(d.to, d.output)
		}
	}
	if m := b.adding; m != nil {
		c.Send(m.ReplyTo, &SequenceInterrupted{Epoch: b.epoch, Stamps: m.Stamps,
			Err: infer.Internal(errors.New("the sequence could not be added"))})
	}
	blame := &blame{fault: b.fault, now: b.env.clock(), began: b.lastGood,
		goodSteps: b.env.goodSteps.Load(), failures: b.env.failures.Add(1), acquittals: b.env.acquittals.Load(), patience: b.env.recoveryTimeout}
	blame.accuse(b.inFlight, len(b.sequences))
	for _, e := range b.sequences {
		crashes, err := blame.verdict(e.id, e.crashes)
		if err == nil {
			b.device.orphans.Add(1)
		}
		c.Send(e.pid, &SequenceInterrupted{Epoch: b.epoch, Stamps: e.stamps, Crashes: crashes, Err: err})
	}
}
