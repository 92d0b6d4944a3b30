package actors

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/infer"
)

// SupervisorActor is the root of an engine's tree: parent of the batcher and of
// all requests. It replaces a batcher that died and tells the sequences that
// wait which one is alive. It knows no request: those end by themselves.
//
//	             device opened               batcher died
//	opening ──────────────────▶ serving ─────────────────────┐
//	   ▲  │ failed                                           │
//	   │  ▼                                                  │
//	(timer) ◀────────────── opening, outage running ◀────────┘
//	                        past RecoveryTimeout: those who wait fail
type SupervisorActor struct {
	env    *environment
	config *Config

	device  *device    // nil while opening
	batcher *actor.PID // nil during an outage
	epoch   uint64     // of the batcher; 1 = the first

	waiting  []*actor.PID // sequences without a batcher, during an outage
	opening  chan *device // capacity 1: what the goroutine that opens a device ends with; nil = none runs
	outage   outage       // valid while batcher is nil
	stopping bool         // messages still arrive, but nothing may be started any more

	closed chan<- error // capacity 1: gets the runner's error when the tree and the device are gone
}

// outage is the time without a batcher. Timers carry its number, so that one of
// an outage that is over has no effect.
type outage struct {
	number   uint64
	since    int64 // instant at which the batcher's death was seen
	attempts int   // to open a device
	expired  bool  // longer than Config.RecoveryTimeout
	expiry   timer
	retry    timer
}

// startRequest asks for a request actor. Sender: Engine.Generate.
type startRequest struct{ job *job }

// deviceOpened ends an attempt to open a device. Sender: the goroutine of open;
// the device, or nil, waits in opening.
type deviceOpened struct{ err error }

// retryOpen and outageExpired are sent by timers.
type (
	retryOpen     struct{ outage uint64 }
	outageExpired struct{ outage uint64 }
)

const (
	firstRetry = 100 * time.Millisecond // wait after a failed attempt to open; doubles
	lastRetry  = 5 * time.Second
)

// Receive implements actor.Actor.
func (s *SupervisorActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.spawnBatcher(c)
	case *startRequest:
		s.spawnRequest(c, m.job)
	case *AwaitBatcher:
		s.await(c, m)
	case *actor.Terminated:
		s.terminated(c, m.Who)
	case *deviceOpened:
		s.opened(c, m.err)
	case *retryOpen:
		s.retry(c, m.outage)
	case *outageExpired:
		s.expire(c, m.outage)
	case *actor.Stopping:
		s.stopping = true
		s.outage.stopTimers()
	case *actor.Stopped:
		s.closeDevice()
	default:
		s.env.metrics.ObserveUnknownMessage("engine")
	}
}

func (s *SupervisorActor) spawnBatcher(c actor.Context) {
	s.epoch++
	batcher := &BatcherActor{env: s.env, epoch: s.epoch, device: s.device}
	s.batcher = c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return batcher }), "batcher")
	s.env.health.Store(int32(healthServing))
}

// spawnRequest leaves a job alone while stopping: closeDevice ends its stream.
func (s *SupervisorActor) spawnRequest(c actor.Context, j *job) {
	if s.stopping {
		return
	}
	request := &RequestActor{env: s.env, job: j, batcher: s.ready()}
	c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return request },
		actor.WithSupervisor(s.env.strategy)), "request")
}

// ready describes the batcher as it is now.
func (s *SupervisorActor) ready() *BatcherReady {
	return &BatcherReady{PID: s.batcher, Epoch: s.epoch}
}

// await answers a sequence now or when the outage ends. A sequence may see a
// batcher's death before its parent does: naming that batcher again is no answer.
func (s *SupervisorActor) await(c actor.Context, m *AwaitBatcher) {
	switch {
	case s.batcher != nil && m.Epoch != s.epoch:
		c.Send(m.ReplyTo, s.ready())
	case s.batcher == nil && s.outage.expired:
		c.Send(m.ReplyTo, &BatcherReady{Err: s.unavailable()})
	default:
		s.waiting = append(s.waiting, m.ReplyTo)
	}
}

// terminated starts an outage if it was the batcher. A request that died has
// answered its client while it stopped.
func (s *SupervisorActor) terminated(c actor.Context, who *actor.PID) {
	if s.stopping || s.batcher == nil || !who.Equal(s.batcher) {
		return
	}
	s.batcher = nil
	s.env.health.Store(int32(healthRecovering))
	number := s.outage.number + 1
	root, self := s.env.root, c.Self()
	s.outage = outage{number: number, since: s.env.clock(), expiry: s.env.after(s.config.RecoveryTimeout, func() {
		root.Send(self, &outageExpired{outage: number})
	})}
	s.open(c)
}

// open closes the device there was and opens another, on a goroutine because
// both may take long. The weights stay loaded; the new cache is empty.
func (s *SupervisorActor) open(c actor.Context) {
	old, opening := s.device, make(chan *device, 1)
	s.device, s.opening = nil, opening
	env, self, config := s.env, c.Self(), s.config
	go func() {
		if old != nil {
			if err := env.abandoned.closeDevice(old, config.StepTimeout); err != nil && !errors.Is(err, ErrDeviceAbandoned) {
				env.logger.Error("closing the failed device", "error", err)
			}
		}
		d, err := (*device)(nil), env.abandoned.full()
		if err == nil {
			d, err = openDevice(config, 0)
		}
		opening <- d
		env.root.Send(self, &deviceOpened{err: err})
	}()
}

func (s *SupervisorActor) opened(c actor.Context, err error) {
	if s.stopping {
		return // closeDevice takes what was opened
	}
	s.device = <-s.opening
	s.opening = nil
	if err != nil {
		s.openFailed(c, err)
		return
	}
	s.outage.stopTimers()
	s.env.admission.blocked.Store(false) // an empty scheduler leaves nobody waiting
	s.env.metrics.ObserveRestart()
	s.spawnBatcher(c)
	s.env.logger.Warn("batcher replaced after a failure", "epoch", s.epoch, "waiting", len(s.waiting),
		"outage", time.Duration(s.env.clock()-s.outage.since), "attempts", s.outage.attempts+1)
	for _, sequence := range s.waiting {
		c.Send(sequence, s.ready())
	}
	s.waiting = nil
}

func (s *SupervisorActor) openFailed(c actor.Context, err error) {
	wait := min(firstRetry<<min(s.outage.attempts, 10), lastRetry)
	s.outage.attempts++
	s.env.logger.Error("the device cannot be opened", "attempt", s.outage.attempts, "retry", wait, "error", err)
	root, self, number := s.env.root, c.Self(), s.outage.number
	s.outage.retry = s.env.after(wait, func() { root.Send(self, &retryOpen{outage: number}) })
}

func (s *SupervisorActor) retry(c actor.Context, number uint64) {
	if number == s.outage.number && s.batcher == nil && s.opening == nil {
		s.open(c)
	}
}

// expire fails those who wait. Attempts go on: the server may heal.
func (s *SupervisorActor) expire(c actor.Context, number uint64) {
	if number != s.outage.number || s.batcher != nil {
		return
	}
	s.outage.expired = true
	s.env.health.Store(int32(healthUnavailable))
	s.env.logger.Error("no device within the recovery timeout: requests that wait fail",
		"timeout", s.config.RecoveryTimeout, "waiting", len(s.waiting))
	for _, sequence := range s.waiting {
		c.Send(sequence, &BatcherReady{Err: s.unavailable()})
	}
	s.waiting = nil
}

func (s *SupervisorActor) unavailable() *infer.Error {
	err := infer.Errorf(infer.CodeUnavailable, "", "No inference device has been available for %v.", s.config.RecoveryTimeout)
	err.RetryAfter = lastRetry
	return err
}

// closeDevice runs after all children are gone. It hands the rest to a
// goroutine, since closing waits: for a step in flight, for a device that is
// being opened. No stream is left to end here, unless the supervisor died of a
// panic.
func (s *SupervisorActor) closeDevice() {
	s.env.health.Store(int32(healthStopped))
	s.env.registry.failAll(infer.Errorf(infer.CodeInternal, "", "Internal server error"))
	device, opening, closed := s.device, s.opening, s.closed
	env, limit := s.env, s.config.StepTimeout
	go func() {
		if opening != nil {
			device = <-opening
		}
		var err error
		if device != nil {
			err = env.abandoned.closeDevice(device, limit)
		}
		if err == nil && env.abandoned.count.Load() > 0 {
			err = ErrDeviceAbandoned
		}
		closed <- err
	}()
}

func (o *outage) stopTimers() {
	for _, t := range []timer{o.expiry, o.retry} {
		if t != nil {
			t.Stop()
		}
	}
}
