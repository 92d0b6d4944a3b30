//go:build unix && !linux

package http

import (
	"net"

	"golang.org/x/sys/unix"
)

// peek looks at a connection without taking anything from it: whether its peer
// has closed its sending half, or the connection is broken.
func peek(c net.Conn) (isHalf, isGone bool) {
	raw := rawConn(c)
	if raw == nil {
		return false, false
	}
	closed := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		isHalf = err == nil && n == 0
		isGone = err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return isHalf, isGone || closed != nil // by the server itself, in a shutdown
}
