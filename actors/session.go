package actors

import (
	"context"
	"strconv"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cluster/clusterpb"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// SessionActor is the worker's side of a session: it hands a front's sequences to
// the device's batcher, and what the batcher says of them to the front. It lives as
// long as the stream, the batcher, and the front's signs of life. When it stops, the
// batcher forgets all that the front sent; a session lingers until it has.
type SessionActor struct {
	env     *environment
	session *cluster.Session
	batcher *BatcherReady
	limits  clusterpb.Welcome

	relays   map[uint64]*relay // by the front's id
	outbox   outbox
	posted   []posted // scratch
	heard    int64    // instant of the front's last message
	beat     timer
	told     uint64 // version of the digest that the front has
	closing  bool   // nothing is sent to the front any more
	alive    bool   // the batcher
	draining bool
}

// relay stands for a front's sequence before the batcher. It is no actor: it only
// puts what it gets into the session's outbox.
type relay struct {
	outbox    *outbox
	seqID     uint64      // the front's
	id        infer.SeqID // the batcher's
	pid       *actor.PID
	place     *place
	numTokens int    // output tokens that it came with
	ended     bool   // had its terminal answer
	cancel    func() // gives up the compilation of its form; nil = the batcher has it
}

var _ actor.Process = (*relay)(nil)

// SendUserMessage implements actor.Process.
func (r *relay) SendUserMessage(_ *actor.PID, message any) { r.outbox.post(r, message) }

// SendSystemMessage implements actor.Process.
func (r *relay) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (r *relay) Stop(*actor.PID) {}

// outbox is what batchers have said and the session has not sent yet. Its first
// entry wakes the session: what the rest of a step adds meanwhile goes with it.
type outbox struct {
	mu     sync.Mutex
	posted []posted
	wake   func()
}

type posted struct {
	relay   *relay
	message any
}

func (o *outbox) post(r *relay, message any) {
	o.mu.Lock()
	first := len(o.posted) == 0
	o.posted = append(o.posted, posted{relay: r, message: message})
	o.mu.Unlock()
	if first {
		o.wake()
	}
}

// take returns what was posted, in order, and keeps scratch for what comes.
func (o *outbox) take(scratch []posted) []posted {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.posted
	o.posted = scratch[:0]
	return taken
}

// flushOutbox is sent by the outbox; sessionBeat by a timer; drainSession by the
// supervisor.
type (
	flushOutbox  struct{}
	sessionBeat  struct{}
	drainSession struct{}
)

// Receive implements actor.Actor.
func (s *SessionActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.start(c)
	case *clusterpb.ToWorker:
		s.receive(c, m)
	case *formCompiled:
		s.formCompiled(c, m)
	case *flushOutbox:
		s.flush(c)
	case *sessionBeat:
		s.checkBeat(c)
	case *drainSession:
		s.drain()
	case *linkEnded:
		s.close(c, "")
	case *actor.Terminated:
		s.batcherTerminated(c)
	case *actor.Stopping:
		s.release(c)
	case *actor.Stopped:
	default:
		s.batcher.metrics.ObserveUnknownMessage("session")
	}
}

func (s *SessionActor) start(c actor.Context) {
	root, self := s.env.root, c.Self()
	s.relays, s.heard, s.alive = map[uint64]*relay{}, s.env.clock(), true
	s.outbox.wake = func() { root.Send(self, &flushOutbox{}) }
	c.Watch(s.batcher.PID)
	s.session.Send(&clusterpb.ToFront{Message: &clusterpb.ToFront_Welcome{Welcome: &s.limits}})
	s.sendLoad()
	s.nextBeat(c)
}

func (s *SessionActor) nextBeat(c actor.Context) {
	root, self := s.env.root, c.Self()
	s.beat = s.env.after(beatInterval, func() { root.Send(self, &sessionBeat{}) })
}

// checkBeat gives up a front that has not been heard of: nobody would read what is
// generated for it.
func (s *SessionActor) checkBeat(c actor.Context) {
	switch {
	case s.closing:
		return
	case s.env.clock()-s.heard > int64(sessionTimeout):
		s.env.logger.Warn("a front was not heard of: its sequences are forgotten", "front", s.session.Open.GetFront(), "sequences", len(s.relays))
		s.close(c, "nothing was heard of the front")
		return
	}
	s.sendLoad()
	s.nextBeat(c)
}

// sendLoad tells the front how the device is.
func (s *SessionActor) sendLoad() {
	d := s.batcher.device
	queued := int64(0)
	for _, r := range s.relays {
		if !r.place.left.Load() {
			queued += r.place.numTokens
		}
	}
	load := &clusterpb.LoadDigest{
		NumSequences: uint32(max(s.batcher.seat.sequences.Load(), 0)), NumQueuedTokens: uint64(max(s.batcher.seat.tokens.Load(), 0)),
		NumOwnSequences: uint32(len(s.relays)), NumOwnQueuedTokens: uint64(queued),
		NumFreeBlocks: uint32(d.freeBlocks.Load()), Blocked: d.blocked.Load(),
	}
	if digest := d.prefixes.latest(); digest != nil && digest.Version() != s.told {
		s.told = digest.Version()
		load.Prefixes = digest.AppendBinary(nil)
	}
	s.session.Send(&clusterpb.ToFront{Message: &clusterpb.ToFront_Load{Load: load}})
}

func (s *SessionActor) drain() {
	if !s.draining && !s.closing {
		s.draining = true
		s.session.Send(&clusterpb.ToFront{Message: &clusterpb.ToFront_Drain{Drain: &clusterpb.Drain{}}})
	}
}

func (s *SessionActor) receive(c actor.Context, m *clusterpb.ToWorker) {
	s.heard = s.env.clock()
	switch m := m.Message.(type) {
	case *clusterpb.ToWorker_Add:
		s.add(c, m.Add)
	case *clusterpb.ToWorker_Abort:
		if r := s.relays[m.Abort.GetSeqId()]; r != nil {
			s.abort(c, r)
		}
	}
}

// add hands a sequence to the batcher, or answers with why it cannot be.
func (s *SessionActor) add(c actor.Context, w *clusterpb.AddSequence) {
	if s.closing || s.relays[w.GetSeqId()] != nil {
		return
	}
	m, err := s.env.fromWire(w, s.batcher.device.spec.VocabSize, s.env.clock())
	if err != nil {
		s.refuse(w.GetSeqId(), len(w.GetOutputTokenIds()), err)
		return
	}
	r := &relay{outbox: &s.outbox, seqID: w.GetSeqId(), id: s.env.nextSeqID(), place: s.env.admission.enter(len(m.PromptTokenIDs)), numTokens: len(m.OutputTokenIDs)}
	registry := s.env.root.ActorSystem().ProcessRegistry
	r.pid, _ = registry.Add(r, "relay$"+strconv.FormatUint(uint64(r.id), 10))
	r.place.seat(s.batcher.seat)
	s.relays[r.seqID] = r
	s.env.cluster.hosted.add(1)
	s.batcher.device.prefixes.add(w.GetPrefixes())
	m.SeqID, m.ReplyTo, m.place = r.id, r.pid, r.place
	if w.GetAccount() && s.env.breakdown {
		m.account = new(metrics.Account)
	}
	if len(w.GetForm()) > 0 {
		s.compile(c, r, m, w.GetForm())
		return
	}
	c.Send(s.batcher.PID, m)
}

// refuse answers for a sequence that the batcher never gets.
func (s *SessionActor) refuse(id uint64, numTokens int, err *infer.Error) {
	s.sendOutputs([]*clusterpb.SequenceOutput{{
		SeqId: id, NumOutputTokens: uint32(numTokens), FinishReason: uint32(infer.FinishError),
		Details: &clusterpb.OutputDetails{Error: wireError(err), Stamps: &clusterpb.Stamps{}},
	}})
}

// compile has a sequence's grammar made on a goroutine. The batcher gets it with that.
func (s *SessionActor) compile(c actor.Context, r *relay, m *AddSequence, form []byte) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	env, self := s.env, c.Self()
	env.cluster.links.Go(func() {
		defer cancel()
		grammar, err := env.compileForm(ctx, form)
		env.root.Send(self, &formCompiled{relay: r, add: m, grammar: grammar, err: err})
	})
}

func (s *SessionActor) formCompiled(c actor.Context, m *formCompiled) {
	r := m.relay
	switch {
	case r.ended: // it was aborted meanwhile
	case m.err != nil:
		s.refuse(r.seqID, len(m.add.OutputTokenIDs), m.err)
		s.forget(r)
		s.stopIfDone(c)
	default:
		r.cancel = nil
		m.add.Params.Grammar = m.grammar
		c.Send(s.batcher.PID, m.add)
	}
}

// abort has the batcher forget a sequence, or forgets one that it has not got yet:
// nobody but the front waits for the answer, which has finished with it.
func (s *SessionActor) abort(c actor.Context, r *relay) {
	if r.cancel == nil {
		c.Send(s.batcher.PID, &AbortSequence{SeqID: r.id})
		return
	}
	s.refuse(r.seqID, r.numTokens, infer.Errorf(infer.CodeUnavailable, "", "The request was given up."))
	s.forget(r)
}

// flush sends what the batcher has said.
func (s *SessionActor) flush(c actor.Context) {
	taken := s.outbox.take(s.posted)
	now := s.env.clock()
	outputs := make([]*clusterpb.SequenceOutput, 0, len(taken))
	for i, p := range taken {
		w, terminal := s.env.wireOutput(p.message, now)
		w.SeqId = p.relay.seqID
		outputs = append(outputs, w)
		if terminal {
			s.forget(p.relay)
		}
		taken[i] = posted{} // the message is not ours any more
	}
	s.posted = taken
	s.sendOutputs(outputs)
	s.stopIfDone(c)
}

func (s *SessionActor) sendOutputs(outputs []*clusterpb.SequenceOutput) {
	if len(outputs) > 0 && !s.closing {
		s.session.Send(&clusterpb.ToFront{Message: &clusterpb.ToFront_Outputs{Outputs: &clusterpb.StepOutputs{Outputs: outputs}}})
	}
}

// forget takes a sequence out of the books, once.
func (s *SessionActor) forget(r *relay) {
	if r.ended {
		return
	}
	r.ended = true
	if r.cancel != nil {
		r.cancel()
	}
	delete(s.relays, r.seqID)
	s.env.root.ActorSystem().ProcessRegistry.Remove(r.pid)
	r.place.release()
	s.env.cluster.hosted.add(-1)
}

// close ends the session: the front hears of nothing more, and the batcher is told
// to forget what is left. reason is for the front.
func (s *SessionActor) close(c actor.Context, reason string) {
	if s.closing {
		return
	}
	s.closing = true
	if reason == "" {
		s.session.Abandon()
	} else {
		s.session.Send(&clusterpb.ToFront{Message: &clusterpb.ToFront_Close{Close: &clusterpb.CloseSession{Reason: reason}}})
		s.session.Finish()
	}
	if s.alive {
		for _, r := range s.relays {
			s.abort(c, r)
		}
	}
	s.stopIfDone(c)
}

// stopIfDone stops a session that has ended when the batcher owes it nothing.
func (s *SessionActor) stopIfDone(c actor.Context) {
	if s.closing && len(s.relays) == 0 {
		c.Stop(c.Self())
	}
}

// batcherTerminated passes on the batcher's last words, which are all in the outbox,
// and ends the session. Sequences that the batcher never saw get no answer: the
// front's proxy dies with the session, and tells them so.
func (s *SessionActor) batcherTerminated(c actor.Context) {
	s.alive = false
	s.flush(c)
	for _, r := range s.relays {
		s.forget(r)
	}
	s.close(c, "the device's batcher has ended")
	s.stopIfDone(c)
}

// release runs while the actor stops, after its end or with the tree.
func (s *SessionActor) release(c actor.Context) {
	s.beat.Stop()
	s.session.Finish()
	for _, r := range s.relays { // none, unless the session failed
		if s.alive {
			c.Send(s.batcher.PID, &AbortSequence{SeqID: r.id})
		}
		s.forget(r)
	}
	c.Unwatch(s.batcher.PID)
}
