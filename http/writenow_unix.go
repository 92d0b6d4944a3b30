//go:build unix

package http

import (
	"net"

	"golang.org/x/sys/unix"
)

// writeNow writes b if that can be done at once, whatever comes of it.
func writeNow(c net.Conn, b []byte) {
	raw := rawConn(c)
	if raw == nil {
		return
	}
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = unix.Write(int(fd), b)
		return true
	})
}
