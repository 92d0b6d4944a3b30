package http

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// When a connection is closed while the client still sends, the kernel resets
// it and the client may never see the answer (a 413, say). Such a connection
// lingers: it takes what still comes, within these bounds, before it closes.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 20
)

// underTLS returns the connection that a TLS connection runs on, else c itself.
func underTLS(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// rawConn returns the file descriptor's handle of a connection, nil if there is none.
func rawConn(c net.Conn) syscall.RawConn {
	sc, ok := underTLS(c).(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// streamConn is what TCP and Unix connections have in common.
type streamConn interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// lingerConn is a connection that can linger when it is closed.
type lingerConn struct {
	streamConn
	linger atomic.Bool
	// serving: a whole request has been read, and its answer is not over.
	serving atomic.Bool
	open    *atomic.Int64 // counts this connection
	closed  atomic.Bool
	// spilled: the watcher has discarded bytes, so that what follows makes no sense.
	spilled atomic.Bool
}

// Read implements net.Conn. A connection of which bytes were discarded has ended.
func (c *lingerConn) Read(p []byte) (int, error) {
	if c.spilled.Load() {
		return 0, io.EOF
	}
	return c.streamConn.Read(p)
}

// Close implements net.Conn.
func (c *lingerConn) Close() error {
	if !c.closed.Swap(true) {
		defer c.open.Add(-1)
	}
	if c.linger.Load() && c.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c.streamConn, lingerBytes)
	}
	return c.streamConn.Close()
}

// lingerOnClose marks c for the case that the answer goes out before the
// request has been read to its end.
func lingerOnClose(c net.Conn) {
	if lc, ok := underTLS(c).(*lingerConn); ok {
		lc.linger.Store(true)
	}
}

// listener makes every connection that can linger one that does, and may be
// closed more than once.
type listener struct {
	net.Listener
	conns  *connSet
	once   sync.Once
	err    error         // of the first Close
	closed chan struct{} // by the first Close
}

func newListener(ln net.Listener, conns *connSet) *listener {
	return &listener{Listener: ln, conns: conns, closed: make(chan struct{})}
}

// Waits before another try to accept when the system is short of something.
const (
	firstAcceptWait = 5 * time.Millisecond
	lastAcceptWait  = time.Second
)

// shortage reports that accepting failed for want of descriptors or memory, or
// because a client had gone already. It passes; the listener is sound.
func shortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// accept waits out shortages: fasthttp would end the server over them, and with
// it all who are connected.
func (l *listener) accept() (net.Conn, error) {
	for wait := firstAcceptWait; ; wait = min(2*wait, lastAcceptWait) {
		c, err := l.Listener.Accept()
		if err == nil || !shortage(err) {
			return c, err
		}
		select {
		case <-time.After(wait):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.err = l.Listener.Close()
	})
	return l.err
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.accept()
		if err != nil {
			return nil, err
		}
		// Not for tls.Conn, which a foreign listener may give: fasthttp recognises TLS by
		// its type. Our own TLS is put on top of this listener.
		sc, ok := c.(streamConn)
		if !ok {
			return c, nil
		}
		if lc := l.conns.admit(sc); lc != nil {
			return lc, nil
		}
	}
}

// refusalSlots bounds how many refused connections may linger at a time.
const refusalSlots = 64

// admit counts a connection. One too many gets its refusal, and nil is returned.
func (s *connSet) admit(c streamConn) *lingerConn {
	lc := &lingerConn{streamConn: c, open: &s.open}
	if n := s.open.Add(1); s.max == 0 || n <= int64(s.max) {
		return lc
	}
	if s.refusing.Add(1) > refusalSlots {
		_ = lc.Close()
		s.refusing.Add(-1)
		s.refused(nil)
		return nil
	}
	lc.linger.Store(true)
	s.lingering.Go(func() {
		defer s.refusing.Add(-1)
		s.refused(lc)
		_ = lc.Close()
	})
	return nil
}

// connSet knows the open connections, so that shutting down can close them.
type connSet struct {
	max       int            // open connections; 0 = no limit
	refused   func(net.Conn) // tells a client that it is one too many; nil = there is no time to
	open      atomic.Int64
	refusing  atomic.Int64 // refused connections that are told so
	lingering sync.WaitGroup

	mu     sync.Mutex
	states map[net.Conn]fasthttp.ConnState
}

// track is fasthttp's ConnState hook.
func (s *connSet) track(c net.Conn, state fasthttp.ConnState) {
	serving(c, false) // it is between two requests, or about to read one
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == fasthttp.StateClosed || state == fasthttp.StateHijacked {
		delete(s.states, c)
		return
	}
	s.states[c] = state
}

// serving notes whether a whole request has been read and is not answered yet.
func serving(c net.Conn, is bool) {
	if lc, ok := underTLS(c).(*lingerConn); ok {
		lc.serving.Store(is)
	}
}

// closeUnused closes the connections on which no whole request has been received:
// fasthttp would wait for the rest of it.
func (s *connSet) closeUnused() {
	s.close(func(c net.Conn, state fasthttp.ConnState) bool {
		lc, ok := underTLS(c).(*lingerConn)
		return state == fasthttp.StateNew || ok && !lc.serving.Load()
	})
}

// hurry ends writes that make no progress soon.
func (s *connSet) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := time.Now().Add(hastyWriteTime)
	for c := range s.states {
		_ = c.SetWriteDeadline(deadline)
	}
}

// closeAll closes every connection, without lingering.
func (s *connSet) closeAll() { s.close(func(net.Conn, fasthttp.ConnState) bool { return true }) }

func (s *connSet) close(matches func(net.Conn, fasthttp.ConnState) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, state := range s.states {
		if !matches(c, state) {
			continue
		}
		if lc, ok := underTLS(c).(*lingerConn); ok {
			lc.linger.Store(false)
			// Under TLS, closing c says goodbye first, for which a client that reads
			// nothing would make us wait.
			_ = lc.Close()
		}
		_ = c.Close()
	}
}
