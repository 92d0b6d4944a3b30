package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
)

// sequenceRun is what a sequence puts off to the end of a run of outputs. One that
// keeps up with its batcher has runs of one output; one that is behind takes each
// lock that it shares with others once per run and not once per token.
type sequenceRun struct {
	mailbox *runMailbox   // nil = every output is a run of its own
	unsent  []infer.Delta // due, and not in the stream yet
	gaps    []int64       // nanoseconds between steps, not observed yet
	booked  int           // tokens that have been observed
}

// endRun flushes unless another message of the same run follows.
func (s *SequenceActor) endRun(c actor.Context) {
	if s.run.mailbox == nil || !s.run.mailbox.more() {
		s.flush(c)
	}
}

// flush shares what the outputs of a run gave. The tokens are counted here and not
// by the batcher, which draws one or more too many while a stop string is on its
// way. It runs while the actor stops too: what it takes is gone before it is used,
// so that a panic cannot come twice.
func (s *SequenceActor) flush(c actor.Context) {
	r := &s.run
	if n := len(s.tokenIDs) - r.booked; n > 0 {
		gaps := r.gaps
		r.booked, r.gaps = r.booked+n, gaps[:0]
		s.metrics.ObserveGenerationTokens(n)
		s.metrics.ObserveInterToken(gaps...)
		s.spec.live.numTokens.Store(int64(len(s.tokenIDs)))
	}
	if len(r.unsent) == 0 {
		return
	}
	unsent := r.unsent
	r.unsent = unsent[:0]
	inTime := s.stream.push(unsent...)
	clear(unsent) // let go of texts and token slices
	if !inTime {
		c.Send(c.Parent(), &Cancel{Reason: infer.CancelSlowClient})
	}
}

// observeTokens books a step that gave tokens. last is the stamp of the one
// before, 0 if this is the first.
func (s *SequenceActor) observeTokens(last int64) {
	if last != 0 {
		gap := s.stamps.LastToken - last
		s.run.gaps = append(s.run.gaps, gap)
		s.breakdown.observeGap(gap)
		return
	}
	s.countPrompt()
	s.metrics.ObserveFirstToken(s.stamps.FirstToken - s.request.Arrival)
}

// push takes what is due to the reader, the first time with the prompt if the
// request asked for it.
func (s *SequenceActor) push() {
	d := s.transcript.take(s.spec.index)
	if !s.sentPrompt {
		s.sentPrompt = true
		d.Prompt = s.promptInfo()
	}
	s.run.unsent = append(s.run.unsent, d)
}
