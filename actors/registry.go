package actors

import (
	"sync"

	"github.com/troupe-llm/troupe/infer"
)

// registry knows the streams whose Final is still to come, so that they can be
// waited for, cancelled, and never forgotten.
type registry struct {
	mu       sync.Mutex
	running  map[*stream]struct{}
	draining bool
	empty    chan struct{} // closed once draining and nothing runs
}

func newRegistry() *registry {
	return &registry{running: map[*stream]struct{}{}, empty: make(chan struct{})}
}

// enter reports false while draining.
func (r *registry) enter(s *stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.running[s] = struct{}{}
	return true
}

// leave forgets a stream; unknown ones are ignored.
func (r *registry) leave(s *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.running[s]; !ok {
		return
	}
	delete(r.running, s)
	if r.draining && len(r.running) == 0 {
		close(r.empty)
	}
}

// drain lets nobody in from now on. The channel closes when nothing runs any more.
func (r *registry) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		if len(r.running) == 0 {
			close(r.empty)
		}
	}
	return r.empty
}

func (r *registry) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

func (r *registry) streams() []*stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	streams := make([]*stream, 0, len(r.running))
	for s := range r.running {
		streams = append(streams, s)
	}
	return streams
}

// cancelAll cancels what runs now.
func (r *registry) cancelAll(reason infer.CancelReason) {
	for _, s := range r.streams() {
		s.Cancel(reason)
	}
}

// failAll ends every stream that no actor is left to end.
func (r *registry) failAll(err *infer.Error) {
	r.drain()
	for _, s := range r.streams() {
		s.finish(&infer.Final{Err: err})
		r.leave(s)
	}
}
