package testkit

import (
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// System returns a quiet actor system. Tests of one binary should share one: it
// weighs megabytes.
func System() *actor.ActorSystem { return system() }

var system = sync.OnceValue(func() *actor.ActorSystem {
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
			return slog.New(slog.NewTextHandler(io.Discard, nil))
		}),
		// A dead letter keeps a goroutine for this long.
		actor.WithDeadLetterThrottleInterval(time.Millisecond))
})

// Recorder is an actor that keeps the user messages it is sent, and every
// *actor.Terminated. It runs on the synchronized dispatcher: a Send to it, or to
// a child it spawned, has been handled when Send returns, so tests need no
// waiting. It stops what it supervises, as the engine does.
type Recorder struct {
	PID *actor.PID

	root     *actor.RootContext
	mu       sync.Mutex
	arrived  *sync.Cond // on mu
	messages []any
}

// NewRecorder spawns a recorder, which ends with the test.
func NewRecorder(t testing.TB, s *actor.ActorSystem) *Recorder {
	r := &Recorder{root: s.Root}
	r.arrived = sync.NewCond(&r.mu)
	stop := actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })
	r.PID = s.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return r },
		actor.WithDispatcher(actor.NewSynchronizedDispatcher(1<<30)), actor.WithSupervisor(stop)))
	t.Cleanup(func() { s.Root.Stop(r.PID) })
	return r
}

// Receive implements actor.Actor.
func (r *Recorder) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case func(actor.Context):
		m(c)
	case *actor.Started, *actor.Stopping, *actor.Stopped:
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.messages = append(r.messages, m)
		r.arrived.Broadcast()
	}
}

// Do runs f inside the recorder's Receive.
func (r *Recorder) Do(f func(actor.Context)) { r.root.Send(r.PID, f) }

// SpawnChild spawns a child of the recorder on the synchronized dispatcher.
func (r *Recorder) SpawnChild(producer actor.Producer, options ...actor.PropsOption) *actor.PID {
	options = append([]actor.PropsOption{actor.WithDispatcher(actor.NewSynchronizedDispatcher(1 << 30))}, options...)
	var pid *actor.PID
	r.Do(func(c actor.Context) { pid = c.Spawn(actor.PropsFromProducer(producer, options...)) })
	return pid
}

// Take returns what was recorded since the last Take.
func (r *Recorder) Take() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	messages := r.messages
	r.messages = nil
	return messages
}

// TakeOf returns the messages of type T recorded since the last Take and drops
// the others.
func TakeOf[T any](r *Recorder) []T {
	var found []T
	for _, m := range r.Take() {
		if t, ok := m.(T); ok {
			found = append(found, t)
		}
	}
	return found
}

// Next waits for a message of type T, takes it and leaves the others. It is for
// senders that do not run on the synchronized dispatcher.
func Next[T any](r *Recorder) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for i, m := range r.messages {
			if t, ok := m.(T); ok {
				r.messages = slices.Delete(r.messages, i, i+1)
				return t
			}
		}
		r.arrived.Wait()
	}
}
