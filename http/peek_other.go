//go:build !unix

package http

import "net"

// peerGone cannot be answered here; a client that left is noticed when a write fails.
func peerGone(net.Conn) bool { return false }
