package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cluster/clusterpb"
)

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
