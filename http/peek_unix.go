//go:build unix && !linux

package http

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerGone looks at a connection without taking anything from it: it reports
// whether its peer has closed its sending half or the connection.
func peerGone(c net.Conn) bool {
	raw := rawConn(c)
	if raw == nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = (err == nil && n == 0) || (err != nil && err != unix.EAGAIN && err != unix.EINTR)
	})
	return gone
}
