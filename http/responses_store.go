package http

import (
	"container/list"
	"encoding/json"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/infer"
)

// What is kept of each key's responses: at most so many, so many bytes, and for
// so long. The oldest go first, and no key can push out another's.
const (
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
}

// shelf is the responses of one key.
type shelf struct {
	byID     map[string]*list.Element
	order    *list.List // of *keptResponse, oldest first
	numBytes int
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
	return responseOverhead + len(r.id) + len(r.started) + len(r.end.body) + totalLen(r.input) + totalLen(r.end.messages)
}

// totalLen is the memory of a list, with the 24 bytes that each slice takes.
func totalLen(parts []json.RawMessage) int {
	n := 24 * len(parts)
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// add puts a response in progress on its owner's shelf; it replaces one of the same id.
func (s *responseStore) add(r *keptResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shelves == nil {
		s.shelves = make(map[*key]*shelf)
	}
	f := s.shelves[r.owner]
	if f == nil {
		f = &shelf{byID: make(map[string]*list.Element), order: list.New()}
		s.shelves[r.owner] = f
	}
	f.remove(r.id)
	f.byID[r.id] = f.order.PushBack(r)
	f.charge(r)
	f.trim(r.since)
}

// finish sets a response's end. One that was removed meanwhile is not kept.
func (s *responseStore) finish(r *keptResponse, end responseEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.end, r.started, r.cancel = end, nil, nil // cancel holds the call and its connection
	close(r.over)
	f := s.shelves[r.owner]
	if e := f.byID[r.id]; e != nil && e.Value == r {
		f.charge(r)
		f.trim(time.Now())
	}
}

// drop takes a response off its shelf, unless another one has its place; those who
// wait for its end are let go.
func (s *responseStore) drop(r *keptResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(r.over)
	f := s.shelves[r.owner]
	if e := f.byID[r.id]; e != nil && e.Value == r {
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
			if r := e.Value.(*keptResponse); r.end.body == nil {
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

// trim drops what is too old, and the oldest while there is too much.
func (f *shelf) trim(now time.Time) {
	for e := f.order.Front(); e != nil; e = f.order.Front() {
		r := e.Value.(*keptResponse)
		if f.order.Len() <= maxKeptResponses && f.numBytes <= maxKeptBytes && now.Sub(r.since) <= responseLife {
			return
		}
		f.remove(r.id)
	}
}
