package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/troupe-llm/troupe/infer"
)

// server is one server: its sessions, and the tools that it had when they were listed.
type server struct {
	target Target
	client *sdk.Client
	dialer dialer
	log    *slog.Logger
	label  string // set by start
	tools  atomic.Pointer[[]infer.ServerTool]
	slots  chan struct{}   // one per call
	ending sync.WaitGroup  // of sessions that are being closed, and of listing again
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu        sync.Mutex
	idle      []*session
	listed    time.Time // when the tools were
	leftOut   []leftOut // of that list
	isListing bool      // they are being listed again
	wasLost   bool      // a session broke: the next one lists the tools again
	isClosed  bool
}

func newServer(t Target, c *sdk.Client, d dialer, log *slog.Logger) *server {
	s := &server{target: t, client: c, dialer: d, log: log, label: t.Label, slots: make(chan struct{}, maxConcurrent)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// start opens the first session, which names the server and lists its tools.
func (s *server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	first, err := open(ctx, s.client, s.dialer)
	if err != nil {
		return fmt.Errorf("cannot connect to the tool server: %s", s.cause(err))
	}
	if s.label == "" {
		if s.label = nameOf(first.ClientSession); checkLabel(s.label) != nil {
			s.discard(first)
			return fmt.Errorf("the server calls itself %q, which cannot be a label: choose one with LABEL=URL", s.label[:min(len(s.label), maxLabel)])
		}
	}
	if err := s.list(ctx, first); err != nil {
		s.discard(first)
		return fmt.Errorf("cannot list the tools of the server: %s", s.cause(err))
	}
	s.keep(first)
	s.log.Info(fmt.Sprintf("Tools of server %s: %d", s.label, len(*s.tools.Load())))
	return nil
}

func nameOf(cs *sdk.ClientSession) string {
	if r := cs.InitializeResult(); r != nil && r.ServerInfo != nil {
		return r.ServerInfo.Name
	}
	return ""
}

// callTool runs a tool, in a session of its own.
func (s *server) callTool(ctx context.Context, call infer.ServerCall) infer.ToolResult {
	arguments := bytes.TrimSpace(call.Arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if arguments[0] != '{' || !json.Valid(arguments) {
		return failed("The arguments are not a JSON object.")
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return s.gaveUp(ctx)
	}
	start := time.Now()
	result, err := s.try(ctx, &sdk.CallToolParams{Name: call.Tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "tool call failed", slog.String("server", s.label), slog.String("tool", call.Tool),
			slog.Int64("ms", time.Since(start).Milliseconds()), slog.String("error", s.cause(err)))
		return s.explain(ctx, err)
	}
	return textOf(result)
}

// try calls a tool in an idle session, or a new one. If an idle session turns out to be
// gone the call has not been made, and is made in a new one.
func (s *server) try(ctx context.Context, params *sdk.CallToolParams) (*sdk.CallToolResult, error) {
	for again := false; ; again = true {
		in, isNew, err := s.take(ctx, again)
		if err != nil {
			return nil, err
		}
		result, err := in.CallTool(ctx, params)
		if err == nil || refusal(err) != nil && ctx.Err() == nil {
			s.keep(in)
			return result, err
		}
		err = in.guard.explain(err)
		s.lose(in, ctx.Err() != nil)
		if isNew || again || !errors.Is(err, sdk.ErrSessionMissing) {
			return nil, err
		}
	}
}

// take returns a session that nobody uses.
func (s *server) take(ctx context.Context, fresh bool) (in *session, isNew bool, err error) {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return nil, false, errors.New("the server is shutting down")
	}
	if n := len(s.idle); n > 0 && !fresh {
		in, s.idle = s.idle[n-1], s.idle[:n-1]
		s.mu.Unlock()
		return in, false, nil
	}
	wasLost := s.wasLost
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if in, err = open(ctx, s.client, s.dialer); err != nil || !wasLost {
		return in, true, err
	}
	if err := s.list(ctx, in); err != nil {
		s.discard(in)
		return nil, true, err
	}
	s.mu.Lock()
	s.wasLost = false
	s.mu.Unlock()
	return in, true, nil
}

// keep makes a session that did well idle.
func (s *server) keep(in *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		s.discard(in)
		return
	}
	s.idle = append(s.idle, in)
}

// lose closes a session that broke. Others may be as dead: those that are idle go too.
// A call that was given up is no fault of its server, which shall hear of it.
func (s *server) lose(in *session, gaveUp bool) {
	if gaveUp {
		s.ending.Go(func() {
			timer := time.NewTimer(farewell)
			defer timer.Stop()
			select {
			case <-timer.C: // the library has told the server
			case <-s.ctx.Done():
			}
			in.end()
		})
		return
	}
	s.mu.Lock()
	idle := s.idle
	s.idle, s.wasLost = nil, true
	s.mu.Unlock()
	s.discard(in)
	for _, other := range idle {
		s.discard(other)
	}
}

// discard closes a session without waiting: its server may not answer.
func (s *server) discard(in *session) {
	s.ending.Go(in.end)
}

// close ends all sessions.
func (s *server) close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.isClosed = nil, true
	s.mu.Unlock()
	s.cancel()
	for _, in := range idle {
		s.discard(in)
	}
	s.ending.Wait()
	s.dialer.close()
}

// explain says to a model what became of a call, in words that hold no address.
func (s *server) explain(ctx context.Context, err error) infer.ToolResult {
	refused := refusal(err)
	switch {
	case ctx.Err() != nil:
		return s.gaveUp(ctx)
	case refused != nil:
		return failed("The server refused the call: %s", bounded(refused.Message, maxErrorBytes))
	case errors.Is(err, errTooLarge):
		return failed("The result is too large: the limit is %d bytes.", maxResultBytes)
	}
	return failed("The server %q cannot be reached, or its answer cannot be read.", s.label)
}

// rejected is what the library wraps the failures of HTTP in, as if a server had
// answered so: connections that broke or could not be opened, statuses from 500.
var rejected = jsonrpc.Error{Code: -32005, Message: "rejected by transport"}

// refusal returns the error that a server answered with, nil = it did not answer.
func refusal(err error) *jsonrpc.Error {
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) || refused.Code == rejected.Code && refused.Message == rejected.Message {
		return nil
	}
	return refused
}

func (s *server) gaveUp(ctx context.Context) infer.ToolResult {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failed("The tool did not answer in time.")
	}
	return failed("The call was given up.")
}

// cause is an error for the log and for whoever starts the server, without the address.
func (s *server) cause(err error) string {
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err
	}
	text := strings.ReplaceAll(err.Error(), s.target.URL, s.target.shown())
	if u, parseErr := url.Parse(s.target.URL); parseErr == nil {
		text = strings.ReplaceAll(text, u.Redacted(), s.target.shown())
	}
	return bounded(text, maxErrorBytes)
}
