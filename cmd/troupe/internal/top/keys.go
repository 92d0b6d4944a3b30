package top

import (
	"bytes"
	"context"
	"io"
)

// key is a key that means something here.
type key int

// The keys.
const (
	keyUp key = iota + 1
	keyDown
	keyCancel
	keyQuit
)

// bindings are the bytes that a terminal in raw mode sends for keys.
var bindings = []struct {
	bytes []byte
	key   key
}{
	{[]byte("\x1b[A"), keyUp}, {[]byte("\x1bOA"), keyUp}, {[]byte("k"), keyUp},
	{[]byte("\x1b[B"), keyDown}, {[]byte("\x1bOB"), keyDown}, {[]byte("j"), keyDown},
	{[]byte("x"), keyCancel},
	{[]byte("q"), keyQuit}, {[]byte{3}, keyQuit}, {[]byte{4}, keyQuit}, // Ctrl-C and Ctrl-D
}

// readKeys reads keys until r ends, and then closes the channel. After ctx's end
// it stops at the next byte: a read of a terminal cannot be interrupted.
func readKeys(ctx context.Context, r io.Reader) <-chan key {
	keys := make(chan key)
	go func() {
		defer close(keys)
		var buf [64]byte
		for {
			n, err := r.Read(buf[:])
			for _, k := range parseKeys(buf[:n]) {
				select {
				case keys <- k:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}

// parseKeys finds known keys; a sequence that a terminal sends comes in one read.
func parseKeys(b []byte) []key {
	var keys []key
next:
	for len(b) > 0 {
		for _, binding := range bindings {
			if bytes.HasPrefix(b, binding.bytes) {
				keys = append(keys, binding.key)
				b = b[len(binding.bytes):]
				continue next
			}
		}
		b = b[max(escapeLength(b), 1):]
	}
	return keys
}

// escapeLength returns the length of an unknown escape sequence at the head of b,
// so that its letters are not taken for keys; 0 = there is none.
func escapeLength(b []byte) int {
	if len(b) < 2 || b[0] != 0x1b || b[1] != '[' && b[1] != 'O' {
		return 0
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= 0x40 && b[i] <= 0x7e {
			return i + 1
		}
	}
	return len(b)
}
