package actors

import (
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
	outbox *outbox
	seqID  uint64      // the front's
	id     infer.SeqID // the batcher's
	pid    *actor.PID
	place  *place
	ended  bool // had its terminal answer
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
		if r := s.relays[m.Abort.GetSeqId()]; r != nil && s.alive {
			c.Send(s.batcher.PID, &AbortSequence{SeqID: r.id})
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
		s.sendOutputs([]*clusterpb.SequenceOutput{{
			SeqId: w.GetSeqId(), NumOutputTokens: uint32(len(w.GetOutputTokenIds())), FinishReason: uint32(infer.FinishError),
			Details: &clusterpb.OutputDetails{Error: wireError(err), Stamps: w.GetStamps()},
		}})
		return
	}
	r := &relay{outbox: &s.outbox, seqID: w.GetSeqId(), id: s.env.nextSeqID(), place: s.env.admission.enter(len(m.PromptTokenIDs))}
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
	c.Send(s.batcher.PID, m)
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
			c.Send(s.batcher.PID, &AbortSequence{SeqID: r.id})
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
	for _, r := range s.relays {
		s.forget(r)
	}
	c.Unwatch(s.batcher.PID)
}

// hostSession asks for a session. Sender: the goroutine of its stream.
type hostSession struct {
	session *cluster.Session
	answer  chan hostAnswer // capacity 1
}

// hostAnswer is the session's actor, or why there is none.
type hostAnswer struct {
	pid    *actor.PID
	reason string
}

// drainSessions tells all fronts that this node shuts down. Sender: Engine.Drain.
type drainSessions struct{}

// host returns what serves a session's stream: it has the supervisor spawn an actor
// and brings it all that comes.
func (e *environment) host(supervisor *actor.PID) func(*cluster.Session) {
	return func(s *cluster.Session) {
		m := &hostSession{session: s, answer: make(chan hostAnswer, 1)}
		e.root.Send(supervisor, m)
		answer := hostAnswer{reason: "the node shuts down"}
		select {
		case answer = <-m.answer:
		case <-e.cluster.gone:
		}
		pid := answer.pid
		if pid == nil {
			s.Refuse(answer.reason)
			return
		}
		err := s.Run(func(m *clusterpb.ToWorker) { e.root.Send(pid, m) })
		e.root.Send(pid, &linkEnded{err: err})
	}
}

// hostSession spawns the actor of a session, if the device is there.
func (s *SupervisorActor) hostSession(c actor.Context, m *hostSession) {
	batcher, reason := s.hostable(m.session.Open)
	if batcher == nil {
		m.answer <- hostAnswer{reason: reason}
		return
	}
	spec := batcher.device.spec
	session := &SessionActor{env: s.env, session: m.session, batcher: batcher}
	session.limits.MaxNumSeqs, session.limits.MaxModelLen = uint32(s.config.Scheduler.MaxNumSeqs), uint32(s.config.Model.MaxModelLen)
	session.limits.NumBlocks, session.limits.BlockSize = uint32(spec.NumBlocks), uint32(spec.BlockSize)
	pid := c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return session }), "session")
	s.sessions = append(s.sessions, pid)
	m.answer <- hostAnswer{pid: pid}
}

// hostable returns the batcher that a session asks for, or why there is none.
func (s *SupervisorActor) hostable(o *clusterpb.OpenSession) (*BatcherReady, string) {
	m := s.env.cluster
	switch {
	case s.stopping || m.hosted.isDraining():
		return nil, "the node shuts down"
	case o.GetIncarnation() != m.node.Self().Incarnation:
		return nil, "the node has been restarted"
	case o.GetModel() != m.model:
		return nil, "the node serves another model"
	case int(o.GetDevice()) >= len(s.slots):
		return nil, "there is no such device"
	case s.slots[o.GetDevice()].batcher == nil:
		return nil, "the device is being opened"
	}
	return s.slots[o.GetDevice()].batcher, ""
}

func (s *SupervisorActor) drainSessions(c actor.Context) {
	for _, pid := range s.sessions {
		c.Send(pid, &drainSession{})
	}
}
