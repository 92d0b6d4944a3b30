package http

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
)

// shutdownGrace is how long cancelled streams may take to write their last event.
const shutdownGrace = 2 * time.Second

// hastyWriteTime is what a write gets once requests have been cancelled: a client
// that takes nothing for so long gets no last event.
const hastyWriteTime = time.Second

var (
	errPanic    = errors.New("panic in a handler")
	errShutDown = errors.New("http: the server is shut down")
)

// Server answers HTTP requests with the Generator of its Options.
type Server struct {
	opts    Options
	profile openai.Profile
	keys    *keyring
	created int64 // unix seconds; the models' `created`

	http     *fasthttp.Server
	routes   fasthttp.RequestHandler
	watcher  *watcher
	conns    connSet
	calls    callSet
	ledger   *ledger
	draining atomic.Bool
	isHasty  atomic.Bool // requests have been cancelled: nobody is waited for

	responses responseStore
	loops     sync.Map    // of *loop, by the id of its request
	noCalls   atomic.Bool // of tools are made any more

	gate              *gate
	transfers         transfers
	bodies, strangers budget // of clients who may, and of those who lack the key that others have
	answers           budget

	mu        sync.Mutex // guards listeners, and draining against them
	listeners []*listener
}

// New returns a server that listens to nothing yet. It fails if o has no
// Generator or a negative limit. A server that was made must be shut down, even
// if it never served.
func New(o Options) (*Server, error) {
	if o.Generator == nil {
		return nil, errors.New("http: Options.Generator is not set")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	watcher, err := newWatcher()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, profile: o.profile(), keys: newKeyring(&o), created: time.Now().Unix(), watcher: watcher}
	s.ledger = newLedger(&o, s.keys.hasAdmin && o.Inspector != nil)
	s.conns.states = make(map[net.Conn]fasthttp.ConnState)
	s.conns.max, s.conns.refused = o.MaxConnections, s.connectionRefused
	s.calls.calls = make(map[*call]struct{})
	s.gate = newGate()
	s.bodies.left.Store(int64(o.BodyLimit) * bodyBudgetFactor)
	s.responses.isOn = o.ResponseStore
	s.strangers.left.Store(int64(o.BodyLimit))
	s.answers.left.Store(int64(o.AnswerLimit) * answerBudgetFactor)
	s.transfers.active = make(map[*transfer]struct{})
	s.setUp()
	return s, nil
}

// setUp makes fiber's router and takes over its server: limits are answered by
// parseError, and serve stands before the router.
func (s *Server) setUp() {
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		CaseSensitive:                true,
		StreamRequestBody:            true, // bodies are read by readBody, into memory that is not kept
		DisablePreParseMultipartForm: true,
		BodyLimit:                    s.opts.BodyLimit,
		ReadBufferSize:               s.opts.HeaderLimit,
		WriteBufferSize:              writeBuffer,
		ReadTimeout:                  s.opts.ReadTimeout,
		IdleTimeout:                  s.opts.IdleTimeout,
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			s.fail(c.Context(), err)
			return nil
		},
	})
	s.addRoutes(app)
	s.routes = app.Handler()
	s.http = app.Server()
	s.http.Handler = s.serve
	s.http.ErrorHandler = s.parseError
	s.http.HeaderReceived = s.headerReceived
	s.http.ConnState = s.conns.track
	s.http.CloseOnShutdown = true
}

// Serve accepts connections from ln until Shutdown, also one that was before, then
// returns nil. It owns ln and may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	l := newListener(ln, &s.conns)
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	if s.opts.TLS != nil {
		return s.http.Serve(tls.NewListener(l, s.opts.TLS))
	}
	return s.http.Serve(l)
}

// Shutdown closes the listeners and idle connections at once and lets requests
// in flight run until ctx ends. Then it cancels them, waits a moment for their
// last event, closes what is left, and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.stopAccepting(); err != nil {
		return err
	}
	forced, force := context.WithCancel(context.Background())
	defer force()
	done := make(chan error, 1)
	go func() { done <- s.http.ShutdownWithContext(forced) }()
	s.conns.closeUnused()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		// With ctx ended from the start, idle connections still close in peace.
		cancelled := s.calls.cancelAll(infer.CancelShutdown)
		s.isHasty.Store(true)
		s.conns.hurry()
		if forced := s.awaitEnd(done); cancelled || forced {
			err = ctx.Err()
		}
	}
	s.conns.closeAll()
	s.conns.lingering.Wait()
	s.responses.cancelAll(infer.CancelShutdown) // those in the background: whoever waits has been answered
	s.ledger.wait(shutdownGrace)
	s.watcher.close()
	return err
}

// EndCalls gives up the calls of tools that run, with their responses, and lets none
// begin. While a generator drains no turn would follow them, and between two turns it
// knows of no request to wait for.
func (s *Server) EndCalls() {
	s.noCalls.Store(true)
	s.loops.Range(func(_, l any) bool {
		l.(*loop).endCalls()
		return true
	})
}

// stopAccepting closes the listeners, those of a Serve that has just begun included.
func (s *Server) stopAccepting() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Swap(true) {
		return errShutDown
	}
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// awaitEnd gives cancelled requests their grace, then closes their connections.
func (s *Server) awaitEnd(done <-chan error) (forced bool) {
	grace := time.NewTimer(shutdownGrace)
	defer grace.Stop()
	select {
	case <-done:
		return false
	case <-grace.C:
		s.conns.closeAll()
		<-done
		return true
	}
}

// logPanic records a panic with its stack; the process lives on.
func (s *Server) logPanic(x *exchange, reason any) {
	attrs := append(x.logAttrs(), slog.Any("reason", reason), slog.String("stack", string(debug.Stack())))
	s.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "panic", attrs...)
}

// newID returns 32 hex digits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
