package cluster

import (
	"errors"
	"io"
	"sync"
)

// Link is one side of a session: a stream of Out to the other side, and of In from
// there. Messages arrive in order, and none is lost without the link's end. How much
// is on its way is bounded by HTTP/2's windows, a stream's own: one that is not read
// stops no other.
type Link[In, Out any] struct {
	stream messageStream
	cancel func() // makes reads and writes of the stream fail; nil = only its end does

	mu     sync.Mutex
	queue  []*Out
	end    linkEnd
	wake   chan struct{} // capacity 1
	failed chan struct{} // closed when end is linkAbandoned
}

// messageStream is what client and server streams of gRPC have in common.
type messageStream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

type linkEnd int

const (
	linkOpen linkEnd = iota
	linkFinished
	linkAbandoned
)

// maxQueued bounds the messages that wait for the other side to read. What it does
// not read for so long belongs to a node that is as good as dead.
const maxQueued = 1 << 16

// ErrAbandoned is how a link ends that this side gave up.
var ErrAbandoned = errors.New("cluster: the session was given up")

func newLink[In, Out any](stream messageStream, cancel func()) *Link[In, Out] {
	return &Link[In, Out]{stream: stream, cancel: cancel, wake: make(chan struct{}, 1), failed: make(chan struct{})}
}

// Send queues a message; it never blocks. After the link's end it does nothing.
func (l *Link[In, Out]) Send(m *Out) {
	l.mu.Lock()
	overflow := len(l.queue) == maxQueued
	if l.end == linkOpen && !overflow {
		l.queue = append(l.queue, m)
	}
	l.mu.Unlock()
	if overflow {
		l.Abandon()
		return
	}
	l.signal()
}

// Finish ends the link after what is queued has been written.
func (l *Link[In, Out]) Finish() {
	l.setEnd(linkFinished)
	l.signal()
}

// Abandon ends the link at once. Idempotent.
func (l *Link[In, Out]) Abandon() {
	if l.setEnd(linkAbandoned) {
		close(l.failed)
		if l.cancel != nil {
			l.cancel()
		}
	}
}

// setEnd reports whether the end is new; a later kind replaces an earlier one.
func (l *Link[In, Out]) setEnd(end linkEnd) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end >= end {
		return false
	}
	l.end = end
	return true
}

func (l *Link[In, Out]) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run writes what is queued and calls receive with what comes, in order and from one
// goroutine, until the link ends. It returns nil if either side ended it in good
// order; everything that the other side has sent has been received then.
func (l *Link[In, Out]) run(receive func(*In)) error {
	ended := make(chan error, 1)
	go func() { ended <- l.readAll(receive) }()
	for {
		l.mu.Lock()
		queue, end := l.queue, l.end
		l.queue = nil
		l.mu.Unlock()
		for _, m := range queue {
			if l.stream.SendMsg(m) != nil {
				return <-ended // it knows why, and what came before
			}
		}
		switch {
		case end == linkAbandoned:
			return ErrAbandoned
		case len(queue) > 0:
		case end == linkFinished:
			return nil
		default:
			select {
			case <-l.wake:
			case <-l.failed:
			case err := <-ended:
				return err
			}
		}
	}
}

func (l *Link[In, Out]) readAll(receive func(*In)) error {
	for {
		m := new(In)
		if err := l.stream.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		receive(m)
	}
}
