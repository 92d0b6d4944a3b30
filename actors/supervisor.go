package actors

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// SupervisorActor is the root of an engine's tree: parent of the batchers and of
// all requests. It says which batcher a sequence submits to, and replaces one that
// died. It knows no request: those end by themselves.
//
// Each batcher has a slot:
//
//	             device opened               batcher died
//	opening ──────────────────▶ serving ─────────────────────┐
//	   ▲  │ failed                                           │
//	   │  ▼               without one good step, again       │
//	(timer) ◀────────────────────────────────────────────────┤
//	   └─────────────────────▶ opening ◀─────────────────────┘
//
// While another batcher lives, sequences go there at once. Without one there is
// an outage; past RecoveryTimeout those who wait fail.
type SupervisorActor struct {
	env    *environment
	config *Config

	slots []*slot // by number of the batcher
	epoch uint64  // of the latest batcher; 1 = the first. No two have the same

	waiting  []*AwaitBatcher // of sequences that no batcher lives for
	orphans  int             // sequences that wait or soon will, as nearly as can be known
	outage   outage
	sessions []*actor.PID // of other nodes on devices of this one
	remotes  *remotes     // devices of other nodes; nil = there are none to be used
	stopping bool         // messages still arrive, but nothing may be started any more

	closed chan<- error // capacity 1: gets the runners' errors when the tree and the devices are gone
}

// slot is the place of one batcher, through all its lives.
type slot struct {
	index    int
	device   *device       // nil while opening
	batcher  *BatcherReady // nil = dead
	opening  chan *device  // capacity 1: what the goroutine that opens a device ends with; nil = none runs
	diedAt   int64         // instant at which the batcher's death was seen
	attempts int           // to open a device since
	barren   int           // batchers in a row that died before they had a good step
	retry    timer
}

// outage is a time without any batcher. Timers carry its number, so that one of
// an outage that is over has no effect.
type outage struct {
	number  uint64
	running bool
	expired bool // longer than Config.RecoveryTimeout
	expiry  timer
}

// startRequest asks for a request actor. Sender: Engine.Generate.
type startRequest struct{ job *job }

// deviceOpened ends an attempt to open a device. Sender: the goroutine of open;
// the device, or nil, waits in the slot's opening.
type deviceOpened struct {
	slot int
	err  error
}

// retryOpen and outageExpired are sent by timers.
type (
	retryOpen     struct{ slot, attempt int }
	outageExpired struct{ outage uint64 }
)

const (
	firstRetry = 100 * time.Millisecond // wait after a failed attempt to open; doubles
	lastRetry  = 5 * time.Second

	// A device that can be opened and does nothing else is soon opened less often.
	maxBarren  = 3 // batchers in a row without a good step that are replaced at once
	lastReopen = time.Second
)

// Receive implements actor.Actor.
func (s *SupervisorActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.start(c)
	case *startRequest:
		s.spawnRequest(c, m.job)
	case *AwaitBatcher:
		s.await(c, m)
	case *actor.Terminated:
		s.terminated(c, m.Who)
	case *deviceOpened:
		s.opened(c, s.slots[m.slot], m.err)
	case *retryOpen:
		s.retryOpen(c, s.slots[m.slot], m.attempt)
	case *outageExpired:
		s.expire(c, m.outage)
	case *membersChanged:
		s.membersChanged(c, m.members)
	case *remoteOpened:
		s.remoteOpened(c, m)
	case *remoteDraining:
		s.remoteDraining(c, m)
	case *retryRemote:
		s.retryRemote(c, m.key)
	case *recheckWaiting:
		s.recheckWaiting(c)
	case *hostSession:
		s.hostSession(c, m)
	case *drainSessions:
		s.drainSessions(c)
	case *actor.Stopping:
		s.stopping = true
		s.stopTimers()
	case *actor.Stopped:
		s.closeDevices()
	default:
		s.env.metrics(0).ObserveUnknownMessage("engine")
	}
}

// start spawns the batchers. Without any, it is an outage until another node has one.
func (s *SupervisorActor) start(c actor.Context) {
	for _, slot := range s.slots {
		s.spawnBatcher(c, slot)
	}
	if len(s.slots) == 0 {
		s.startOutage(c)
	}
}

func (s *SupervisorActor) spawnBatcher(c actor.Context, slot *slot) {
	s.epoch++
	batcher := &BatcherActor{env: s.env, index: slot.index, epoch: s.epoch, device: slot.device, metrics: s.env.metrics(slot.index),
		expected: max(s.orphans, len(s.waiting))}
	s.orphans = 0
	slot.batcher = &BatcherReady{
		PID: c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return batcher },
			actor.WithDispatcher(slot.device.thread)), "batcher"),
		Epoch: s.epoch, metrics: batcher.metrics, seat: new(seat), device: slot.device,
	}
	s.publishDevices()
	s.env.admission.living.Add(1)
	s.env.health.Store(int32(healthServing))
}

// publishDevices shows lookers-on which batchers live.
func (s *SupervisorActor) publishDevices() {
	var living []*BatcherReady
	for _, slot := range s.slots {
		if slot.batcher != nil {
			living = append(living, slot.batcher)
		}
	}
	s.env.devices.Store(&living)
}

// spawnRequest leaves a job alone while stopping: closeDevices ends its stream.
func (s *SupervisorActor) spawnRequest(c actor.Context, j *job) {
	if s.stopping {
		return
	}
	for i := range j.sequences {
		j.sequences[i].batcher = s.assign(0, j.sequences[i].place, j.sequences[i].demand)
	}
	request := &RequestActor{env: s.env, job: j, metrics: s.env.metrics(0)}
	if first := j.sequences[0].batcher; first != nil {
		request.metrics = first.metrics
	}
	c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return request },
		actor.WithSupervisor(s.env.strategy)), "request")
}

// assign chooses the living batcher with the fewest sequences, the first of
// equals, other than the one of an epoch: a sequence may see a batcher's death
// before its parent does. The sequence counts there from now on. nil = none.
func (s *SupervisorActor) assign(except uint64, p *place, d *cluster.Demand) *BatcherReady {
	var best *BatcherReady
	if s.remotes != nil && d != nil {
		best = s.pickDevice(except, d)
	} else {
		best = s.leastLoaded(except)
	}
	if best != nil {
		p.seat(best.seat)
	}
	return best
}

func (s *SupervisorActor) leastLoaded(except uint64) (best *BatcherReady) {
	for _, slot := range s.slots {
		b := slot.batcher
		if b != nil && b.Epoch != except && (best == nil || b.seat.sequences.Load() < best.seat.sequences.Load()) {
			best = b
		}
	}
	return best
}

// await answers a sequence now, or when a batcher lives.
func (s *SupervisorActor) await(c actor.Context, m *AwaitBatcher) {
	if b := s.assign(m.Epoch, m.place, m.demand); b != nil {
		c.Send(m.ReplyTo, b)
	} else if s.outage.expired {
		c.Send(m.ReplyTo, &BatcherReady{Err: s.unavailable()})
	} else {
		s.waiting = append(s.waiting, m)
		s.recheckSoon(c, m)
	}
}

// terminated opens another device if it was a batcher. A request that died has
// answered its client while it stopped.
func (s *SupervisorActor) terminated(c actor.Context, who *actor.PID) {
	if s.remoteTerminated(c, who) {
		return
	}
	s.sessions = slices.DeleteFunc(s.sessions, who.Equal)
	i := slices.IndexFunc(s.slots, func(slot *slot) bool { return slot.batcher != nil && who.Equal(slot.batcher.PID) })
	if s.stopping || i < 0 {
		return
	}
	slot := s.slots[i]
	slot.batcher, slot.diedAt, slot.attempts = nil, s.env.clock(), 0
	s.publishDevices()
	slot.barren++
	if slot.device.worked.Load() {
		slot.barren = 0
	}
	s.env.metrics(slot.index).ObserveStep(metrics.StepStats{}) // nothing runs here any more
	if s.env.admission.living.Add(-1) == 0 {
		s.orphans = int(slot.device.orphans.Load())
		s.startOutage(c)
	}
	if slot.barren > maxBarren {
		s.openLater(c, slot, min(firstRetry<<min(slot.barren-maxBarren-1, 10), lastReopen))
		return
	}
	s.open(c, slot)
}

func (s *SupervisorActor) startOutage(c actor.Context) {
	s.env.health.Store(int32(healthRecovering))
	number := s.outage.number + 1
	root, self := s.env.root, c.Self()
	s.outage = outage{number: number, running: true, expiry: s.env.after(s.config.RecoveryTimeout, func() {
		root.Send(self, &outageExpired{outage: number})
	})}
}

// open closes a slot's device and opens another, on a goroutine because both may
// take long. The weights stay loaded; the new cache is empty.
func (s *SupervisorActor) open(c actor.Context, slot *slot) {
	old, opening, index := slot.device, make(chan *device, 1), slot.index
	slot.device, slot.opening = nil, opening
	env, self, config := s.env, c.Self(), s.config
	go func() {
		if old != nil {
			if err := env.abandoned.closeDevice(old, config.StepTimeout); err != nil && !errors.Is(err, ErrDeviceAbandoned) {
				env.logger.Error("closing the failed device", "batcher", index, "error", err)
			}
		}
		d, err := (*device)(nil), env.abandoned.full()
		if err == nil {
			d, err = openDevice(config, index)
		}
		opening <- d
		env.root.Send(self, &deviceOpened{slot: index, err: err})
	}()
}

func (s *SupervisorActor) opened(c actor.Context, slot *slot, err error) {
	if s.stopping {
		return // closeDevices takes what was opened
	}
	slot.device = <-slot.opening
	slot.opening = nil
	if err != nil {
		s.openFailed(c, slot, err)
		return
	}
	s.endOutage()
	s.env.metrics(slot.index).ObserveRestart()
	s.forgetFinished()
	s.spawnBatcher(c, slot)
	s.env.logger.Warn("batcher replaced after a failure", "batcher", slot.index, "epoch", s.epoch, "waiting", len(s.waiting),
		"outage", time.Duration(s.env.clock()-slot.diedAt), "attempts", slot.attempts+1)
	s.assignWaiting(c)
}

func (s *SupervisorActor) endOutage() {
	if s.outage.expiry != nil {
		s.outage.expiry.Stop()
	}
	s.outage.running, s.outage.expired = false, false
}

func (s *SupervisorActor) assignWaiting(c actor.Context) {
	waiting := s.waiting
	s.waiting = nil
	for _, m := range waiting {
		s.await(c, m)
	}
}

// forgetFinished drops those who wait for nothing any more: they were cancelled.
func (s *SupervisorActor) forgetFinished() {
	s.waiting = slices.DeleteFunc(s.waiting, func(m *AwaitBatcher) bool { return m.live != nil && m.live.finished.Load() })
}

func (s *SupervisorActor) openFailed(c actor.Context, slot *slot, err error) {
	wait := min(firstRetry<<min(slot.attempts, 10), lastRetry)
	slot.attempts++
	cause, _ := splitStack(err)
	s.env.logger.Error("the device cannot be opened", "batcher", slot.index, "attempt", slot.attempts, "retry", wait, "error", cause)
	s.openLater(c, slot, wait)
}

func (s *SupervisorActor) openLater(c actor.Context, slot *slot, wait time.Duration) {
	root, self, m := s.env.root, c.Self(), &retryOpen{slot: slot.index, attempt: slot.attempts}
	slot.retry = s.env.after(wait, func() { root.Send(self, m) })
}

func (s *SupervisorActor) retryOpen(c actor.Context, slot *slot, attempt int) {
	if attempt == slot.attempts && slot.batcher == nil && slot.opening == nil {
		s.open(c, slot)
	}
}

// expire fails those who wait. Attempts go on: the server may heal.
func (s *SupervisorActor) expire(c actor.Context, number uint64) {
	if number != s.outage.number || !s.outage.running {
		return
	}
	s.outage.expired = true
	s.forgetFinished()
	s.env.health.Store(int32(healthUnavailable))
	s.env.logger.Error("no device within the recovery timeout: requests that wait fail",
		"timeout", s.config.RecoveryTimeout, "waiting", len(s.waiting))
	for _, m := range s.waiting {
		c.Send(m.ReplyTo, &BatcherReady{Err: s.unavailable()})
	}
	s.waiting, s.orphans = nil, 0
}

func (s *SupervisorActor) unavailable() *infer.Error {
	err := infer.Errorf(infer.CodeUnavailable, "", "No inference device has been available for %v.", s.config.RecoveryTimeout)
	err.RetryAfter = lastRetry
	return err
}

// closeDevices runs after all children are gone. It hands the rest to a
// goroutine, since closing waits: for steps in flight, for devices that are being
// opened. No stream is left to end here, unless the supervisor died of a panic.
func (s *SupervisorActor) closeDevices() {
	s.env.health.Store(int32(healthStopped))
	s.env.cluster.close()
	s.env.registry.failAll(infer.Errorf(infer.CodeInternal, "", "Internal server error"))
	slots, closed, env, limit := s.slots, s.closed, s.env, s.config.StepTimeout
	go func() {
		errs := make([]error, len(slots))
		var wg sync.WaitGroup
		for i, slot := range slots {
			wg.Go(func() {
				if slot.opening != nil {
					errs[i] = env.abandoned.closeOpening(slot.opening, limit)
				} else if slot.device != nil {
					errs[i] = env.abandoned.closeDevice(slot.device, limit)
				}
			})
		}
		wg.Wait()
		if env.abandoned.count.Load() > 0 { // now or earlier
			errs = append(errs, ErrDeviceAbandoned)
		}
		closed <- errors.Join(errs...)
	}()
}

func (s *SupervisorActor) stopTimers() {
	timers := append(s.remotes.timers(), s.outage.expiry)
	for _, slot := range s.slots {
		timers = append(timers, slot.retry)
	}
	for _, t := range timers {
		if t != nil {
			t.Stop()
		}
	}
}
