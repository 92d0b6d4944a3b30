package http

import (
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

	mu     sync.Mutex
	next   uint64            // ids are never used again, unlike file descriptors
	onGone map[uint64]func() // by id
}

const goneEvents = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLONESHOT

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
	w := &watcher{file: file, conn: conn, fd: fd, done: make(chan struct{}), onGone: make(map[uint64]func())}
	go w.loop()
	return w, nil
}

// watch calls gone, once and from the watcher's goroutine, when c's peer has
// closed its sending half or the connection. gone must not block. stop must be
// called before the connection is read again; afterwards gone is not called.
func (w *watcher) watch(c net.Conn, gone func()) (stop func()) {
	raw := rawConn(c)
	if raw == nil {
		return func() {}
	}
	w.mu.Lock()
	w.next++
	id := w.next
	w.onGone[id] = gone
	w.mu.Unlock()
	// Both halves of the event's data hold the id.
	event := unix.EpollEvent{Events: goneEvents, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	w.control(raw, unix.EPOLL_CTL_ADD, &event)
	return func() {
		w.mu.Lock()
		delete(w.onGone, id)
		w.mu.Unlock()
		w.control(raw, unix.EPOLL_CTL_DEL, nil)
	}
}

// control changes the entry of a connection. Errors are left alone: a
// connection that is closed already fails at its next read or write.
func (w *watcher) control(raw syscall.RawConn, op int, event *unix.EpollEvent) {
	_ = raw.Control(func(fd uintptr) {
		_ = unix.EpollCtl(w.fd, op, int(fd), event)
	})
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
				w.fire(uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32)
			}
		}
	})
}

func (w *watcher) fire(id uint64) {
	w.mu.Lock()
	gone := w.onGone[id]
	delete(w.onGone, id)
	w.mu.Unlock()
	if gone != nil {
		gone()
	}
}

// close ends the loop. Nothing may be watched any more.
func (w *watcher) close() {
	_ = w.file.Close()
	<-w.done
}
