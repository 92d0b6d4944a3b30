package http

import (
	"context"
	"net"
	"sync"

	"github.com/troupe-llm/troupe/infer"
)

// call is one use of the generator: from the moment its body has been read to
// the end of its answer. It joins those who may end it early (the watcher, a
// failed write, Shutdown) with the stream, which may not exist yet.
type call struct {
	generates bool               // counts as load
	gone      chan struct{}      // closed when the client has left
	admission context.CancelFunc // ends Generate
	stop      func()             // ends the watch
	meter     *meter             // nil until admitted

	mu     sync.Mutex
	stream infer.Stream       // nil until admitted
	reason infer.CancelReason // "" until cancelled
}

// cancel asks for the end of the generation; only the first reason counts.
func (c *call) cancel(reason infer.CancelReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != "" {
		return
	}
	c.reason = reason
	c.admission()
	if c.stream != nil {
		c.stream.Cancel(reason)
	}
	if reason == infer.CancelClientGone {
		close(c.gone)
	}
}

// attach hands the admitted stream over; a call cancelled meanwhile passes that on.
func (c *call) attach(s infer.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = s
	if c.reason != "" {
		s.Cancel(c.reason)
	}
}

// hasGone reports whether the client has left.
func (c *call) hasGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// callSet is the calls in flight.
type callSet struct {
	mu    sync.Mutex
	calls map[*call]struct{}
}

func (s *callSet) add(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[c] = struct{}{}
}

func (s *callSet) remove(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c)
}

// load returns the number of generations in flight.
func (s *callSet) load() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	load := 0
	for c := range s.calls {
		if c.generates {
			load++
		}
	}
	return load
}

// cancelAll reports whether there was any.
func (s *callSet) cancelAll(reason infer.CancelReason) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.calls {
		c.cancel(reason)
	}
	return len(s.calls) > 0
}

// begin registers a call and starts the watch over its client. end must be
// called when the answer is over.
func (s *Server) begin(conn net.Conn, generates bool) (*call, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &call{generates: generates, gone: make(chan struct{}), admission: cancel}
	s.calls.add(x)
	x.stop = s.watcher.watch(conn, func() { x.cancel(infer.CancelClientGone) })
	return x, ctx
}

func (s *Server) end(x *call) {
	x.stop()
	x.admission()
	s.calls.remove(x)
	if x.meter != nil {
		x.meter.settle()
	}
}
