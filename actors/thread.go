package actors

import (
	"runtime"
	"sync"
)

// launchThread calls a device's runner on one OS thread, since device contexts
// belong to threads. The batcher itself does not run there: a runner that gets
// stuck in Launch then takes this thread with it and nothing else.
type launchThread struct {
	queue chan func()
	done  chan struct{} // closed when the thread has ended
	once  sync.Once
}

func newLaunchThread() *launchThread {
	t := &launchThread{queue: make(chan func(), 1), done: make(chan struct{})}
	go t.loop()
	return t
}

func (t *launchThread) loop() {
	defer close(t.done)
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for f := range t.queue {
		f()
	}
}

// run calls f on the thread. It does not block: the next call comes after the
// step that f starts has ended, so there is one on its way at most, and the queue
// has room for it.
func (t *launchThread) run(f func()) { t.queue <- f }

// close ends the thread after what is queued, and waits for it.
func (t *launchThread) close() {
	t.once.Do(func() { close(t.queue) })
	<-t.done
}
