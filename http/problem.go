package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/anthropic"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

// statusError is a failure that HTTP itself has a status for and infer has no code for.
type statusError struct {
	status  int
	message string
}

// Error implements error.
func (e *statusError) Error() string { return e.message }

// problemOf turns any error that a handler returns into what the client sees.
func problemOf(err error) openai.Problem {
	var status *statusError
	if errors.As(err, &status) {
		return statusProblem(status.status, status.message)
	}
	var fiberErr *fiber.Error
	if !errors.As(err, &fiberErr) {
		return openai.FromError(infer.AsError(err))
	}
	switch fiberErr.Code {
	case http.StatusNotFound:
		return openai.FromError(infer.Errorf(infer.CodeNotFound, "", "Not Found"))
	case http.StatusMethodNotAllowed:
		return statusProblem(fiberErr.Code, http.StatusText(fiberErr.Code))
	}
	return openai.FromError(infer.Internal(err))
}

func statusProblem(status int, message string) openai.Problem {
	return openai.Problem{Status: status, Type: http.StatusText(status), Reason: "invalid_request_error", Message: message}
}

// writeProblem replaces what has been written of a response by an error, in the form
// of the API that was asked.
func writeProblem(ctx *fasthttp.RequestCtx, p openai.Problem) {
	ctx.Response.ResetBody()
	if x := exchangeOf(ctx); x.isMessages() {
		ctx.Response.Header.Set(headerMessagesID, x.name()) // a panic has taken it away
		writeJSON(ctx, p.Status, anthropic.AppendError(nil, p, x.name()))
		return
	}
	writeJSON(ctx, p.Status, p.AppendJSON(nil))
}

// writeJSON sets a body, which the response then owns.
func writeJSON(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.SetStatusCode(status)
	ctx.SetContentType(fiber.MIMEApplicationJSON)
	ctx.Response.SetBodyRaw(body)
}

// fail answers with an error that a handler returned. The cause of an internal
// one goes to the log only.
func (s *Server) fail(ctx *fasthttp.RequestCtx, err error) {
	if status := refuse(ctx, err); status == http.StatusInternalServerError { // and it has a name by now
		s.opts.Logger.LogAttrs(context.Background(), slog.LevelError, "request failed", append(exchangeOf(ctx).logAttrs(), slog.Any("error", err))...)
	}
}

// refuse answers with an error that needs no line in the log, or has one.
func refuse(ctx *fasthttp.RequestCtx, err error) (status int) {
	problem := problemOf(err)
	if problem.Status == http.StatusInternalServerError {
		problem.RequestID = exchangeOf(ctx).name()
		ctx.Response.Header.Set(openai.HeaderRequestID, problem.RequestID)
	}
	writeProblem(ctx, problem)
	if wait := infer.AsError(err).RetryAfter; wait > 0 {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	return problem.Status
}

// parseError answers what fasthttp could not read as a request. It takes none
// of the error's own text: that quotes the request.
func (s *Server) parseError(ctx *fasthttp.RequestCtx, err error) {
	problem := statusProblem(http.StatusBadRequest, "The request is not valid HTTP")
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &small):
		problem = statusProblem(http.StatusRequestHeaderFieldsTooLarge,
			"The request line and headers are larger than the limit of "+strconv.Itoa(s.opts.HeaderLimit)+" bytes")
	case errors.As(err, &timeout) && timeout.Timeout():
		problem = statusProblem(http.StatusRequestTimeout, "The request did not arrive in time")
	}
	lingerOnClose(ctx.Conn())
	_ = ctx.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
	writeProblem(ctx, problem)
	// When it began is not known: its connection may be much older.
	s.opts.HTTPMetrics.Observe(metrics.HTTPRequest{Handler: noRoute, Status: problem.Status, ResponseBytes: len(ctx.Response.Body())})
}

// connectionRefused tells a client that there are too many connections.
func (s *Server) connectionRefused(c net.Conn) {
	body := statusProblem(http.StatusServiceUnavailable, "The server has as many connections as it may have (--max-connections). Retry later.").AppendJSON(nil)
	s.opts.HTTPMetrics.Observe(metrics.HTTPRequest{Handler: noRoute, Status: http.StatusServiceUnavailable, ResponseBytes: len(body)})
	if c == nil || s.opts.TLS != nil { // a handshake first would cost more than the request
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body)
}
