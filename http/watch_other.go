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
	watched map[uint64]watched
}

type watched struct {
	conn net.Conn
	gone func()
}

func newWatcher() (*watcher, error) {
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{}), watched: make(map[uint64]watched)}
	go w.loop()
	return w, nil
}

// watch calls gone, from the watcher's goroutine, when c's peer has closed the
// connection or its sending half. gone must not block.
func (w *watcher) watch(c net.Conn, gone func()) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	id := w.next
	w.watched[id] = watched{c, gone}
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
		if peerGone(x.conn) {
			delete(w.watched, id)
			x.gone()
		}
	}
}

func (w *watcher) close() {
	close(w.quit)
	<-w.done
}
