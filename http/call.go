package http

import (
	"context"
	"net"
	"sync"

	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
)

// call is one use of the generator: from the moment its body has been read to
// the end of its answer. It joins those who may end it early (the watcher, a
// failed write, Shutdown) with the stream, which may not exist yet.
type call struct {
	generates bool               // counts as load
	conn      net.Conn           // the client's
	probing   probing            // how to tell a client that is done talking from one that has gone
	gone      chan struct{}      // closed when the client has left
	news      chan struct{}      // holds a value when gone is closed, or a sign of life is due
	ctx       context.Context    // ends when the call is cancelled
	admission context.CancelFunc // ends ctx
	stop      func()             // ends the watch
	meter     *meter             // nil until admitted

	mu          sync.Mutex
	stream      infer.Stream       // nil until admitted
	reason      infer.CancelReason // "" until cancelled
	isHalf      bool               // the client has closed its sending half
	isAnswering bool               // nothing may be put before the answer any more
	isUnary     bool               // the answer will be in one piece
}

// probing is what is done when a client has closed its sending half: it has gone,
// or it waits for its answer and has nothing more to say. TCP tells which once
// something is sent: who has gone answers with a reset.
type probing uint8

const (
	probeNothing probing = iota // the connection tells both apart by itself, or no probe is known
	probeInterim                // a 100 Continue, until the answer begins; HTTP/1.1 has clients skip it
	// HTTP/1.0 has nothing that could go before an answer. An event stream is probed
	// once it has begun; of an answer in one piece the client is taken to have gone:
	// so leave proxies that speak HTTP/1.0, and they close no half.
	probeStream
	probeNever // it is taken to have gone: TLS has no halves
)

func probingOf(ctx *fasthttp.RequestCtx) probing {
	_, isTCP := underTLS(ctx.Conn()).LocalAddr().(*net.TCPAddr)
	switch {
	case ctx.IsTLS():
		return probeNever
	case !isTCP:
		return probeNothing
	case ctx.Request.Header.IsHTTP11():
		return probeInterim
	}
	return probeStream
}

var interim = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// halfClosed is called when the client has closed its sending half. It does not block.
func (c *call) halfClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isHalf = true
	switch {
	case c.probing == probeNever || c.probing == probeStream && c.isUnary:
		c.cancelLocked(infer.CancelClientGone)
	case c.isAnswering: // an event stream writes a comment, and sees what comes of it
		c.tell()
	case c.probing == probeInterim:
		writeNow(c.conn, interim)
	}
}

// tell wakes the reader of news.
func (c *call) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// answers notes that the answer begins.
func (c *call) answers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isAnswering = true
	if c.isHalf {
		c.tell()
	}
}

// unary notes that the answer will be in one piece.
func (c *call) unary() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isUnary = true
	if c.isHalf && c.probing == probeStream {
		c.cancelLocked(infer.CancelClientGone)
	}
}

// cancel asks for the end of the generation; only the first reason counts.
func (c *call) cancel(reason infer.CancelReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelLocked(reason)
}

// cancelLocked is cancel under mu.
func (c *call) cancelLocked(reason infer.CancelReason) {
	if c.reason != "" {
		return
	}
	c.reason = reason
	if reason == infer.CancelClientGone { // known before the end that this brings is read
		close(c.gone)
		c.tell()
	}
	c.admission()
	if c.stream != nil {
		c.stream.Cancel(reason)
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
// called when the answer is over, or before it is written in one piece.
func (s *Server) begin(ctx *fasthttp.RequestCtx, generates bool) *call {
	x := &call{generates: generates, conn: ctx.Conn(), probing: probingOf(ctx), gone: make(chan struct{}), news: make(chan struct{}, 1)}
	x.ctx, x.admission = context.WithCancel(context.Background())
	s.calls.add(x)
	x.stop = s.watcher.watch(x.conn, watched{half: x.halfClosed, gone: func() { x.cancel(infer.CancelClientGone) }})
	return x
}

func (s *Server) end(x *call) {
	x.answers()
	x.stop()
	x.admission()
	s.calls.remove(x)
	if x.meter != nil {
		x.meter.settle()
	}
}
