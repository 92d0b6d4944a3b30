package http

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

const (
	noRoute     = "none" // the handler label of paths that match no route
	maxLogPath  = 256
	maxMethod   = 16 // bytes; the longest that is served has seven
	exchangeKey = "troupe.exchange"
	chunked     = -1 // fasthttp's content length of a body that comes in chunks
)

// exchange is what the server remembers of one request until its answer is
// over. It holds no memory of the server's buffers.
type exchange struct {
	start        time.Time
	route        string // template of the matched route, noRoute until then
	method, path string // the path is cut for the log
	requestID    string // X-Request-Id: the client's, or the one that the response has; "" = neither
	responseID   string // chatcmpl-… or cmpl-…; "" until the body has been understood
	key          *key   // that the request was sent with; nil = none
	requestBytes int
	heldBytes    int  // of an answer that is too large to be looked at again, 0 = it is not
	bodyRead     bool // the whole body was read
	streamed     bool // the answer ends with its event stream, not with the handler
	// streamError is why an event stream broke off, "" if it did not: the status
	// had been sent before.
	streamError infer.Code
}

// exchangeOf returns the exchange of a request.
func exchangeOf(ctx *fasthttp.RequestCtx) *exchange {
	if x, ok := ctx.UserValue(exchangeKey).(*exchange); ok {
		return x
	}
	return &exchange{route: noRoute}
}

// serve is the outermost handler: everything that holds for each request,
// whatever its route, is here.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	x := &exchange{start: time.Now(), route: noRoute, method: shownMethod(ctx.Method())}
	ctx.SetUserValue(exchangeKey, x)
	serving(ctx.Conn(), true) // takeBody takes it back for a while
	defer s.finishHandler(ctx, x)
	sent := string(ctx.URI().PathOriginal())
	path := s.localPath(sent)
	if path != sent {
		ctx.URI().SetPath(path)
	}
	x.path = path[:min(len(path), maxLogPath)]
	s.takeRequestID(ctx, x)
	if x.isMessages() {
		ctx.Response.Header.Set(headerMessagesID, x.name())
	}
	if !bytes.HasPrefix(ctx.Request.Header.Protocol(), []byte("HTTP/1.")) {
		ctx.SetConnectionClose()
		writeProblem(ctx, statusProblem(fasthttp.StatusHTTPVersionNotSupported, "This server speaks HTTP/1.1 and HTTP/1.0"))
		return
	}
	if !soundHeaders(ctx.Request.Header.RawHeaders()) {
		ctx.SetConnectionClose()
		writeProblem(ctx, statusProblem(fasthttp.StatusBadRequest, "The request is not valid HTTP"))
		return
	}
	if s.cors(ctx) {
		return
	}
	if x.key = s.keys.find(&ctx.Request.Header); !s.keys.mayPass(x.key, &ctx.Request.Header, path) {
		if _, ok := generating[path]; ok {
			s.ledger.open(x, path).refused(fasthttp.StatusUnauthorized, nil)
		}
		writeUnauthorized(ctx)
		return
	}
	if !slices.Contains(fiber.DefaultMethods, x.method) {
		writeProblem(ctx, problemOf(fiber.ErrMethodNotAllowed))
		return
	}
	s.routes(ctx)
}

// shownMethod is a method as logs and metrics have it: a client may send any word,
// of any length.
func shownMethod(sent []byte) string {
	shown := []byte(string(sent[:min(len(sent), maxMethod)]))
	for i, c := range shown {
		if c <= ' ' || c > '~' || c == '"' {
			shown[i] = '?'
		}
	}
	return string(shown)
}

// localPath takes the prefix that a proxy has added off a path.
func (s *Server) localPath(path string) string {
	if rest, ok := strings.CutPrefix(path, s.opts.RootPath); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}

// finishHandler runs when the handler has returned or panicked.
func (s *Server) finishHandler(ctx *fasthttp.RequestCtx, x *exchange) {
	if r := recover(); r != nil {
		x.streamed = false
		x.name()
		s.logPanic(x, r)
		ctx.Response.Reset()
		refuse(ctx, errPanic)
	}
	if size := ctx.Request.Header.ContentLength(); !x.bodyRead && (size > 0 || size == chunked) {
		ctx.SetConnectionClose()
		lingerOnClose(ctx.Conn())
	}
	if x.streamed { // reading its body here would pull the stream
		_ = ctx.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
		return
	}
	size, rate := x.heldBytes, minHeldRate
	if size == 0 {
		size, rate = len(ctx.Response.Body()), minBodyRate
	}
	_ = ctx.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout + time.Duration(size)*time.Second/time.Duration(rate)))
	s.observe(x, ctx.Response.StatusCode(), size)
}

// observe records a request whose answer is over.
func (s *Server) observe(x *exchange, status, responseBytes int) {
	took := time.Since(x.start)
	s.opts.HTTPMetrics.Observe(metrics.HTTPRequest{
		Handler: x.route, Method: x.method, Status: status, Duration: took,
		RequestBytes: x.requestBytes, ResponseBytes: responseBytes,
	})
	if !s.opts.AccessLog || slices.Contains(s.opts.AccessLogExclude, x.path) {
		return
	}
	level := slog.LevelInfo
	if slices.Contains(polledRoutes, x.route) && status < fasthttp.StatusBadRequest {
		level = slog.LevelDebug
	}
	attrs := append(x.logAttrs(), slog.Int("status", status), slog.Float64("ms", float64(took.Microseconds())/1e3),
		slog.Int("bytes_in", x.requestBytes), slog.Int("bytes_out", responseBytes))
	if x.streamError != "" {
		attrs = append(attrs, slog.String("error", string(x.streamError)))
	}
	s.opts.Logger.LogAttrs(context.Background(), level, "request", attrs...)
}

// polledRoutes are asked every few seconds by monitors and balancers. Their
// successes would drown what people look for in the log.
var polledRoutes = []string{"/health", "/ping", "/metrics", "/load", "/v1/requests"}

// logAttrs says which request a line of the log is about.
func (x *exchange) logAttrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs, slog.String("method", x.method), slog.String("path", x.path))
	if x.responseID != "" {
		attrs = append(attrs, slog.String("id", x.responseID))
	}
	if x.requestID != "" {
		attrs = append(attrs, slog.String("request_id", x.requestID))
	}
	return attrs
}

// name returns what a failure can be found by in the log: the client's id, or the
// response's, or a fresh one.
func (x *exchange) name() string {
	switch {
	case x.requestID != "":
		return x.requestID
	case x.responseID != "":
		return x.responseID
	}
	x.requestID = newID()
	return x.requestID
}

// takeRequestID takes the client's id, and gives the response one if the server
// is told to: the client's, else a fresh one.
func (s *Server) takeRequestID(ctx *fasthttp.RequestCtx, x *exchange) {
	if id := string(ctx.Request.Header.Peek(openai.HeaderRequestID)); openai.CheckRequestID(id, openai.HeaderRequestID) == nil {
		x.requestID = id
	}
	if !s.opts.RequestIDHeaders {
		return
	}
	if x.requestID == "" {
		x.requestID = newID()
	}
	ctx.Response.Header.Set(openai.HeaderRequestID, x.requestID)
}
