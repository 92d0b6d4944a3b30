package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxAnswerBytes bounds one answer of a server, as it comes. A listing may have as
	// many per page.
	maxAnswerBytes = 2 << 20
	// maxRequests is how many requests of one session may be under way: a call, what a
	// server is told of its end, and answers to what it asks meanwhile. Of those a
	// server could want one for each line that it sends, and a connection each.
	maxRequests = 16
	// maxIdleTime is how long a connection without a request is kept.
	maxIdleTime = 90 * time.Second
	// farewell is how long a server may take to hear of a session's end.
	farewell = 500 * time.Millisecond
)

// dialer makes transports of one server, a new one for each session.
type dialer interface {
	// dial returns a transport, and what tells whether an answer was too large.
	dial() (sdk.Transport, *guard)
	// close gives up what transports share.
	close()
}

type httpDialer struct {
	url  string
	base *http.Transport
}

func dialHTTP(url string) dialer {
	return &httpDialer{url: url, base: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConnsPerHost:    maxConcurrent,
		IdleConnTimeout:        maxIdleTime,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

func (d *httpDialer) dial() (sdk.Transport, *guard) {
	g := newGuard(d.base)
	return &sdk.StreamableClientTransport{
		Endpoint: d.url, HTTPClient: &http.Client{Transport: g, CheckRedirect: stayThere},
		MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxAnswerBytes,
	}, g
}

func (d *httpDialer) close() { d.base.CloseIdleConnections() }

// stayThere refuses redirects: only configured addresses are talked to.
func stayThere(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// guard bounds the requests and answers of one session, and can end all it does.
type guard struct {
	base   http.RoundTripper
	ctx    context.Context
	kill   context.CancelFunc
	open   atomic.Int32          // requests under way
	breach atomic.Pointer[error] // the first bound that was exceeded, nil = none
}

func newGuard(base http.RoundTripper) *guard {
	g := &guard{base: base}
	g.ctx, g.kill = context.WithCancel(context.Background())
	return g
}

// exceed books a bound that was exceeded.
func (g *guard) exceed(bound error) error {
	g.breach.CompareAndSwap(nil, &bound)
	return bound
}

// explain returns what is behind an error of the session: the library shows its own.
func (g *guard) explain(err error) error {
	if bound := g.breach.Load(); bound != nil {
		return *bound
	}
	return err
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.open.Add(1) > maxRequests {
		_ = g.exceed(errTooMany)
		g.kill()
	}
	if err := g.ctx.Err(); err != nil {
		g.open.Add(-1)
		return nil, g.explain(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(g.ctx, cancel)
	done := sync.OnceFunc(func() {
		stop()
		cancel()
		g.open.Add(-1)
	})
	res, err := g.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		done()
		return nil, err
	}
	res.Body = &boundedBody{ReadCloser: res.Body, guard: g, left: maxAnswerBytes, done: done}
	return res, nil
}

var (
	errTooLarge = errors.New("the answer is too large")
	errTooMany  = errors.New("the server asks too much at once")
)

type boundedBody struct {
	io.ReadCloser
	guard *guard
	left  int
	done  func()
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.guard.exceed(errTooLarge)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// session is a session with what belongs to it. One goroutine at a time has it.
type session struct {
	*sdk.ClientSession
	guard *guard
}

// open begins a session.
func open(ctx context.Context, client *sdk.Client, d dialer) (*session, error) {
	transport, g := d.dial()
	s, err := client.Connect(ctx, transport, nil)
	if err != nil {
		g.kill()
		return nil, err
	}
	return &session{s, g}, nil
}

// end closes the session, and gives its server a moment to hear of it.
func (s *session) end() {
	timer := time.AfterFunc(farewell, s.guard.kill)
	_ = s.Close()
	timer.Stop()
	s.guard.kill()
}
