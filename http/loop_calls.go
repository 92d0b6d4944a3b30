package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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
			l.logPanic("panic between two turns", r)
		}
		l.mu.Lock()
		l.outcome = o
		l.mu.Unlock()
		l.tell()
	}()
	l.runCalls()
	*o = l.follow()
}

// runCalls runs the calls, some at a time, and hands out each result as it comes. The
// goroutines of the calls do nothing but call: what is the loop's stays with this one,
// whose panics end the response and nothing else.
func (l *loop) runCalls() {
	type result struct {
		infer.ToolResult
		ms float64
	}
	turn := &l.log.Turns[len(l.log.Turns)-1]
	start := time.Now()
	calls, numBefore := l.calls, l.numCalls
	results := make([]result, len(calls))
	next, done := make(chan int, len(calls)), make(chan int, len(calls))
	for i := range calls {
		next <- i
	}
	close(next)
	for range min(maxParallelCalls, len(calls)) {
		go func() {
			for i := range next {
				begun := time.Now()
				r := l.runCall(calls[i], numBefore+i+1)
				results[i] = result{r, milliseconds(begun)}
				done <- i
			}
		}()
	}
	timed := make([]infer.TimedCall, len(calls))
	for range calls {
		i := <-done
		r := &results[i]
		timed[i] = infer.TimedCall{ServerCall: calls[i], Ms: r.ms, IsFailed: r.IsFailed}
		l.publish(calls[i], r.ToolResult)
	}
	l.numCalls += len(calls)
	turn.Calls, turn.ToolMs = timed, milliseconds(start)
}

// runCall runs the response's call of a number, from 1, and counts it, if it may be made.
func (l *loop) runCall(call infer.ServerCall, number int) infer.ToolResult {
	if number > l.maxCalls {
		text := fmt.Sprintf("The call was not made: it is number %d, and this response may make %d (max_tool_calls).", number, l.maxCalls)
		return infer.ToolResult{Text: text, IsFailed: true}
	}
	if l.ctx.Err() != nil {
		return infer.ToolResult{Text: "The call was given up.", IsFailed: true}
	}
	begun := time.Now()
	result := l.callTool(call)
	l.server.opts.ToolMetrics.Observe(metrics.ToolCall{Server: call.Server, Duration: time.Since(begun), IsFailed: result.IsFailed})
	return result
}

// callTool is the toolbox's, whose panics are failures of the call.
func (l *loop) callTool(call infer.ServerCall) (result infer.ToolResult) {
	defer func() {
		if r := recover(); r != nil {
			l.logPanic("panic in a tool call", r)
			result = infer.ToolResult{Text: "The call failed.", IsFailed: true}
		}
	}()
	return l.server.opts.Tools.CallTool(l.ctx, call)
}

// logPanic logs what was recovered; it is called where the stack is still the panic's.
func (l *loop) logPanic(message string, reason any) {
	l.server.opts.Logger.LogAttrs(context.Background(), slog.LevelError, message,
		slog.String("id", l.id), slog.Any("reason", reason), slog.String("stack", string(debug.Stack())))
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
