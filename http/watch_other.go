//go:build !linux

package http

import (
	"net"
	"sync"
	"time"
)

// pollInterval is how often connections are looked at where the kernel cannot
// be asked to tell.
const pollInterval = 100 * time.Millisecond

// watcher tells when the peers of watched connections are gone, by peeking at
// each of them from time to time.
type watcher struct {
	quit, done chan struct{}

	mu      sync.Mutex
	next    uint64
	watched map[uint64]*polled
}

// polled is a connection with whom to call.
type polled struct {
	watched
	conn net.Conn
}

func newWatcher() (*watcher, error) {
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{}), watched: make(map[uint64]*polled)}
	go w.loop()
	return w, nil
}

// watch calls the functions of x from the watcher's goroutine; see watched. stop
// must be called before the connection is read again.
func (w *watcher) watch(c net.Conn, x watched) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	id := w.next
	w.watched[id] = &polled{x, c}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watched, id)
	}
}

func (w *watcher) loop() {
	defer close(w.done)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			w.poll()
		}
	}
}

func (w *watcher) poll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, x := range w.watched {
		switch isHalf, isGone := peek(x.conn); {
		case isGone:
			delete(w.watched, id)
			x.gone()
		case isHalf && !x.isHalf:
			x.isHalf = true
			x.half()
		}
	}
}

func (w *watcher) close() {
	close(w.quit)
	<-w.done
}
