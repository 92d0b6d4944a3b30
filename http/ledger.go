package http

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

// Records of requests that are over are kept for an administrator's questions
// this long, and at most so many.
const (
	recordLife = 10 * time.Minute
	maxRecords = 10_000
)

// ledger opens an entry for every call of a generating endpoint and closes it
// exactly once, however the call ends.
type ledger struct {
	counters *metrics.Requests
	log      func(line []byte) // nil = no log
	isKept   bool              // somebody may ask

	settling sync.WaitGroup // meters whose readers have left

	mu    sync.Mutex
	live  map[string]struct{} // ids of requests in flight
	ended map[string]*record
	order []*record // those ended, oldest first
}

func newLedger(o *Options, isKept bool) *ledger {
	return &ledger{
		counters: o.Requests, log: o.RequestLog, isKept: isKept,
		live: make(map[string]struct{}), ended: make(map[string]*record),
	}
}

// isRead reports whether anybody may ever see a record.
func (l *ledger) isRead() bool { return l.isKept || l.log != nil }

// open begins an entry. The id is provisional until the body has been understood.
func (l *ledger) open(x *exchange, endpoint string) *entry {
	l.counters.ObserveReceived(x.key.label())
	return &entry{ledger: l, key: x.key, record: record{
		ID: "req-" + newID(), Object: "request", Key: x.key.label(), Endpoint: endpoint, ReceivedAt: x.start,
	}}
}

// claim reserves an id among the requests in flight: id itself, or with a suffix
// if another one has it, so that clients who choose the same do not mix.
func (l *ledger) claim(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	unique := id
	for {
		if _, taken := l.live[unique]; !taken {
			l.live[unique] = struct{}{}
			return unique
		}
		unique = id + "-" + newID()[:8]
	}
}

// close counts, logs and keeps an entry that is over.
func (l *ledger) close(e *entry) {
	l.counters.ObserveFinished(e.Key, e.FinishReason)
	r := e.record
	r.ReceivedAt = r.ReceivedAt.UTC()
	if l.log != nil {
		if line, err := json.Marshal(&r); err == nil {
			l.log(append(line, '\n'))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, e.claim)
	if l.isKept && r.Status != fasthttp.StatusUnauthorized { // strangers shall not push others out
		l.forget(time.Now(), maxRecords-1)
		l.ended[r.ID] = &r
		l.order = append(l.order, &r)
	}
}

// forget drops records that are too old, and the oldest beyond limit.
func (l *ledger) forget(now time.Time, limit int) {
	n := 0
	for n < len(l.order) && (len(l.order)-n > limit || now.Sub(l.order[n].endedAt()) > recordLife) {
		if r := l.order[n]; l.ended[r.ID] == r {
			delete(l.ended, r.ID)
		}
		l.order[n] = nil
		n++
	}
	l.order = l.order[n:]
}

func (r *record) endedAt() time.Time {
	return r.ReceivedAt.Add(time.Duration(r.E2EMs * float64(time.Millisecond)))
}

// find returns the record of a request that is over, nil if there is none (any more).
func (l *ledger) find(id string) *record {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(time.Now(), maxRecords)
	return l.ended[id]
}

// wait lets entries of readers who left be closed, for a while.
func (l *ledger) wait(limit time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.settling.Wait()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
