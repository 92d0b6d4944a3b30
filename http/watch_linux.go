package http

import (
	"cmp"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher tells when the peers of watched connections are gone. fasthttp never
// looks at a connection while a handler runs, so this asks the kernel: one epoll
// instance, one entry per request in flight. The instance is itself polled by
// Go's runtime, so that waiting costs no thread and close ends the loop.
type watcher struct {
	file *os.File // the epoll instance
	conn syscall.RawConn
	fd   int
	done chan struct{} // closed when the loop has ended

	mu      sync.Mutex
	next    uint64 // ids are never used again, unlike file descriptors
	watched map[uint64]*watched
	scratch []byte // what is discarded goes here
}

// Each change is told once. Data is asked for as well, since what is not read
// may hide what comes after it.
const watchEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLET

const (
	// aheadLimit is how many bytes of further requests may wait in the kernel while
	// one is served. It is below the smallest window of a connection, which an
	// end behind more bytes than that would never pass. Beyond, they are discarded
	// and the connection ends with the answer at hand.
	aheadLimit = 32 << 10
	// discardLimit is how much is discarded before the client is taken for gone.
	discardLimit = 64 << 20
	discardChunk = 64 << 10
)

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "epoll")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	w := &watcher{file: file, conn: conn, fd: fd, done: make(chan struct{}), watched: make(map[uint64]*watched), scratch: make([]byte, discardChunk)}
	go w.loop()
	return w, nil
}

// watch calls the functions of x, from the watcher's goroutine or, if the connection
// is closed already, from here; see watched. stop must be called before the
// connection is read again; a call that has begun by then may still come.
func (w *watcher) watch(c net.Conn, x watched) (stop func()) {
	x.raw = rawConn(c)
	if x.raw == nil {
		return func() {}
	}
	x.linger, _ = underTLS(c).(*lingerConn)
	w.mu.Lock()
	w.next++
	id := w.next
	w.watched[id] = &x
	w.mu.Unlock()
	// Both halves of the event's data hold the id.
	event := unix.EpollEvent{Events: watchEvents, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	if w.control(x.raw, unix.EPOLL_CTL_ADD, &event) != nil {
		// The server itself has closed it, in a shutdown: nothing would ever be told.
		w.fire(id, unix.EPOLLHUP)
	}
	return func() {
		w.mu.Lock()
		delete(w.watched, id)
		w.mu.Unlock()
		_ = w.control(x.raw, unix.EPOLL_CTL_DEL, nil) // closed meanwhile, or not: it is not watched any more
	}
}

// control changes the entry of a connection.
func (w *watcher) control(raw syscall.RawConn, op int, event *unix.EpollEvent) (err error) {
	closed := raw.Control(func(fd uintptr) { err = unix.EpollCtl(w.fd, op, int(fd), event) })
	return cmp.Or(closed, err)
}

func (w *watcher) loop() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 128)
	_ = w.conn.Read(func(fd uintptr) bool {
		for {
			n, err := unix.EpollWait(int(fd), events, 0)
			if err == unix.EINTR {
				continue
			}
			if err != nil || n == 0 {
				return false // wait until the instance is readable, or closed
			}
			for i := range events[:n] {
				w.fire(uint64(uint32(events[i].Fd))|uint64(uint32(events[i].Pad))<<32, events[i].Events)
			}
		}
	})
}

// fire acts on what the kernel tells about a connection.
func (w *watcher) fire(id uint64, events uint32) {
	if call := w.changed(id, events); call != nil {
		call()
	}
}

// changed returns whom to call, nil for nobody.
func (w *watcher) changed(id uint64, events uint32) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.watched[id]
	switch {
	case x == nil:
		return nil
	case events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
		delete(w.watched, id)
		return x.gone
	case events&unix.EPOLLRDHUP != 0:
		if x.isHalf {
			return nil
		}
		x.isHalf = true
		return x.half
	case w.discard(x) > discardLimit:
		delete(w.watched, id)
		return x.gone
	}
	return nil
}

// discard takes bytes that are too far ahead off a connection, which nobody reads
// at this time, and has it end when it is read again. It returns how many it
// has taken so far.
func (w *watcher) discard(x *watched) int {
	if x.linger == nil {
		return 0
	}
	_ = x.raw.Control(func(fd uintptr) {
		if ahead, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil || ahead <= aheadLimit && x.discarded == 0 {
			return
		}
		x.linger.spilled.Store(true)
		x.linger.linger.Store(true) // what comes after the answer must not reset it
		for taken := 0; taken < discardLimit/64; {
			n, _, err := unix.Recvfrom(int(fd), w.scratch, unix.MSG_DONTWAIT)
			if n <= 0 || err != nil {
				return
			}
			taken += n
			x.discarded += n
		}
	})
	return x.discarded
}

// close ends the loop. Nothing may be watched any more.
func (w *watcher) close() {
	_ = w.file.Close()
	<-w.done
}
