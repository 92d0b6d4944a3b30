package actors

import (
	"cmp"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// SequenceActor owns one generated sequence: its tokens, so that it can resubmit
// them to another batcher, and its text. It appends deltas to the request's
// stream and reports its end to the request.
//
//	submitting ──AddSequence──▶ submitted ──last output, stop string, cancel──▶ finished
//	     ▲                          │
//	BatcherReady                Terminated
//	     └──────── waiting ◀────────┘
//
// Invariants: its tokens are those of an undisturbed run, however many batchers
// it takes; outputs of a batcher other than the one it last submitted to are
// dropped; it finishes exactly once, and stays until the batcher owes it nothing.
type SequenceActor struct {
	env        *environment
	request    *infer.Request
	spec       *sequenceSpec
	stream     *stream
	supervisor *actor.PID
	batcher    *BatcherReady // the one submitted to last, or to submit to; PID nil = none yet
	metrics    *metrics.Engine

	waiting  bool // for BatcherReady
	owed     bool // the batcher lives and has not given its terminal answer
	finished bool // SequenceFinished was sent

	tokenIDs       []int32      // output so far; appended to only
	stamps         infer.Stamps // zero fields = not known
	recoveries     int          // batchers that died under it
	crashes        Crashes      // since the last token
	numCached      int          // prompt tokens found in the prefix cache, by the first batcher
	numPreemptions int          // by batchers that died; the present one's come on top
	preemptions    int          // the present batcher's

	speculation    *metrics.SpecRecorder // nil = off
	breakdown      *breakdown            // nil = off
	transcript     *transcript
	promptLogprobs []infer.TokenLogprobs // of positions 1 …
	sentPrompt     bool
	run            sequenceRun
}

func newSequenceActor(env *environment, j *job, spec *sequenceSpec) *SequenceActor {
	s := &SequenceActor{
		env: env, request: j.request, spec: spec, stream: j.stream,
		batcher: spec.batcher, metrics: env.metrics(0),
		speculation: metrics.NewSpecRecorder(env.specLevel, env.numSpecTokens), breakdown: newBreakdown(env, j),
		transcript: newTranscript(env.tokenizer, spec.params, j.stops, cmp.Or(j.request.StreamInterval, env.streamInterval)),
	}
	if j.parsing != nil {
		parser, err := j.parsing.newParser()
		if err != nil {
			panic(err) // parsing has tried it
		}
		s.transcript.parse(parser)
	}
	if s.batcher == nil {
		s.batcher = &BatcherReady{}
	} else {
		s.metrics = s.batcher.metrics
	}
	return s
}

// Receive implements actor.Actor.
func (s *SequenceActor) Receive(c actor.Context) {
	if m, ok := c.Message().(*SequenceOutput); ok {
		s.output(c, m)
		s.endRun(c)
		return
	}
	s.flush(c) // what follows may depend on what came before
	switch m := c.Message().(type) {
	case *actor.Started:
		s.start(c)
	case *BatcherReady:
		s.batcherReady(c, m)
	case *SequenceInterrupted:
		s.interrupted(c, m)
	case *actor.Terminated:
		s.batcherTerminated(c, m.Who)
	case *Cancel:
		s.finish(c, infer.FinishAbort, nil)
	case *actor.Stopping:
		s.leave(c)
	case *actor.Stopped:
	default:
		s.metrics.ObserveUnknownMessage("sequence")
	}
}

// start takes the stamp "queued": from here on the sequence waits for its first
// step, whether a batcher is there already or not.
func (s *SequenceActor) start(c actor.Context) {
	s.stamps.Queued = s.env.clock()
	if s.batcher.PID == nil {
		s.await(c)
		return
	}
	s.submit(c)
}

// submit sends all the sequence knows to its batcher. It watches first: a message
// behind a stop vanishes without a trace, and only Terminated tells.
func (s *SequenceActor) submit(c actor.Context) {
	s.owed = true
	c.Watch(s.batcher.PID)
	c.Send(s.batcher.PID, &AddSequence{
		SeqID:          s.spec.id,
		PromptTokenIDs: s.spec.prompt.tokenIDs,
		// Clipped: what either side appends later is its own.
		OutputTokenIDs:    s.tokenIDs[:len(s.tokenIDs):len(s.tokenIDs)],
		Params:            s.spec.params,
		Priority:          s.request.Priority,
		Arrival:           s.request.Arrival,
		CacheSalt:         s.request.CacheSalt,
		Key:               s.request.Key,
		KeyWeight:         s.request.KeyWeight,
		NumPromptLogprobs: len(s.promptLogprobs),
		Stamps:            s.stamps,
		Crashes:           s.crashes,
		ReplyTo:           c.Self(),
		place:             s.spec.place,
		demand:            s.spec.demand,
		account:           s.breakdown.handOut(),
	})
}

func (s *SequenceActor) await(c actor.Context) {
	s.waiting = true
	s.spec.live.waiting.Store(true)
	c.Send(s.supervisor, &AwaitBatcher{
		ReplyTo: c.Self(), Epoch: s.batcher.Epoch, place: s.spec.place, live: s.spec.live, demand: resumed(s.spec.demand, len(s.tokenIDs)),
	})
}

// batcherTerminated asks for another batcher. Outputs that the dead one sent are
// still in the mailbox; they come before BatcherReady and count.
func (s *SequenceActor) batcherTerminated(c actor.Context, who *actor.PID) {
	if !s.owed || !who.Equal(s.batcher.PID) {
		return
	}
	s.owed = false
	if s.finished {
		c.Stop(c.Self())
		return
	}
	s.await(c)
}

func (s *SequenceActor) batcherReady(c actor.Context, m *BatcherReady) {
	if !s.waiting {
		return
	}
	s.waiting = false
	s.spec.live.waiting.Store(false)
	if m.Err != nil {
		s.finish(c, infer.FinishError, m.Err)
		return
	}
	resubmitted := s.batcher.PID != nil
	s.batcher, s.metrics = m, m.metrics
	s.numPreemptions += s.preemptions
	s.preemptions = 0
	if resubmitted {
		s.recoveries++
		s.spec.live.numRecoveries.Store(int64(s.recoveries))
		s.metrics.ObserveResubmission()
		s.env.logger.Info("sequence resubmitted", "request", s.request.ID, "sequence", s.spec.id, "choice", s.spec.index,
			"tokens", len(s.tokenIDs), "epoch", m.Epoch)
	}
	s.submit(c)
}

// interrupted is the farewell of a dying batcher; its Terminated comes too.
func (s *SequenceActor) interrupted(c actor.Context, m *SequenceInterrupted) {
	if m.Epoch != s.batcher.Epoch || s.finished {
		return
	}
	wasIsolated := s.crashes.isolate(len(s.tokenIDs))
	s.stamps, s.crashes = m.Stamps, m.Crashes
	switch {
	case m.Err != nil:
		s.owed = false
		s.finish(c, infer.FinishError, m.Err)
	case !wasIsolated && s.crashes.isolate(len(s.tokenIDs)):
		s.metrics.ObserveQuarantine()
		s.env.logger.Info("sequence quarantined", "request", s.request.ID, "sequence", s.spec.id, "choice", s.spec.index,
			"tokens", len(s.tokenIDs), "epoch", m.Epoch)
	}
}

// output takes what a step gave.
func (s *SequenceActor) output(c actor.Context, m *SequenceOutput) {
	if m.Epoch != s.batcher.Epoch {
		return
	}
	if m.FinishReason != infer.FinishNone {
		s.owed = false
	}
	switch {
	case s.finished: // a stop string or a Cancel was quicker
		if !s.owed {
			c.Stop(c.Self())
		}
	case m.FinishReason == infer.FinishError:
		s.note(m)
		s.finish(c, infer.FinishError, m.details().Err)
	case m.FinishReason == infer.FinishAbort: // only on request, after which it has finished
		panic(fmt.Sprintf("actors: sequence %d was aborted by its batcher", s.spec.id))
	default:
		s.advance(c, m)
	}
}

// note takes what an output knows beside tokens.
func (s *SequenceActor) note(m *SequenceOutput) {
	s.breakdown.note(m)
	s.stamps.LastToken = m.LastToken
	d := m.Details
	if d == nil {
		return
	}
	s.stamps, s.preemptions = d.Stamps, int(d.NumPreemptions)
	if len(s.tokenIDs) == 0 {
		s.numCached = int(d.NumCachedTokens)
		s.spec.live.numCached.Store(int64(s.numCached))
	}
}

// advance appends an output to the transcript and passes on what is due.
func (s *SequenceActor) advance(c actor.Context, m *SequenceOutput) {
	if m.NumOutputTokens != len(s.tokenIDs)+len(m.NewTokenIDs) {
		panic(fmt.Sprintf("actors: sequence %d has %d tokens and got %d, which makes %d by the batcher's count",
			s.spec.id, len(s.tokenIDs), len(m.NewTokenIDs), m.NumOutputTokens))
	}
	d := m.details()
	s.promptLogprobs = append(s.promptLogprobs, d.PromptLogprobs...)
	if d.NumDraftTokens > 0 {
		s.speculation.Observe(d.NumDraftTokens, d.NumAcceptedTokens)
		s.metrics.ObserveDrafts(d.NumDraftTokens, d.NumAcceptedTokens)
	}
	last := s.stamps.LastToken
	s.note(m)
	n := s.transcript.add(m)
	if n > 0 {
		s.crashes = Crashes{}
		s.observeTokens(last)
	} else if s.transcript.finished() {
		s.countPrompt() // prompt scoring: there will be no first token
	}
	if s.tokenIDs == nil {
		s.tokenIDs = make([]int32, 0, min(s.spec.params.MaxTokens, spareTokens))
	}
	s.tokenIDs = append(s.tokenIDs, m.NewTokenIDs[:n]...)
	if s.transcript.due() {
		s.push()
	}
	if s.transcript.finished() {
		s.finish(c, s.transcript.finish, nil)
	}
}

// spareTokens is how many tokens a sequence has room for at once with its first one.
const spareTokens = 256

// countPrompt books the prompt's tokens, once for all choices.
func (s *SequenceActor) countPrompt() {
	if s.spec.prompt.counted.CompareAndSwap(false, true) {
		s.metrics.ObservePrompt(len(s.spec.prompt.tokenIDs), s.numCached)
	}
}

// pushRest sends what an end before its time leaves behind: text that waited for
// the next delta, or for what might have made it a stop string. A reader that lags
// too far behind goes without.
func (s *SequenceActor) pushRest() {
	if s.transcript.finished() {
		return // its last delta is out
	}
	s.transcript.flush()
	if s.transcript.numSent == s.transcript.numTokens && s.transcript.text == "" {
		return
	}
	s.push()
}

// promptInfo describes the prompt to a request that asked for any of it.
func (s *SequenceActor) promptInfo() *infer.PromptInfo {
	withLogprobs := s.spec.params.NumPromptLogprobs >= 0
	if !s.request.Echo && !s.request.ReturnTokenIDs && !withLogprobs {
		return nil
	}
	p := s.spec.prompt
	info := &infer.PromptInfo{Text: p.text, TokenIDs: p.tokenIDs}
	if withLogprobs {
		info.Logprobs = make([]infer.TokenLogprobs, 1, len(p.tokenIDs))
		info.Logprobs[0].Token.TokenID = p.tokenIDs[0]
		info.Logprobs = append(info.Logprobs, s.promptLogprobs...)
		for i := range info.Logprobs {
			s.transcript.spell(&info.Logprobs[i])
		}
		s.promptLogprobs = nil
	}
	return info
}

// finish ends the sequence for its reader: it reports to the request, once, and
// tells the batcher to forget the sequence if that does not know yet. The actor
// lingers until the batcher has answered.
func (s *SequenceActor) finish(c actor.Context, reason infer.FinishReason, err *infer.Error) {
	if s.finished {
		return
	}
	s.finished = true
	s.spec.live.finished.Store(true)
	s.pushRest()
	s.flush(c)
	s.observeFinish(reason)
	c.Send(c.Parent(), &SequenceFinished{
		Index: s.spec.index, FinishReason: reason, NumTokens: s.transcript.numTokens,
		NumCachedTokens: s.numCached, NumReasoningTokens: s.transcript.numThoughts(), NumRecoveries: s.recoveries, Stamps: s.stamps,
		Speculation: s.speculation.Result(), Breakdown: s.breakdown.result(s), Err: err,
	})
	if s.owed {
		c.Send(s.batcher.PID, &AbortSequence{SeqID: s.spec.id})
		return
	}
	c.Stop(c.Self())
}

// observeFinish books the sequence. The series of times are about sequences that
// came to their own end; one cut short is in the token counts only.
func (s *SequenceActor) observeFinish(reason infer.FinishReason) {
	stamps := s.stamps
	if reason == infer.FinishAbort || reason == infer.FinishError {
		stamps = infer.Stamps{}
	}
	s.metrics.ObserveSequenceFinish(metrics.SequenceFinish{
		Stamps:          stamps,
		NumTokens:       s.transcript.numTokens,
		NumPromptTokens: len(s.spec.prompt.tokenIDs),
		NumCachedTokens: s.numCached,
		NumPreemptions:  s.numPreemptions + s.preemptions,
	})
}

// leave runs when the actor stops, by its own decision or by a panic. The
// batcher must not go on for a sequence that nobody reads.
func (s *SequenceActor) leave(c actor.Context) {
	s.spec.place.unseat()
	if s.batcher.PID == nil {
		return
	}
	if s.owed {
		c.Send(s.batcher.PID, &AbortSequence{SeqID: s.spec.id})
	}
	c.Unwatch(s.batcher.PID) // or the batcher would remember every sequence there was
}
