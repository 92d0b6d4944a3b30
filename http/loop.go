package http

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

const (
	// maxToolTime bounds a response that calls tools: none is called, and no turn is
	// begun, after it.
	maxToolTime = 15 * time.Minute
	// maxToolCalls bounds the calls of a response, whatever it asks for.
	maxToolCalls = 128
	// maxParallelCalls is how many calls of a response run at a time.
	maxParallelCalls = 8
)

// generateTurns hands a request to the generator. If its model may call tools of the
// server, the stream is one of as many generations as it takes.
func (s *Server) generateTurns(req *openai.Call, c *call, owner *key) (infer.Stream, error) {
	if req.Response == nil || !req.Response.HasServerTools() {
		return s.opts.Generator.Generate(c.ctx, req.Request)
	}
	l := &loop{
		server: s, key: owner, id: req.Request.ID, first: *req.Request, turns: req.NewTurns(), held: s.newHeld(),
		ready: make(chan struct{}, 1), maxCalls: maxToolCalls, deadline: time.Now().Add(maxToolTime),
	}
	if n := req.Response.MaxToolCalls(); n != nil {
		l.maxCalls = min(l.maxCalls, *n)
	}
	turn, err := s.opts.Generator.Generate(c.ctx, req.Request)
	if err != nil {
		return nil, err
	}
	l.turn = turn
	l.ctx, l.stop = context.WithDeadline(context.Background(), l.deadline)
	s.loops.Store(l.id, l)
	return l, nil
}

// loop is the stream of a response whose model may call tools of the server. A turn is
// an ordinary request of the generator. When one has ended with calls, a goroutine runs
// these and asks for the next turn; the reader, who sees one stream, gets the results
// as they come, and the deltas of all turns. Nothing runs on after the Final.
type loop struct {
	server   *Server
	key      *key
	id       string
	first    infer.Request // as it was before the first turn
	held     *held         // of turns
	maxCalls int           // of the response
	deadline time.Time
	ctx      context.Context // ends when the response is over or given up
	stop     context.CancelFunc
	ready    chan struct{} // holds a value when there is something to read between turns

	// The reader's during a turn, the goroutine's between two:
	turns     *openai.Turns
	calls     []infer.ServerCall // that the turn ends with, once they are to be run
	numCalls  int                // of earlier turns, those refused included
	usage     infer.Usage
	log       infer.Loop
	recovered int
	isCut     bool         // the calls of the turn are not run: nothing may follow
	broken    *infer.Error // what the conversation grew beyond

	mu      sync.Mutex
	turn    infer.Stream       // nil between two turns; written by the reader
	reason  infer.CancelReason // "" = nobody has given up
	results []infer.Event      // not read yet
	outcome *outcome           // nil until the calls are over
}

// outcome is what follows the calls of a turn: another turn, the client's part, or an
// error.
type outcome struct {
	turn infer.Stream // nil = none
	err  *infer.Error
}

var _ infer.Stream = (*loop)(nil)

// ID implements infer.Stream.
func (l *loop) ID() string { return l.id }

// Ready implements infer.Stream. The channel is another one after each Drain that
// begins or ends a turn.
func (l *loop) Ready() <-chan struct{} {
	if l.turn != nil {
		return l.turn.Ready()
	}
	return l.ready
}

// Cancel implements infer.Stream.
func (l *loop) Cancel(reason infer.CancelReason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == "" {
		l.reason = reason
	}
	if l.turn != nil {
		l.turn.Cancel(reason)
	}
	l.stop()
}

// endCalls gives the response up between two turns. One that is being generated runs on.
func (l *loop) endCalls() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn != nil {
		return
	}
	if l.reason == "" {
		l.reason = infer.CancelShutdown
	}
	l.stop()
}

// Drain implements infer.Stream.
func (l *loop) Drain(buf []infer.Event) []infer.Event {
	if l.turn == nil {
		return l.drainResults(buf)
	}
	before := len(buf)
	buf = l.turn.Drain(buf)
	for i := before; i < len(buf); i++ {
		if f := buf[i].Final; f != nil {
			return l.endTurn(buf[:i], f)
		}
		l.take(&buf[i].Delta)
	}
	return buf
}

// take follows a delta. The end of a turn is not the response's if calls are to be run.
func (l *loop) take(d *infer.Delta) {
	if l.broken != nil {
		return
	}
	if err := l.held.addDelta(d); err != nil {
		l.broken = infer.AsError(err)
		l.turn.Cancel(infer.CancelTooLarge)
		return
	}
	l.turns.Add(d)
	if d.FinishReason != infer.FinishStop {
		return
	}
	calls := l.turns.Calls()
	switch {
	case len(calls) == 0:
	case l.hasSpent(d.NumOutputTokens):
		l.isCut = true
	case l.numCalls >= l.maxCalls || len(l.log.Turns)+1 >= l.server.opts.MaxToolTurns || !time.Now().Before(l.deadline):
		l.isCut, l.log.CallsExhausted = true, true
	default:
		l.calls = calls
		d.FinishReason = infer.FinishNone
	}
}

// hasSpent reports whether a turn of numTokens leaves none for another.
func (l *loop) hasSpent(numTokens int) bool {
	limit := l.first.MaxTokens
	return limit != nil && l.usage.NumCompletionTokens+numTokens >= *limit
}

// endTurn books a turn that is over and runs its calls, or ends the response.
func (l *loop) endTurn(buf []infer.Event, f *infer.Final) []infer.Event {
	l.usage.NumPromptTokens += f.Usage.NumPromptTokens
	l.usage.NumCompletionTokens += f.Usage.NumCompletionTokens
	l.usage.NumCachedTokens += f.Usage.NumCachedTokens
	l.usage.NumReasoningTokens += f.Usage.NumReasoningTokens
	l.recovered = max(l.recovered, f.NumRecoveries)
	f.StampWritten(infer.Now()) // a response of one turn is stamped again when it is written
	l.log.Turns = append(l.log.Turns, infer.Turn{Usage: f.Usage, Metrics: f.Metrics})
	end := infer.Final{FinishReason: f.FinishReason, Err: f.Err}
	switch {
	case l.broken != nil:
		end.FinishReason, end.Err = infer.FinishError, l.broken
	case f.Err != nil || f.FinishReason == infer.FinishAbort:
	case l.isCut:
		end.FinishReason = infer.FinishLength
	case len(l.calls) > 0:
		l.mu.Lock()
		l.turn = nil
		l.mu.Unlock()
		if l.server.noCalls.Load() {
			l.endCalls()
		}
		go l.run()
		return buf
	}
	return append(buf, l.final(end))
}

// final is the end of the response.
func (l *loop) final(f infer.Final) infer.Event {
	l.stop()
	l.held.release()
	l.server.loops.Delete(l.id)
	f.Usage, f.NumRecoveries = l.usage, l.recovered
	last := len(l.log.Turns) - 1
	if last == 0 && f.Err == nil {
		f.Metrics = l.log.Turns[0].Metrics
	}
	if f.Err == nil || last > 0 || len(l.log.Turns[last].Calls) > 0 {
		f.Loop = &l.log
	}
	return infer.Event{Final: &f}
}

// drainResults reads between two turns.
func (l *loop) drainResults(buf []infer.Event) []infer.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	buf = append(buf, l.results...)
	l.results = nil
	o := l.outcome
	switch {
	case o == nil:
		return buf
	case o.turn != nil:
		if l.turn, l.outcome, l.calls = o.turn, nil, nil; l.reason != "" {
			l.turn.Cancel(l.reason)
		}
		return buf
	case l.reason != "":
		return append(buf, l.final(infer.Final{FinishReason: infer.FinishAbort, Err: infer.CancelError(l.reason)}))
	case o.err != nil:
		return append(buf, l.final(infer.Final{FinishReason: infer.FinishError, Err: o.err}))
	}
	buf = append(buf, infer.Event{Delta: infer.Delta{FinishReason: infer.FinishStop}})
	return append(buf, l.final(infer.Final{FinishReason: infer.FinishStop}))
}
