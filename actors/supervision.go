package actors

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// stopOnFailure is the one supervision strategy: who panics is stopped.
//
// Not restarted: a restart keeps the PID and loses the state, so that those who
// wait for an answer would wait for ever. A stop is visible, as Terminated, to
// the parent and to all who watch.
type stopOnFailure struct{ logger *slog.Logger }

var _ actor.SupervisorStrategy = (*stopOnFailure)(nil)

// HandleFailure implements actor.SupervisorStrategy.
func (s *stopOnFailure) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any) {
	s.logger.Error("an actor panicked and was stopped",
		"actor", child.GetId(), "reason", reason, "message", fmt.Sprintf("%T", message))
	supervisor.StopChildren(child)
}

// newSystem returns an actor system that logs to logger. Its own metrics stay
// off: they make a spawn three times as expensive.
func newSystem(logger *slog.Logger) *actor.ActorSystem {
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
			return slog.New(&systemLog{next: logger.Handler()})
		}),
		// A dead letter is ordinary here (an answer to a sequence that is gone), is
		// logged below Warn, and keeps a goroutine for this long.
		actor.WithDeadLetterThrottleInterval(time.Millisecond))
}

// systemLog passes on what the actor system logs at Warn and above. What it says
// below that is noise, except for one line: it is written on the goroutine of a
// panicking actor, the only moment at which the stack can still be seen.
type systemLog struct{ next slog.Handler }

const recoveringMessage = "[ACTOR] Recovering"

// Enabled implements slog.Handler.
func (h *systemLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *systemLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == recoveringMessage {
		r.Level = slog.LevelError
		r.AddAttrs(slog.String("stack", string(debug.Stack())))
	}
	if r.Level < slog.LevelWarn || !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *systemLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &systemLog{next: h.next.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *systemLog) WithGroup(name string) slog.Handler {
	return &systemLog{next: h.next.WithGroup(name)}
}

// splitStack tells what an error says in its first line from the rest, which is
// the stack if it was a panic: kilobytes that one line of a log has no place for.
func splitStack(err error) (cause, stack string) {
	cause, stack, _ = strings.Cut(err.Error(), "\n")
	return cause, stack
}
