package actors

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// pinnedDispatcher runs one actor on one OS thread. A batcher needs it because it
// must not queue up behind the goroutines of the sequences that it serves: the
// device would wait for them all between two steps.
//
// It serves one mailbox, and is closed after that actor's Terminated.
type pinnedDispatcher struct {
	mu     sync.Mutex // orders Schedule and Close; taken when the mailbox wakes up, not per message
	closed bool
	queue  chan func()
	done   chan struct{} // closed when the thread has ended
}

var _ actor.Dispatcher = (*pinnedDispatcher)(nil)

func newPinnedDispatcher() *pinnedDispatcher {
	d := &pinnedDispatcher{queue: make(chan func(), 1), done: make(chan struct{})}
	go d.run()
	return d
}

func (d *pinnedDispatcher) run() {
	defer close(d.done)
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for process := range d.queue {
		process()
	}
}

// Schedule implements actor.Dispatcher. It does not block: a mailbox has at most
// one pending call, and the queue has room for it.
//
// A sender may have looked the actor up just before it died and post after Close.
// The mailbox is then emptied on a goroutine, so that a late Watch is still
// answered with Terminated.
func (d *pinnedDispatcher) Schedule(process func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		go process()
		return
	}
	d.queue <- process
}

// Throughput implements actor.Dispatcher: messages handled before a Gosched,
// which on a locked thread would cost two thread switches.
func (d *pinnedDispatcher) Throughput() int { return 1 << 30 }

// Close ends the thread after what is scheduled, and waits for it.
func (d *pinnedDispatcher) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.queue)
	}
	d.mu.Unlock()
	<-d.done
}
