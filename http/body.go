package http

import (
	"io"
	"mime"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
)

// body is a request's body in memory of its own, from the first byte to release.
// use must copy what it keeps for longer than that.
type body struct {
	bytes    []byte
	transfer *transfer
}

// release gives the memory back; it may be called more than once.
func (b *body) release() {
	b.bytes = nil
	b.transfer.release()
}

// takeBody reads the request's JSON body. The caller releases it.
func (s *Server) takeBody(c *fiber.Ctx) (*body, error) {
	x := exchangeOf(c.Context())
	if err := checkBodyHeaders(&c.Request().Header); err != nil {
		return nil, err
	}
	conn := c.Context().Conn()
	serving(conn, false)
	defer serving(conn, true)
	b := &body{transfer: s.newTransfer(conn, x)}
	if err := s.readBody(c.Context(), b); err != nil {
		b.release()
		return nil, err
	}
	x.requestBytes, x.bodyRead = len(b.bytes), true
	return b, nil
}

// withBody reads the request's JSON body, lets use read it, and forgets it.
func (s *Server) withBody(c *fiber.Ctx, use func(body []byte) error) error {
	b, err := s.takeBody(c)
	if err != nil {
		return err
	}
	defer b.release()
	return use(b.bytes)
}

// checkBodyHeaders accepts plain JSON.
func checkBodyHeaders(h *fasthttp.RequestHeader) error {
	if encoding := string(h.ContentEncoding()); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return &statusError{fiber.StatusUnsupportedMediaType, "Content-Encoding is not supported; send the body as it is"}
	}
	media, _, err := mime.ParseMediaType(string(h.ContentType()))
	if err != nil || media != fiber.MIMEApplicationJSON {
		return infer.Errorf(infer.CodeMalformed, "", "Unsupported Media Type: Only 'application/json' is allowed as Content-Type")
	}
	return nil
}

// readBody reads up to BodyLimit bytes. The buffer grows as bytes arrive, never
// by what the client announces.
func (s *Server) readBody(ctx *fasthttp.RequestCtx, b *body) error {
	size, limit := ctx.Request.Header.ContentLength(), s.opts.BodyLimit
	if size > limit || len(ctx.Request.Header.Peek(announcedTooLarge)) > 0 {
		return s.tooLarge(ctx)
	}
	stream := ctx.RequestBodyStream()
	if stream == nil { // neither a length nor chunks: no body
		return nil
	}
	if size == chunked { // one more byte tells whether the limit is passed
		size = limit + 1
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			grown, err := b.transfer.grow(b.bytes, size)
			if err != nil {
				ctx.SetConnectionClose()
				return err
			}
			b.bytes = grown
		}
		n, err := stream.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case len(b.bytes) > limit:
			return s.tooLarge(ctx)
		case err == io.EOF:
			return b.transfer.arrived(ctx)
		case err != nil:
			return b.transfer.failed(ctx, err)
		}
		if err := b.transfer.progress(n); err != nil {
			return b.transfer.failed(ctx, err)
		}
	}
}

// announcedTooLarge is a header of our own that keeps what headerReceived found. A
// client that sends it refuses itself.
const announcedTooLarge = "X-Troupe-Body-Too-Large"

// headerReceived is asked before the server waits for a body. One that will not
// be read is taken for one in chunks, whose beginning nobody waits for, and is not
// asked for with a 100: the refusal goes out at once.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) (unchanged fasthttp.RequestConfig) {
	size := h.ContentLength()
	isLarge := size > s.opts.BodyLimit
	if size == 0 || !isLarge && s.keys.mayPass(s.keys.find(h), h, s.localPath(string(h.RequestURI()))) {
		return unchanged
	}
	h.Del(fasthttp.HeaderExpect)
	if isLarge {
		h.Set(announcedTooLarge, "1")
	}
	if size > 0 {
		h.SetContentLength(chunked)
	}
	return unchanged
}

func (s *Server) tooLarge(ctx *fasthttp.RequestCtx) error {
	ctx.SetConnectionClose()
	return infer.Errorf(infer.CodeTooLarge, "", "The request body is larger than the limit of %d bytes", s.opts.BodyLimit)
}
