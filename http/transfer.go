package http

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
)

const (
	firstBodyBuffer = 16 << 10
	// freeBody is what every body may have without asking: a connection costs about
	// as much anyway, and so nobody can keep others from sending usual requests.
	freeBody = 64 << 10
	// minBodyRate is the bytes per second that a body must keep up in either
	// direction, so that nobody can hold a connection for ever.
	minBodyRate = 16 << 10
	// A server holds at most this many times its body limit in unparsed bodies.
	bodyBudgetFactor = 4
	// A body may be cut off for others once this share of ReadTimeout has passed
	// without the bytes that are due in the whole of it.
	evictShare = 32
)

// budget is memory that may be taken, in bytes.
type budget struct{ left atomic.Int64 }

func (b *budget) take(n int) bool {
	if b.left.Add(-int64(n)) >= 0 {
		return true
	}
	b.left.Add(int64(n))
	return false
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

// transfer is a body on its way in: the memory that it has taken and the pace at
// which it arrives. One goroutine has it, but for what transfers does under its lock.
type transfer struct {
	conn   net.Conn
	budget *budget
	set    *transfers
	window time.Duration // in which minBodyRate has to be kept
	held   int           // bytes taken from budget

	since   atomic.Int64 // when the present window began: infer.Now, 0 = none yet
	got     atomic.Int64 // bytes that came in it
	evicted atomic.Bool
	done    chan struct{} // closed by release; nil before the transfer is one of set
}

// transfers are the bodies that arrive and have taken memory.
type transfers struct {
	mu     sync.Mutex
	active map[*transfer]struct{}
}

// newTransfer begins a transfer. Where clients need a key, those without one
// share a small budget of their own.
func (s *Server) newTransfer(conn net.Conn, x *exchange) *transfer {
	t := &transfer{conn: conn, budget: &s.bodies, set: &s.transfers, window: s.opts.ReadTimeout}
	if !s.keys.isOpen && x.key == nil {
		t.budget = &s.strangers
	}
	return t
}

var errEvicted = errors.New("cut off for others")

// progress notes n more bytes. Each window has to bring its share of bytes: what
// came fast before it gives no credit.
func (t *transfer) progress(n int) error {
	now := infer.Now()
	due := int64(t.window.Seconds() * minBodyRate)
	if got := t.got.Add(int64(n)); got < due && t.since.Load() != 0 {
		return nil
	}
	t.got.Store(0)
	t.since.Store(now)
	if err := t.conn.SetReadDeadline(time.Now().Add(t.window)); err != nil {
		return err
	}
	if t.evicted.Load() { // whoever set it may have had its deadline replaced by ours
		return errEvicted
	}
	return nil
}

// grow returns body with twice the capacity, at most size (but at least one
// byte more, for the read that finds the end).
func (t *transfer) grow(body []byte, size int) ([]byte, error) {
	next := max(min(max(2*cap(body), firstBodyBuffer), size), len(body)+1)
	if next > freeBody {
		if err := t.take(next); err != nil {
			return nil, err
		}
	}
	grown := make([]byte, len(body), next)
	copy(grown, body)
	return grown, nil
}

// take charges n bytes in place of what is held, if need be in place of slow
// others. Who waits here cannot be evicted, so nobody waits for one another.
func (t *transfer) take(n int) error {
	if t.leave() {
		return evictedError()
	}
	for !t.budget.take(n) {
		slow := t.set.evict(t.budget)
		if slow == nil {
			return &infer.Error{
				Code:       infer.CodeOverloaded,
				Message:    "The server holds too many unread request bodies",
				RetryAfter: time.Second,
			}
		}
		<-slow.done
	}
	t.budget.give(t.held)
	t.held = n
	t.set.add(t)
	return nil
}

func (s *transfers) add(t *transfer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.done == nil {
		t.done = make(chan struct{})
	}
	s.active[t] = struct{}{}
}

// evict cuts off the slowest body that has been behind for a moment and holds
// memory of b. It returns nil if there is none.
func (s *transfers) evict(b *budget) *transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var slowest *transfer
	var least float64
	now := infer.Now()
	for t := range s.active {
		age := now - t.since.Load()
		if t.budget != b || time.Duration(age) < t.window/evictShare {
			continue
		}
		if rate := float64(t.got.Load()) / float64(age); slowest == nil || rate < least {
			slowest, least = t, rate
		}
	}
	if slowest != nil {
		delete(s.active, slowest)
		slowest.evicted.Store(true)
		_ = slowest.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the read
	}
	return slowest
}

// leave ends the time in which the transfer may be evicted and reports whether it was.
func (t *transfer) leave() (evicted bool) {
	if t.done == nil {
		return false
	}
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	delete(t.set.active, t)
	return t.evicted.Load()
}

// arrived ends the transfer of a whole body.
func (t *transfer) arrived(ctx *fasthttp.RequestCtx) error {
	if t.leave() {
		return t.failed(ctx, errEvicted)
	}
	return nil
}

// release gives back what was taken.
func (t *transfer) release() {
	if t.held == 0 {
		return
	}
	t.leave()
	t.budget.give(t.held)
	t.held = 0
	close(t.done)
}

// failed says why a body did not arrive. The connection is at an unknown place
// in it and is closed.
func (t *transfer) failed(ctx *fasthttp.RequestCtx, err error) error {
	ctx.SetConnectionClose()
	var timeout interface{ Timeout() bool }
	switch {
	case t.evicted.Load():
		return evictedError()
	case errors.As(err, &timeout) && timeout.Timeout():
		return &statusError{fiber.StatusRequestTimeout, "The request body did not arrive in time"}
	}
	return infer.Errorf(infer.CodeMalformed, "", "The request body could not be read to its end")
}

func evictedError() error {
	return &statusError{fiber.StatusRequestTimeout, "The request body arrived too slowly: it was cut off because the server ran out of memory for bodies"}
}
