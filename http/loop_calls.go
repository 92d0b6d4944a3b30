package http

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// run runs the calls of a turn and asks for what follows. It has what is the loop's
// between two turns.
func (l *loop) run() {
	o := &outcome{err: infer.Internal(errPanic)}
	defer func() {
		if r := recover(); r != nil {
			l.server.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "panic between two turns",
				slog.String("id", l.id), slog.Any("reason", r), slog.String("stack", string(debug.Stack())))
		}
		l.mu.Lock()
		l.outcome = o
		l.mu.Unlock()
		l.tell()
	}()
	l.runCalls()
	*o = l.follow()
}

// runCalls runs the calls, some at a time, and hands out each result as it comes.
func (l *loop) runCalls() {
	turn := &l.log.Turns[len(l.log.Turns)-1]
	start := time.Now()
	timed := make([]infer.TimedCall, len(l.calls))
	slots := make(chan struct{}, maxParallelCalls)
	var mu sync.Mutex // guards what is the loop's
	var running sync.WaitGroup
	for i, call := range l.calls {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			begun := time.Now()
			result := l.runCall(call, i)
			timed[i] = infer.TimedCall{ServerCall: call, Ms: milliseconds(begun), IsFailed: result.IsFailed}
			mu.Lock()
			defer mu.Unlock()
			l.publish(call, result)
		})
	}
	running.Wait()
	l.callsLeft = max(0, l.callsLeft-len(l.calls))
	turn.Calls, turn.ToolMs = timed, milliseconds(start)
}

// runCall runs call i of a turn, if the response may have that many.
func (l *loop) runCall(call infer.ServerCall, i int) (result infer.ToolResult) {
	defer func() {
		if r := recover(); r != nil {
			l.server.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "panic in a tool call",
				slog.String("id", l.id), slog.Any("reason", r), slog.String("stack", string(debug.Stack())))
			result = infer.ToolResult{Text: "The call failed.", IsFailed: true}
		}
	}()
	if i >= l.callsLeft {
		return infer.ToolResult{Text: "The call was not made: this response may make no more calls (max_tool_calls).", IsFailed: true}
	}
	defer func(begun time.Time) {
		l.server.opts.ToolMetrics.Observe(metrics.ToolCall{Server: call.Server, Duration: time.Since(begun), IsFailed: result.IsFailed})
	}(time.Now())
	return l.server.opts.Tools.CallTool(l.ctx, call)
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1e3 }

// publish gives a result to the conversation and to the reader. Text lets those who
// count an answer's bytes see those of the result.
func (l *loop) publish(call infer.ServerCall, r infer.ToolResult) {
	d := infer.Delta{Text: r.Text, Parsed: &infer.Parsed{Pieces: []infer.Piece{
		{Kind: infer.PieceOutput, ID: call.ID, Text: r.Text, IsFailed: r.IsFailed},
	}}}
	if err := l.held.addDelta(&d); err != nil && l.broken == nil {
		l.broken = infer.AsError(err)
	}
	l.turns.Add(&d)
	l.mu.Lock()
	l.results = append(l.results, infer.Event{Delta: d})
	l.mu.Unlock()
	l.tell()
}

func (l *loop) tell() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// follow begins the next turn. What refuses it ends the response as failed: the calls
// have been made, and the client should see that.
func (l *loop) follow() outcome {
	switch {
	case l.broken != nil:
		return outcome{err: l.broken}
	case l.turns.AwaitsClient():
		return outcome{}
	case l.ctx.Err() != nil:
		return outcome{err: infer.Errorf(infer.CodeUnavailable, "", "The tools of the response took longer than %v.", maxToolTime)}
	}
	next := l.turns.Next(&l.first, &l.server.profile, l.usage.NumCompletionTokens)
	turn, err := l.begin(next)
	var refused *infer.Error
	if errors.As(err, &refused) && refused.Code == infer.CodeContextLength && next.MaxTokens != nil {
		// The limit was meant for the whole response: what fits is less, and is all there is.
		open := *next
		open.MaxTokens = nil
		turn, err = l.begin(&open)
	}
	if err != nil {
		return outcome{err: infer.AsError(err)}
	}
	return outcome{turn: turn}
}

// begin has a turn admitted as any request is.
func (l *loop) begin(r *infer.Request) (infer.Stream, error) {
	s := l.server
	if err := l.key.admit(time.Now()); err != nil {
		return nil, err
	}
	size := 0
	for _, m := range r.Chat.Messages {
		size += len(m)
	}
	pass, err := s.gate.enter(l.ctx, size)
	if err != nil {
		return nil, err
	}
	defer pass.leave()
	if err := pass.reclassify(l.ctx, r); err != nil {
		return nil, err
	}
	return s.opts.Generator.Generate(l.ctx, r)
}
