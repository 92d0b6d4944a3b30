package actors

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
)

// remotes are the devices of other nodes, as the supervisor of a front keeps them.
// Each has a slot, as the local ones do, and a proxy in the place of a batcher: it
// lives as long as its session, and dies with the device, the node, or the way
// there. Sequences notice no difference.
type remotes struct {
	placer  *cluster.Placer
	slots   []*remoteSlot
	recheck timer // set while somebody waits for a device that will do; nil = it is not

	// Scratch of pickDevice, parallel.
	candidates []cluster.Candidate
	batchers   []*BatcherReady
}

// newRemotes returns nil if the engine's sequences stay on its own devices.
func newRemotes(env *environment) *remotes {
	if env.cluster == nil || !env.cluster.role.TakesRequests() {
		return nil
	}
	return &remotes{placer: cluster.NewPlacer(env.cluster.node.Self().Incarnation)}
}

// remoteKey names a device of a process.
type remoteKey struct {
	incarnation uint64
	device      int
}

// remoteSlot is the place of one proxy, through all its lives.
type remoteSlot struct {
	key      remoteKey
	member   cluster.Member
	proxy    *actor.PID    // nil = none lives
	batcher  *BatcherReady // nil = no session
	view     *remoteView
	attempts int // to open a session since the last one
	retry    timer
	gone     bool // the node is no member any more
}

// remoteView is what others see of a slot while its proxy writes to it.
type remoteView struct {
	key         remoteKey
	epoch       atomic.Uint64 // of the latest proxy
	maxNumSeqs  atomic.Int64  // of the session; 0 = there is none
	numBlocks   atomic.Int64
	blockSize   atomic.Int64
	maxModelLen atomic.Int64
	draining    atomic.Bool
	sample      atomic.Pointer[sample] // nil = none yet
	own         atomic.Pointer[seat]   // this front's share; nil = no session
}

// sample is what a worker said of a device.
type sample struct {
	load      cluster.Load
	own       cluster.Placed // this front's share of the load
	prefixes  *cluster.Digest
	arrivedAt int64
}

// membersChanged reports the other nodes. Sender: the search for members.
type membersChanged struct{ members []cluster.Member }

// remoteOpened and remoteDraining tell of a session. Sender: its proxy.
type (
	remoteOpened   struct{ epoch uint64 }
	remoteDraining struct{ epoch uint64 }
)

// retryRemote and recheckWaiting are sent by timers.
type (
	retryRemote    struct{ key remoteKey }
	recheckWaiting struct{}
)

const (
	firstReconnect = 50 * time.Millisecond // wait after a session has ended; doubles
	lastReconnect  = 2 * time.Second
	// recheckInterval is how soon a sequence is offered to devices again of which none
	// would do: one may be too short for it, draining, or not have been heard of lately.
	recheckInterval = 250 * time.Millisecond
)

// membersChanged opens sessions on devices that are new, and none any more on those
// of nodes that are gone. Sessions that there are last as long as they last: that a
// node is not found says less than that it answers.
func (s *SupervisorActor) membersChanged(c actor.Context, members []cluster.Member) {
	if s.stopping || s.remotes == nil {
		return
	}
	numFronts := 1
	for _, slot := range s.remotes.slots {
		slot.gone = true
	}
	for _, m := range members {
		if m.Role.TakesRequests() {
			numFronts++
		}
		if !m.Role.HasDevices() || m.Model != s.env.cluster.model {
			continue
		}
		for device := range m.NumDevices {
			s.known(c, m, device)
		}
	}
	s.remotes.placer.NumFronts = numFronts
	s.forgetGone()
}

// known notes a device of a member, and opens a session on one that is new.
func (s *SupervisorActor) known(c actor.Context, m cluster.Member, device int) {
	key := remoteKey{incarnation: m.Incarnation, device: device}
	slot := s.remotes.find(func(slot *remoteSlot) bool { return slot.key == key })
	if slot != nil {
		slot.member, slot.gone = m, false
		slot.view.draining.Store(m.Draining)
		return
	}
	slot = &remoteSlot{key: key, member: m, view: &remoteView{key: key}}
	slot.view.draining.Store(m.Draining)
	s.remotes.slots = append(s.remotes.slots, slot)
	if !m.Draining {
		s.connect(c, slot)
	}
}

// forgetGone drops the slots of nodes that are gone and have no session.
func (s *SupervisorActor) forgetGone() {
	s.remotes.slots = slices.DeleteFunc(s.remotes.slots, func(slot *remoteSlot) bool {
		forget := slot.gone && slot.proxy == nil
		if forget && slot.retry != nil {
			slot.retry.Stop()
		}
		return forget
	})
	views := make([]*remoteView, len(s.remotes.slots))
	for i, slot := range s.remotes.slots {
		views[i] = slot.view
	}
	s.env.cluster.views.Store(&views)
}

func (r *remotes) find(is func(*remoteSlot) bool) *remoteSlot {
	if i := slices.IndexFunc(r.slots, is); i >= 0 {
		return r.slots[i]
	}
	return nil
}

// connect spawns a proxy, which opens a session or dies.
func (s *SupervisorActor) connect(c actor.Context, slot *remoteSlot) {
	s.epoch++
	proxy := &ProxyActor{env: s.env, member: slot.member, device: slot.key.device, epoch: s.epoch, view: slot.view}
	slot.batcher = nil
	slot.view.epoch.Store(s.epoch)
	slot.view.sample.Store(nil)
	slot.proxy = c.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return proxy }), "proxy")
}

// remoteOpened takes a device into use.
func (s *SupervisorActor) remoteOpened(c actor.Context, m *remoteOpened) {
	slot := s.byEpoch(m.epoch)
	if s.stopping || slot == nil {
		return
	}
	own := new(seat)
	slot.view.own.Store(own)
	slot.batcher = &BatcherReady{PID: slot.proxy, Epoch: m.epoch, metrics: s.env.metrics(0), seat: own}
	slot.attempts = 0
	s.env.admission.remoteSeats.Add(slot.view.maxNumSeqs.Load())
	s.env.admission.living.Add(1)
	s.env.health.Store(int32(healthServing))
	s.endOutage()
	s.env.logger.Info("a device of another node serves", "node", slot.member.Address, "device", slot.key.device, "epoch", m.epoch)
	s.forgetFinished()
	s.assignWaiting(c)
}

// byEpoch returns the slot whose proxy has sent the message, nil if it is dead.
func (s *SupervisorActor) byEpoch(epoch uint64) *remoteSlot {
	if s.remotes == nil {
		return nil
	}
	return s.remotes.find(func(slot *remoteSlot) bool {
		return slot.proxy != nil && slot.view.epoch.Load() == epoch
	})
}

// remoteDraining sends a device nothing more, and takes back what it has if there is
// another one to go to. If there is none, its node may give it the time to finish.
func (s *SupervisorActor) remoteDraining(c actor.Context, m *remoteDraining) {
	slot := s.byEpoch(m.epoch)
	if slot == nil {
		return
	}
	slot.view.draining.Store(true)
	if s.anyServing() {
		s.env.logger.Info("a node shuts down: its sequences go elsewhere", "node", slot.member.Address, "device", slot.key.device)
		c.Stop(slot.proxy)
	}
}

// anyServing reports whether a device takes sequences.
func (s *SupervisorActor) anyServing() bool {
	for _, slot := range s.slots {
		if slot.batcher != nil {
			return true
		}
	}
	return s.remotes.find(func(slot *remoteSlot) bool { return slot.batcher != nil && !slot.view.draining.Load() }) != nil
}

// remoteTerminated reports whether it was a proxy that died. It is replaced as long
// as the node is a member.
func (s *SupervisorActor) remoteTerminated(c actor.Context, who *actor.PID) bool {
	if s.stopping || s.remotes == nil {
		return false
	}
	slot := s.remotes.find(func(slot *remoteSlot) bool { return slot.proxy != nil && who.Equal(slot.proxy) })
	if slot == nil {
		return false
	}
	served := slot.batcher != nil
	slot.proxy, slot.batcher = nil, nil
	slot.view.own.Store(nil)
	if served {
		s.env.admission.remoteSeats.Add(-slot.view.maxNumSeqs.Load())
		if s.env.admission.living.Add(-1) == 0 {
			s.startOutage(c)
		}
	}
	slot.view.maxNumSeqs.Store(0)
	if slot.gone || slot.member.Draining {
		s.forgetGone()
		return true
	}
	wait := min(firstReconnect<<min(slot.attempts, 10), lastReconnect)
	slot.attempts++
	root, self, key := s.env.root, c.Self(), slot.key
	slot.retry = s.env.after(wait, func() { root.Send(self, &retryRemote{key: key}) })
	return true
}

func (s *SupervisorActor) retryRemote(c actor.Context, key remoteKey) {
	slot := s.remotes.find(func(slot *remoteSlot) bool { return slot.key == key })
	switch {
	case s.stopping || slot == nil || slot.proxy != nil:
	case slot.gone || slot.member.Draining:
		s.forgetGone()
	default:
		s.connect(c, slot)
	}
}

// pickDevice chooses a device anywhere; nil = none will do.
func (s *SupervisorActor) pickDevice(except uint64, d *cluster.Demand) *BatcherReady {
	r := s.remotes
	r.candidates, r.batchers = r.candidates[:0], r.batchers[:0]
	for _, slot := range s.slots {
		if b := slot.batcher; b != nil && b.Epoch != except {
			r.candidates, r.batchers = append(r.candidates, s.localCandidate(b)), append(r.batchers, b)
		}
	}
	for _, slot := range r.slots {
		if b := slot.batcher; b != nil && b.Epoch != except {
			r.candidates, r.batchers = append(r.candidates, slot.candidate()), append(r.batchers, b)
		}
	}
	i := r.placer.Pick(d, r.candidates, s.env.clock())
	if i < 0 {
		return nil
	}
	b := r.batchers[i]
	if b.device != nil {
		b.device.prefixes.add(d.Prefixes)
	}
	return b
}

// recheckSoon has those who wait looked at again, for devices of other nodes may come
// to do without anything being reported.
func (s *SupervisorActor) recheckSoon(c actor.Context, m *AwaitBatcher) {
	if s.remotes == nil {
		return
	}
	if m.since == 0 {
		m.since = s.env.clock()
	}
	if s.remotes.recheck == nil {
		root, self := s.env.root, c.Self()
		s.remotes.recheck = s.env.after(recheckInterval, func() { root.Send(self, &recheckWaiting{}) })
	}
}

// recheckWaiting offers those who wait to the devices. Past Config.RecoveryTimeout
// they fail, even though some device lives.
func (s *SupervisorActor) recheckWaiting(c actor.Context) {
	s.remotes.recheck = nil
	if s.stopping {
		return
	}
	s.forgetFinished()
	now, waiting := s.env.clock(), s.waiting
	s.waiting = nil
	for _, m := range waiting {
		if now-m.since > int64(s.config.RecoveryTimeout) {
			c.Send(m.ReplyTo, &BatcherReady{Err: s.unavailable()})
			continue
		}
		s.await(c, m)
	}
}

func (s *SupervisorActor) localCandidate(b *BatcherReady) cluster.Candidate {
	return cluster.Candidate{
		Model: s.env.cluster.model, Serving: true, Local: true, MaxNumSeqs: s.config.Scheduler.MaxNumSeqs, BlockSize: b.device.spec.BlockSize,
		Load: cluster.Load{
			NumSequences: int(b.seat.sequences.Load()), NumQueuedTokens: int(b.seat.tokens.Load()), NumFreeBlocks: int(b.device.freeBlocks.Load()),
		},
		Prefixes: b.device.prefixes.latest(),
	}
}

// candidate describes a device that has a session.
func (slot *remoteSlot) candidate() cluster.Candidate {
	v := slot.view
	c := cluster.Candidate{
		Model: slot.member.Model, MaxNumSeqs: int(v.maxNumSeqs.Load()), BlockSize: int(v.blockSize.Load()), MaxModelLen: int(v.maxModelLen.Load()),
	}
	sample := v.sample.Load()
	if sample == nil || v.draining.Load() {
		return c
	}
	c.Serving, c.Load, c.SampledAt, c.Prefixes = true, sample.load, sample.arrivedAt, sample.prefixes
	c.Placed = cluster.Placed{
		NumSequences: int(slot.batcher.seat.sequences.Load()) - sample.own.NumSequences,
		NumTokens:    int(slot.batcher.seat.tokens.Load()) - sample.own.NumTokens,
	}
	return c
}

// info shows the device to people.
func (v *remoteView) info(now int64) infer.DeviceInfo {
	d := infer.DeviceInfo{Index: v.key.device, State: infer.DeviceConnecting, NumBlocks: int(v.numBlocks.Load())}
	own, sample := v.own.Load(), v.sample.Load()
	if own == nil || sample == nil {
		return d
	}
	d.State = infer.DeviceServing
	if v.draining.Load() {
		d.State = infer.DeviceDraining
	}
	d.NumSequences, d.NumQueuedTokens, d.NumFreeBlocks = sample.load.NumSequences, sample.load.NumQueuedTokens, sample.load.NumFreeBlocks
	d.NumOwnSequences, d.SampleAge = int(own.sequences.Load()), sampleAge(now, sample.arrivedAt)
	return d
}

// timers returns those that are set.
func (r *remotes) timers() (timers []timer) {
	if r == nil {
		return nil
	}
	if r.recheck != nil {
		timers = append(timers, r.recheck)
	}
	for _, slot := range r.slots {
		if slot.retry != nil {
			timers = append(timers, slot.retry)
		}
	}
	return timers
}
