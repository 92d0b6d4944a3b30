package actors

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// admission decides at the door whether the queue has room. It is the only bound
// in front of the actors, whose mailboxes have none.
//
// Each admitted sequence has a place. Places move from queued to running to gone;
// the batcher and the sequences report the moves with atomics, so that nobody
// who counts tokens ever waits for somebody who asks to come in.
type admission struct {
	maxReqs, maxTokens int // 0 = no bound
	maxRunning         int // sequences that run at a time: scheduler.Config.MaxNumSeqs of all batchers
	clock              func() int64

	remoteSeats atomic.Int64 // the same of batchers of other nodes

	door         sync.Mutex   // serialises admit; check and booking are one act
	live         atomic.Int64 // places not gone
	queued       atomic.Int64 // places that were never selected for a step
	queuedTokens atomic.Int64 // prompt tokens of those
	living       atomic.Int64 // batchers that live
	// blocked counts those whose scheduler's last pass left sequences waiting, so
	// that a free slot means nothing (the KV cache is full, say).
	blocked atomic.Int64
	pace    pace
}

// place is one admitted sequence's share of the counts.
type place struct {
	admission *admission
	numTokens int64
	left, out atomic.Bool // made leaveQueue and release happen once each
	// at is the seat of the batcher that the sequence is assigned to, queuedAt the same
	// until it has left the queue; nil = none.
	at, queuedAt atomic.Pointer[seat]
}

// seat counts what is assigned to a batcher.
type seat struct {
	sequences atomic.Int64
	tokens    atomic.Int64 // of prompts of those that were never selected for a step
}

// admit books places for prompts of the given token counts, all or none.
// The error is CodeOverloaded with a RetryAfter.
func (a *admission) admit(numTokens []int) ([]*place, *infer.Error, string) {
	a.door.Lock()
	defer a.door.Unlock()
	total := 0
	for _, n := range numTokens {
		total += n
	}
	if err, reason := a.refuse(total); err != nil {
		return nil, err, reason
	}
	places := make([]*place, len(numTokens))
	backing := make([]place, len(numTokens))
	for i, n := range numTokens {
		places[i] = &backing[i]
		places[i].admission, places[i].numTokens = a, int64(n)
	}
	a.live.Add(int64(len(numTokens)))
	a.queued.Add(int64(len(numTokens)))
	a.queuedTokens.Add(int64(total))
	return places, nil, ""
}

// enter books the place of a sequence that another node has admitted.
func (a *admission) enter(numTokens int) *place {
	a.live.Add(1)
	a.queued.Add(1)
	a.queuedTokens.Add(int64(numTokens))
	return &place{admission: a, numTokens: int64(numTokens)}
}

// seats is how many sequences run at a time.
func (a *admission) seats() int { return a.maxRunning + int(a.remoteSeats.Load()) }

// refuse says why a request of total prompt tokens may not queue, with the
// reason's label value; nil = it may. A request that will run at once is never
// refused: limits are about waiting.
func (a *admission) refuse(total int) (*infer.Error, string) {
	waiting := a.waiting()
	free := !a.isBlocked() && int(a.live.Load()) < a.seats()
	switch {
	case free:
		return nil, ""
	case a.maxReqs > 0 && waiting >= a.maxReqs:
		return a.overloaded("%d requests are waiting and the limit is %d (--max-num-queued-reqs)", waiting, a.maxReqs), metrics.RejectMaxQueuedReqs
	case a.maxTokens > 0 && int(a.queuedTokens.Load())+total > a.maxTokens:
		return a.overloaded("the prompt's %d tokens and those that wait exceed the limit of %d (--max-num-queued-tokens)", total, a.maxTokens), metrics.RejectMaxQueuedTokens
	default:
		return nil, ""
	}
}

func (a *admission) overloaded(format string, value, limit int) *infer.Error {
	err := infer.Errorf(infer.CodeOverloaded, "", "The server is overloaded: "+format+". Retry later.", value, limit)
	err.RetryAfter = a.pace.until(a.waiting()+1, a.clock())
	return err
}

// waiting counts the sequences that no slot is free for. In the moment between a
// burst's arrival and the next step all of it is queued, but as many as there
// are free slots are not waiting.
func (a *admission) waiting() int {
	beyond := int(a.live.Load()) - a.seats()
	if a.isBlocked() {
		return max(beyond, int(a.queued.Load()))
	}
	return max(beyond, 0)
}

// isBlocked reports whether no batcher that lives can take another sequence now.
func (a *admission) isBlocked() bool {
	n := a.blocked.Load()
	return n > 0 && n >= a.living.Load()
}

// leaveQueue reports that the sequence was selected for its first step, or will
// never be. Only the first call counts.
func (p *place) leaveQueue() {
	if !p.left.CompareAndSwap(false, true) {
		return
	}
	p.admission.queued.Add(-1)
	p.admission.queuedTokens.Add(-p.numTokens)
	p.leaveQueueAt()
	p.admission.pace.departure(p.admission.clock())
}

// release reports that the sequence has ended. Only the first call counts.
func (p *place) release() {
	p.leaveQueue()
	if p.out.CompareAndSwap(false, true) {
		p.admission.live.Add(-1)
	}
	p.unseat()
}

// seat counts the sequence at a batcher, and no longer at the one before. It may
// have ended, or left the queue, meanwhile.
func (p *place) seat(at *seat) {
	if p == nil {
		return
	}
	at.sequences.Add(1)
	if before := p.at.Swap(at); before != nil {
		before.sequences.Add(-1)
	}
	at.tokens.Add(p.numTokens)
	if before := p.queuedAt.Swap(at); before != nil {
		before.tokens.Add(-p.numTokens)
	}
	if p.left.Load() {
		p.leaveQueueAt()
	}
	if p.out.Load() {
		p.unseat()
	}
}

// unseat counts the sequence at no batcher.
func (p *place) unseat() {
	if at := p.at.Swap(nil); at != nil {
		at.sequences.Add(-1)
	}
	p.leaveQueueAt()
}

func (p *place) leaveQueueAt() {
	if at := p.queuedAt.Swap(nil); at != nil {
		at.tokens.Add(-p.numTokens)
	}
}

// pace measures how fast the queue moves: a moving average of the time between
// two departures. It is a hint for Retry-After, so a lost update between two
// writers does no harm.
type pace struct {
	last     atomic.Int64 // instant of the latest departure, 0 = none yet
	interval atomic.Int64 // average nanoseconds between departures
}

const (
	paceWeight    = 8 // a departure counts one eighth in the average
	minRetryAfter = time.Second
	maxRetryAfter = 2 * time.Minute
)

func (p *pace) departure(now int64) {
	last := p.last.Swap(now)
	if last == 0 || now < last {
		return
	}
	average := p.interval.Load()
	if average == 0 {
		p.interval.Store(now - last)
		return
	}
	p.interval.Store(average + (now-last-average)/paceWeight)
}

// until estimates when numDepartures more will have happened, in whole seconds
// and at least one, as Retry-After has it.
func (p *pace) until(numDepartures int, now int64) time.Duration {
	average := p.interval.Load()
	if last := p.last.Load(); last != 0 && now-last > average {
		average = now - last // the queue stands still: the last gap is the better guess
	}
	wait := time.Duration(min(float64(average)*float64(numDepartures), float64(math.MaxInt64/2)))
	seconds := (wait + time.Second - 1) / time.Second
	return min(max(seconds*time.Second, minRetryAfter), maxRetryAfter)
}
