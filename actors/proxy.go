package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/cluster/clusterpb"
	"github.com/troupe-llm/troupe/infer"
)

// ProxyActor stands for a device of another node: sequences send it what they would
// send a batcher, and get what a batcher would send. It lives for one session. When
// that ends, however it does, the proxy stops: its sequences see Terminated and go
// elsewhere with the tokens that they have.
//
// The device's worker is believed in nothing that would break this node: an output
// that does not fit ends the session.
type ProxyActor struct {
	env    *environment
	member cluster.Member
	device int
	epoch  uint64
	view   *remoteView

	link      *cluster.FrontLink // nil until it is open
	cancel    context.CancelFunc // ends the session's goroutine
	serving   bool               // the supervisor knows
	sequences map[infer.SeqID]*remoteSequence
	blocked   bool  // counts in admission.blocked
	heard     int64 // instant of the last message
	beat      timer
	reason    string // why the worker closed the session
}

// remoteSequence is what a proxy keeps of a sequence.
type remoteSequence struct {
	pid       *actor.PID
	place     *place
	stamps    infer.Stamps // as this node has them
	numTokens int          // output tokens that it has
	logprobs  bool         // each token comes with its logprobs
}

// linkOpened and linkEnded are sent by the session's goroutine, before and after all
// that comes from the worker.
type (
	linkOpened struct{ link *cluster.FrontLink }
	linkEnded  struct{ err error }
)

// proxyBeat is sent by a timer.
type proxyBeat struct{}

const (
	// beatInterval is how often each side of a session says that it lives.
	beatInterval = 200 * time.Millisecond
	// sessionTimeout is how long a side believes so without hearing from the other. A
	// process that is stopped or cut off is taken for dead after that; one that died is
	// noticed at once.
	sessionTimeout = 5 * time.Second
)

// Receive implements actor.Actor.
func (p *ProxyActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.start(c)
	case *linkOpened:
		p.link = m.link
	case *clusterpb.ToFront:
		p.receive(c, m)
	case *AddSequence:
		p.add(c, m)
	case *AbortSequence:
		p.abort(m.SeqID)
	case *proxyBeat:
		p.checkBeat(c)
	case *linkEnded:
		p.ended(c, m.err)
	case *actor.Stopping:
		p.stop()
	case *actor.Stopped:
	default:
		p.env.metrics(0).ObserveUnknownMessage("proxy")
	}
}

// start opens the session on a goroutine, which then reads and writes.
func (p *ProxyActor) start(c actor.Context) {
	p.sequences, p.heard = map[infer.SeqID]*remoteSequence{}, p.env.clock()
	root, self, m := p.env.root, c.Self(), p.env.cluster
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	m.links.Go(func() {
		err := m.node.OpenSession(ctx, &p.member, p.device,
			func(l *cluster.FrontLink) { root.Send(self, &linkOpened{link: l}) },
			func(m *clusterpb.ToFront) { root.Send(self, m) })
		root.Send(self, &linkEnded{err: err})
	})
	p.nextBeat(c)
}

func (p *ProxyActor) nextBeat(c actor.Context) {
	root, self := p.env.root, c.Self()
	p.beat = p.env.after(beatInterval, func() { root.Send(self, &proxyBeat{}) })
}

// checkBeat gives up a worker that has not been heard of.
func (p *ProxyActor) checkBeat(c actor.Context) {
	if p.env.clock()-p.heard > int64(sessionTimeout) {
		p.reason = fmt.Sprintf("nothing was heard of it for %v", sessionTimeout)
		c.Stop(c.Self())
		return
	}
	if p.link != nil {
		p.link.Send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Beat{Beat: &clusterpb.Beat{}}})
	}
	p.nextBeat(c)
}

func (p *ProxyActor) receive(c actor.Context, m *clusterpb.ToFront) {
	p.heard = p.env.clock()
	switch m := m.Message.(type) {
	case *clusterpb.ToFront_Outputs:
		p.outputs(c, m.Outputs.GetOutputs())
	case *clusterpb.ToFront_Load:
		p.load(c, m.Load)
	case *clusterpb.ToFront_Welcome:
		p.welcome(m.Welcome)
	case *clusterpb.ToFront_Drain:
		c.Send(c.Parent(), &remoteDraining{epoch: p.epoch})
	case *clusterpb.ToFront_Close:
		p.reason = m.Close.GetReason()
	}
}

func (p *ProxyActor) welcome(m *clusterpb.Welcome) {
	p.view.maxNumSeqs.Store(int64(m.GetMaxNumSeqs()))
	p.view.numBlocks.Store(int64(m.GetNumBlocks()))
	p.view.blockSize.Store(int64(m.GetBlockSize()))
	p.view.maxModelLen.Store(int64(m.GetMaxModelLen()))
}

// load takes a sample; with the first one the device can be used.
func (p *ProxyActor) load(c actor.Context, m *clusterpb.LoadDigest) {
	s := &sample{
		load: cluster.Load{
			NumSequences: int(m.GetNumSequences()), NumQueuedTokens: int(m.GetNumQueuedTokens()), NumFreeBlocks: int(m.GetNumFreeBlocks()),
		},
		own:       cluster.Placed{NumSequences: int(m.GetNumOwnSequences()), NumTokens: int(m.GetNumOwnQueuedTokens())},
		arrivedAt: p.heard,
	}
	if b := m.GetPrefixes(); len(b) > 0 {
		s.prefixes, _ = cluster.ParseDigest(b) // of another length: it is not known
	} else if last := p.view.sample.Load(); last != nil {
		s.prefixes = last.prefixes
	}
	p.view.sample.Store(s)
	p.setBlocked(m.GetBlocked())
	if !p.serving {
		p.serving = true
		c.Send(c.Parent(), &remoteOpened{epoch: p.epoch})
	}
}

func (p *ProxyActor) setBlocked(blocked bool) {
	if blocked == p.blocked {
		return
	}
	p.blocked = blocked
	if blocked {
		p.env.admission.blocked.Add(1)
	} else {
		p.env.admission.blocked.Add(-1)
	}
}

// add sends a sequence to the worker.
func (p *ProxyActor) add(c actor.Context, m *AddSequence) {
	p.sequences[m.SeqID] = &remoteSequence{
		pid: m.ReplyTo, place: m.place, stamps: m.Stamps, numTokens: len(m.OutputTokenIDs), logprobs: m.Params.NumLogprobs >= 0,
	}
	p.link.Send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Add{Add: p.env.wireAdd(m, p.env.clock())}})
}

func (p *ProxyActor) abort(id infer.SeqID) {
	if p.sequences[id] != nil {
		p.link.Send(&clusterpb.ToWorker{Message: &clusterpb.ToWorker_Abort{Abort: &clusterpb.AbortSequence{SeqId: uint64(id)}}})
	}
}

// outputs passes on what a step, or several, gave.
func (p *ProxyActor) outputs(c actor.Context, outputs []*clusterpb.SequenceOutput) {
	now := p.env.clock()
	var messages []SequenceOutput
	for i, out := range outputs {
		id := infer.SeqID(out.GetSeqId())
		s := p.sequences[id]
		if s == nil {
			continue // it was lost to us, and is to the worker soon
		}
		if interruption := out.GetInterruption(); interruption != nil {
			delete(p.sequences, id)
			c.Send(s.pid, p.env.interrupted(interruption, s, p.epoch, now))
			continue
		}
		if len(messages) == 0 {
			messages = make([]SequenceOutput, min(messageRun, len(outputs)-i))
		}
		m := &messages[0]
		messages = messages[1:]
		if err := p.env.output(m, out, s, now); err != nil {
			p.reason = err.Error()
			c.Stop(c.Self())
			return
		}
		m.Epoch = p.epoch
		if m.FinishReason != infer.FinishNone {
			delete(p.sequences, id)
		}
		c.Send(s.pid, m)
	}
}

// ended stops the proxy after everything that the worker sent before the end.
func (p *ProxyActor) ended(c actor.Context, err error) {
	if p.reason == "" && err != nil {
		p.reason = err.Error()
	}
	c.Stop(c.Self())
}

func (p *ProxyActor) stop() {
	if p.serving {
		p.env.logger.Warn("a device of another node is lost", "node", p.member.Address, "device", p.device, "epoch", p.epoch,
			"sequences", len(p.sequences), "reason", p.reason)
	} else {
		p.env.logger.Debug("no session on a device of another node", "node", p.member.Address, "device", p.device, "reason", p.reason)
	}
	p.setBlocked(false)
	p.beat.Stop()
	if p.link != nil {
		p.link.Abandon()
	}
	p.cancel()
}
