package actors

import "sync"

// launcher calls a device's runner on a goroutine of its own, so that a runner
// that gets stuck in Launch takes that goroutine with it and nothing else: the
// batcher goes on, and can tell.
type launcher struct {
	queue chan func()
	done  chan struct{} // closed when the goroutine has ended
	once  sync.Once
}

func newLauncher() *launcher {
	l := &launcher{queue: make(chan func(), 1), done: make(chan struct{})}
	go l.loop()
	return l
}

func (l *launcher) loop() {
	defer close(l.done)
	for f := range l.queue {
		f()
	}
}

// run has f called. It does not block: the next call comes after the step that f
// starts has ended, so there is one on its way at most, and the queue has room
// for it.
func (l *launcher) run(f func()) { l.queue <- f }

// close ends the goroutine after what is queued, and waits for it.
func (l *launcher) close() {
	l.once.Do(func() { close(l.queue) })
	<-l.done
}
