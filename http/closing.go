package http

import (
	"bytes"
	"io"
	"net"

	"github.com/valyala/fasthttp"
)

// writeUntilClose writes a stream whose end is that of the connection, as it goes:
// HTTP/1.0 has no chunks. It happens within the handler, past fasthttp, which has
// nothing to add.
func writeUntilClose(ctx *fasthttp.RequestCtx, e *events) {
	defer e.Close()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {}) // closes the connection
	h := &ctx.Response.Header
	h.SetConnectionClose()
	// The head of a response of no known length, without the mark of chunks.
	h.SetContentLength(-2)
	head := bytes.Replace(h.Header(), []byte("HTTP/1.1"), []byte("HTTP/1.0"), 1)
	if err := e.moveDeadline(); err != nil {
		_ = e.abandon(err)
		return
	}
	if _, err := ctx.Conn().Write(head); err != nil {
		_ = e.abandon(err)
		return
	}
	_, _ = e.WriteTo(io.Writer(ctx.Conn()))
}
