package http

import "syscall"

// watched is a connection that the watcher watches, and whom it calls. Neither
// function may block.
type watched struct {
	half func() // once, when the peer has closed its sending half: it may still read
	gone func() // once, when the connection is closed or broken

	raw       syscall.RawConn
	linger    *lingerConn // nil = bytes that are ahead stay where they are
	isHalf    bool        // half has been called
	discarded int         // bytes that were ahead
}
