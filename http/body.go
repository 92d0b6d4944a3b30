package http

import (
	"errors"
	"io"
	"mime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

const (
	firstBodyBuffer = 16 << 10
	// minBodyRate is the bytes per second that a body must keep up in either
	// direction, so that nobody can hold a connection for ever.
	minBodyRate = 16 << 10
	// A server holds at most this many times its body limit in unparsed bodies.
	bodyBudgetFactor = 8
)

// budget is the memory that bodies may take until they are parsed, in bytes.
type budget struct{ left atomic.Int64 }

func (b *budget) take(n int) bool {
	if b.left.Add(-int64(n)) >= 0 {
		return true
	}
	b.left.Add(int64(n))
	return false
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

// withBody reads the request's JSON body into memory of its own, lets use read
// it, and forgets it: use must copy what it keeps for longer than that.
func (s *Server) withBody(c *fiber.Ctx, use func(body []byte) error) error {
	x := exchangeOf(c.Context())
	if err := checkBodyHeaders(&c.Request().Header); err != nil {
		return err
	}
	body, err := s.readBody(c.Context())
	defer func() { s.bodies.give(cap(body)) }()
	if err != nil {
		return err
	}
	x.requestBytes, x.bodyRead = len(body), true
	return use(body)
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
// by what the client announces; its capacity is taken from the budget.
func (s *Server) readBody(ctx *fasthttp.RequestCtx) ([]byte, error) {
	size, limit := ctx.Request.Header.ContentLength(), s.opts.BodyLimit
	if size > limit {
		return nil, s.tooLarge(ctx)
	}
	stream := ctx.RequestBodyStream()
	if stream == nil { // neither a length nor chunks: no body
		return nil, nil
	}
	if size == chunked { // one more byte tells whether the limit is passed
		size = limit + 1
	}
	start := time.Now()
	var body []byte
	for {
		if len(body) == cap(body) {
			grown, err := s.grow(body, size)
			if err != nil {
				ctx.SetConnectionClose()
				return body, err
			}
			body = grown
		}
		n, err := stream.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > limit:
			return body, s.tooLarge(ctx)
		case err == io.EOF:
			return body, nil
		case err != nil:
			return body, bodyError(ctx, err)
		}
		deadline := start.Add(transferTime(s.opts.ReadTimeout, len(body)))
		if err := ctx.Conn().SetReadDeadline(deadline); err != nil {
			return body, bodyError(ctx, err)
		}
	}
}

// transferTime is how long numBytes of a body may take.
func transferTime(grace time.Duration, numBytes int) time.Duration {
	return grace + time.Duration(numBytes)*time.Second/minBodyRate
}

// grow returns body with twice the capacity, at most size (but at least one
// byte more, for the read that finds the end).
func (s *Server) grow(body []byte, size int) ([]byte, error) {
	next := max(min(max(2*cap(body), firstBodyBuffer), size), len(body)+1)
	if !s.bodies.take(next) {
		return body, &infer.Error{
			Code:       infer.CodeOverloaded,
			Message:    "The server holds too many unread request bodies",
			RetryAfter: time.Second,
		}
	}
	s.bodies.give(cap(body))
	grown := make([]byte, len(body), next)
	copy(grown, body)
	return grown[:len(body):next], nil
}

func (s *Server) tooLarge(ctx *fasthttp.RequestCtx) error {
	ctx.SetConnectionClose()
	return infer.Errorf(infer.CodeTooLarge, "", "The request body is larger than the limit of %d bytes", s.opts.BodyLimit)
}

// bodyError says why a body did not arrive. The connection is at an unknown
// place in it and is closed.
func bodyError(ctx *fasthttp.RequestCtx, err error) error {
	ctx.SetConnectionClose()
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &statusError{fiber.StatusRequestTimeout, "The request body did not arrive in time"}
	}
	return infer.Errorf(infer.CodeMalformed, "", "The request body could not be read to its end")
}

// expect answers "Expect: 100-continue": a body that is too large is refused
// before it is sent.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if ctx.Request.Header.ContentLength() <= s.opts.BodyLimit {
		return fasthttp.StatusContinue
	}
	problem := problemOf(s.tooLarge(ctx))
	writeProblem(ctx, problem)
	lingerOnClose(ctx.Conn())
	s.opts.HTTPMetrics.Observe(metrics.HTTPRequest{
		Handler: noRoute, Method: string(ctx.Method()), Status: problem.Status, ResponseBytes: len(ctx.Response.Body()),
	})
	return fasthttp.StatusRequestEntityTooLarge
}
