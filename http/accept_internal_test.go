package http

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// shortListener fails with the given errors, then accepts from a pipe.
type shortListener struct {
	net.Listener
	failures []error
	tries    chan struct{} // gets a value per failure; nil = nobody looks
}

func (l *shortListener) Accept() (net.Conn, error) {
	if len(l.failures) == 0 {
		server, client := net.Pipe()
		return server, client.Close()
	}
	err := l.failures[0]
	if l.tries == nil {
		l.failures = l.failures[1:]
	} else {
		l.tries <- struct{}{}
	}
	return nil, err
}

func (l *shortListener) Close() error { return nil }

func acceptError(errno syscall.Errno) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
}

func TestShortagesDoNotEndTheServer(t *testing.T) {
	l := newListener(&shortListener{failures: []error{acceptError(syscall.EMFILE), acceptError(syscall.ENFILE),
		acceptError(syscall.ENOBUFS), acceptError(syscall.ENOMEM), acceptError(syscall.ECONNABORTED)}}, &connSet{})
	c, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, c.Close())

	l = newListener(&shortListener{failures: []error{acceptError(syscall.EINVAL)}}, &connSet{})
	_, err = l.Accept()
	require.ErrorIs(t, err, syscall.EINVAL, "what does not pass is reported")
}

func TestClosingEndsAWaitForDescriptors(t *testing.T) {
	short := &shortListener{failures: []error{acceptError(syscall.EMFILE)}, tries: make(chan struct{}, 64)}
	l := newListener(short, &connSet{})
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	<-short.tries
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
}
