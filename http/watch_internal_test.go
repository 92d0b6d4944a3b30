package http

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkWatch is what watching a connection costs a request, whose handling
// takes a millisecond and more with the embedded model. Goal: 3 % of that.
func BenchmarkWatch(b *testing.B) {
	w, err := newWatcher()
	require.NoError(b, err)
	defer w.close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	defer client.Close()
	c, err := ln.Accept()
	require.NoError(b, err)
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		w.watch(c, watched{})()
	}
}
