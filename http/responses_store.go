package http

import (
	"container/list"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// What is kept of each key's responses: at most so many, so many bytes, and for
// so long. The oldest that are over go first, and no key can push out another's.
// Those in progress stay, and new ones have to wait.
const (
	maxRunningResponses    = 256 // in progress, of one key
	maxAllRunningResponses = 1024
	maxAllRunningBytes     = 4 * maxKeptBytes

	maxKeptResponses = 1024
	maxKeptBytes     = 64 << 20
	responseLife     = 24 * time.Hour
	responseOverhead = 512 // bytes that an empty one takes, about
)

// responseStore keeps responses in memory for clients that come back to them.
// Each key sees its own only.
type responseStore struct {
	isOn bool // else nothing is ever added

	mu      sync.Mutex
	shelves map[*key]*shelf // nil key = clients without one
	running running         // of all keys
}

// running is what responses in progress take, also those that were removed.
type running struct{ num, numBytes int }

func (n *running) add(num, numBytes int) {
	n.num += num
	n.numBytes += numBytes
}

// shelf is the responses of one key.
type shelf struct {
	byID     map[string]*list.Element
	order    *list.List // of *keptResponse, oldest first
	numBytes int
	running  running
}

// keptResponse is a response in the store, in progress until end is set. What its
// fields point to never changes, so that a copy can be read without the lock.
type keptResponse struct {
	id    string
	owner *key
	since time.Time
	input []json.RawMessage // items, each with an id
	over  chan struct{}     // closed when end is set, or never will be

	isBackground bool // its client does not wait for it

	// Guarded by the store's lock:
	started  []byte                   // the object as it was at the start; nil when it is over
	cancel   func(infer.CancelReason) // nil when it is over
	end      responseEnd
	numBytes int // that it is charged with
	working  int // bytes that it needs while it is in progress: its conversation, and the output so far
}

// responseEnd is what remains of a response that is over.
type responseEnd struct {
	body     []byte
	messages []json.RawMessage // the conversation with the output; nil = it was not completed
}

func (r *keptResponse) body() []byte {
	if r.end.body != nil {
		return r.end.body
	}
	return r.started
}

func (r *keptResponse) size() int {
	return responseOverhead + len(r.id) + len(r.started) + len(r.end.body) + totalLen(r.input) + totalLen(r.end.messages) + r.working
}

func (r *keptResponse) isOver() bool { return r.end.body != nil }

// totalLen is the memory of a list, with the 24 bytes that each slice takes.
func totalLen(parts []json.RawMessage) int {
	n := 24 * len(parts)
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// add puts a response in progress on its owner's shelf; it replaces one of the same
// id, unless nobody would see the end of that one. The error says that there is no room.
func (s *responseStore) add(r *keptResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.shelves {
		f.trim(r.since)
	}
	if s.shelves == nil {
		s.shelves = make(map[*key]*shelf)
	}
	f := s.shelves[r.owner]
	if f == nil {
		f = &shelf{byID: make(map[string]*list.Element), order: list.New()}
		s.shelves[r.owner] = f
	}
	if e := f.byID[r.id]; e != nil {
		if old := e.Value.(*keptResponse); old.isBackground && !old.isOver() {
			return infer.Errorf(infer.CodeInvalid, "background", "Response with id '%s' is in progress: send another X-Request-Id", r.id[:min(len(r.id), maxIDShown)])
		}
	}
	if err := s.room(f, 1, r.size()); err != nil {
		return err
	}
	f.remove(r.id)
	f.byID[r.id] = f.order.PushBack(r)
	f.charge(r)
	s.running.add(1, r.numBytes)
	f.running.add(1, r.numBytes)
	f.trim(r.since)
	return nil
}

// room checks that num more responses and so many bytes may be in progress.
func (s *responseStore) room(f *shelf, num, numBytes int) error {
	refuse := func(code infer.Code, what string, limit int) error {
		return &infer.Error{Code: code, Param: "background", RetryAfter: time.Second,
			Message: fmt.Sprintf("Too many responses are in progress: the limit is %d %s. Retry when some are over.", limit, what)}
	}
	switch {
	case f.running.num+num > maxRunningResponses:
		return refuse(infer.CodeRateLimited, "per key", maxRunningResponses)
	case f.running.numBytes+numBytes > maxKeptBytes:
		return refuse(infer.CodeRateLimited, "bytes per key", maxKeptBytes)
	case s.running.num+num > maxAllRunningResponses:
		return refuse(infer.CodeOverloaded, "in all", maxAllRunningResponses)
	case s.running.numBytes+numBytes > maxAllRunningBytes:
		return refuse(infer.CodeOverloaded, "bytes in all", maxAllRunningBytes)
	}
	return nil
}

// grow charges a response in progress with numBytes more, and reports whether there
// was room.
func (s *responseStore) grow(r *keptResponse, numBytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.shelves[r.owner]
	if s.room(f, 0, numBytes) != nil {
		return false
	}
	r.working += numBytes
	r.numBytes += numBytes
	s.running.add(0, numBytes)
	f.running.add(0, numBytes)
	if f.has(r) {
		f.numBytes += numBytes
		f.trim(time.Now())
	}
	return true
}

// finish sets a response's end. One that was removed meanwhile is not kept.
func (s *responseStore) finish(r *keptResponse, end responseEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.ended(r)
	r.end, r.started, r.cancel, r.working = end, nil, nil, 0 // cancel holds the call and its connection
	if f.has(r) {
		f.charge(r)
		f.trim(time.Now())
	}
}

// ended notes that a response is no longer in progress.
func (s *responseStore) ended(r *keptResponse) *shelf {
	close(r.over)
	f := s.shelves[r.owner]
	s.running.add(-1, -r.numBytes)
	f.running.add(-1, -r.numBytes)
	return f
}

// drop takes a response off its shelf, unless another one has its place; those who
// wait for its end are let go.
func (s *responseStore) drop(r *keptResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.ended(r); f.has(r) {
		f.remove(r.id)
	}
}

// find returns a copy of a key's response.
func (s *responseStore) find(k *key, id string, now time.Time) (keptResponse, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.shelves[k]
	if f == nil {
		return keptResponse{}, false
	}
	f.trim(now)
	e := f.byID[id]
	if e == nil {
		return keptResponse{}, false
	}
	return *e.Value.(*keptResponse), true
}

// remove takes a response off its owner's shelf.
func (s *responseStore) remove(k *key, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.shelves[k]; f != nil {
		f.remove(id)
	}
}

// cancelAll ends every response in progress.
func (s *responseStore) cancelAll(reason infer.CancelReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.shelves {
		for e := f.order.Front(); e != nil; e = e.Next() {
			if r := e.Value.(*keptResponse); !r.isOver() {
				r.cancel(reason)
			}
		}
	}
}

// charge brings the shelf's account up to what r takes.
func (f *shelf) charge(r *keptResponse) {
	f.numBytes -= r.numBytes
	r.numBytes = r.size()
	f.numBytes += r.numBytes
}

func (f *shelf) remove(id string) {
	e := f.byID[id]
	if e == nil {
		return
	}
	delete(f.byID, id)
	f.numBytes -= f.order.Remove(e).(*keptResponse).numBytes
}

// has reports whether r itself is on the shelf.
func (f *shelf) has(r *keptResponse) bool {
	e := f.byID[r.id]
	return e != nil && e.Value == r
}

// trim drops what is too old, and the oldest while there is too much; what is in
// progress stays.
func (f *shelf) trim(now time.Time) {
	for e := f.order.Front(); e != nil; {
		r := e.Value.(*keptResponse)
		if f.order.Len() <= maxKeptResponses && f.numBytes <= maxKeptBytes && now.Sub(r.since) <= responseLife {
			return
		}
		e = e.Next()
		if r.isOver() {
			f.remove(r.id)
		}
	}
}
