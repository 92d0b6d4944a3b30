//go:build !unix

package http

import "net"

// peek cannot be answered here; a client that left is noticed when a write fails.
func peek(net.Conn) (isHalf, isGone bool) { return false, false }

// writeNow cannot be done here.
func writeNow(net.Conn, []byte) {}
