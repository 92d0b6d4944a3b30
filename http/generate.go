package http

import (
	"context"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

const headerServerTiming = "Server-Timing"

// parse is openai.ParseChat or openai.ParseCompletion.
type parse func([]byte, *openai.Profile, openai.Envelope) (*openai.Call, error)

// generate serves an endpoint that generates text. Its entry is closed here if
// the request is refused, else by the meter of its stream.
func (s *Server) generate(path string, p parse) fiber.Handler {
	return func(c *fiber.Ctx) (err error) {
		x := exchangeOf(c.Context())
		e := s.ledger.open(x, path)
		admitted := false
		defer func() {
			if !admitted {
				e.refused(c.Response().StatusCode(), err)
			}
		}()
		b, err := s.takeBody(c)
		if err != nil {
			return err
		}
		defer b.release()
		call := s.begin(c.Context(), true)
		streamed := false
		defer func() {
			if !streamed { // else the event stream ends the call
				s.end(call)
			}
		}()
		req, stream, err := s.admit(c, call, e, unparsed{b, p})
		switch {
		case err != nil && call.hasGone():
			return clientGone(c.Context())
		case err != nil:
			return err
		}
		admitted = true
		call.meter = &meter{Stream: stream, entry: e, call: call}
		call.attach(call.meter)
		switch {
		case req.Response != nil && req.Response.Background:
			return answerLater(c.Context(), req)
		case !req.Reply.Stream:
			return s.answer(c.Context(), call, req)
		}
		streamed = true
		return s.stream(c.Context(), call, req)
	}
}

// unparsed is a body with what parses it.
type unparsed struct {
	*body
	parse parse
}

// admit prepares a request and hands it to the generator, when it is its turn.
// Every refusal comes before the first byte, as a status of its own. The clock of
// the request runs from here on, the wait for its turn included.
func (s *Server) admit(c *fiber.Ctx, call *call, e *entry, body unparsed) (*openai.Call, infer.Stream, error) {
	x := exchangeOf(c.Context())
	envelope := s.envelope(c)
	if err := x.key.admit(time.Now()); err != nil {
		return nil, nil, err
	}
	pass, err := s.gate.enter(call.ctx, len(body.bytes))
	if err != nil {
		return nil, nil, err
	}
	defer pass.leave()
	req, err := body.parse(body.bytes, &s.profile, envelope)
	body.release()
	if err != nil {
		return nil, nil, err
	}
	if err := pass.reclassify(call.ctx, req.Request); err != nil {
		return nil, nil, err
	}
	if err := s.prepareResponse(req, x.key); err != nil {
		return nil, nil, err
	}
	s.keys.sign(req.Request, x.key)
	e.identify(req.Request)
	x.responseID = req.Reply.ID
	if len(req.Ignored) > 0 {
		s.opts.Logger.LogAttrs(context.Background(), slog.LevelDebug, "fields without effect", append(x.logAttrs(), slog.Any("fields", req.Ignored))...)
	}
	kept, err := s.reserve(req, x.key, call)
	if err != nil {
		return nil, nil, err
	}
	stream, err := s.submit(req, call, x.key, kept)
	return req, stream, err
}

// envelope copies what a request needs of its headers, and names the tools there are.
func (s *Server) envelope(c *fiber.Ctx) openai.Envelope {
	h := &c.Request().Header
	e := openai.Envelope{
		NewID:     newID(),
		RequestID: string(h.Peek(openai.HeaderRequestID)),
		Priority:  string(h.Peek(openai.HeaderPriority)),
		Metrics:   string(h.Peek(openai.HeaderMetrics)),
		Created:   time.Now().Unix(),
		Arrival:   infer.Now(),
		Receive:   time.Since(exchangeOf(c.Context()).start).Nanoseconds(),
	}
	if s.opts.Tools != nil {
		e.ToolServers = s.opts.Tools.Servers()
	}
	return e
}

// stream answers with events, which the connection's goroutine pulls and which
// end the call.
func (s *Server) stream(ctx *fasthttp.RequestCtx, x *call, req *openai.Call) error {
	events := s.newEvents(ctx, x, req.NewStream(), x.meter)
	if req.Response != nil {
		events.held = &held{server: s, copies: responseCopies}
	}
	x.answers()
	ctx.SetContentType("text/event-stream; charset=utf-8")
	ctx.Response.Header.Set(fiber.HeaderCacheControl, "no-cache")
	ctx.Response.Header.Set("X-Accel-Buffering", "no") // proxies must not hold chunks back
	events.exchange.streamed = true
	if !ctx.Request.Header.IsHTTP11() {
		writeUntilClose(ctx, events)
		return nil
	}
	ctx.Response.ImmediateHeaderFlush = true
	ctx.Response.SetBodyStream(events, -1)
	return nil
}

// clientGone leaves a mark for the log and the metrics; nobody reads the answer.
func clientGone(ctx *fasthttp.RequestCtx) error {
	ctx.SetStatusCode(metrics.StatusClientGone)
	ctx.SetConnectionClose()
	return nil
}

// answer waits for the whole output and writes one body. The call is its reader's,
// so that what a client does not get costs no more than the way to the limit.
func (s *Server) answer(ctx *fasthttp.RequestCtx, x *call, req *openai.Call) (err error) {
	held := s.newHeld()
	x.unary()
	over := false
	defer func() {
		if over {
			return
		}
		held.release()
		if err == nil { // a panic
			x.cancel(infer.CancelInternal)
			return
		}
		x.meter.status, x.meter.told = problemOf(err).Status, infer.AsError(err)
		x.cancel(infer.CancelTooLarge)
	}()
	collector := req.NewBody()
	var pending []infer.Event
	for {
		select {
		case <-x.gone:
			x.meter.status = metrics.StatusClientGone
			return clientGone(ctx)
		case <-x.meter.Ready():
		}
		pending = x.meter.Drain(pending[:0])
		for i := range pending {
			final := pending[i].Final
			if final == nil {
				if err := held.addDelta(&pending[i].Delta); err != nil {
					return err
				}
				collector.Add(&pending[i].Delta)
				continue
			}
			over = true
			switch {
			case x.meter.entry.Status == metrics.StatusClientGone:
				held.release()
				return clientGone(ctx)
			case final.Err != nil && final.Loop == nil:
				held.release()
				refuse(ctx, final.Err) // the generator has logged it
				return nil
			}
			final.StampWritten(infer.Now())
			if req.Reply.ServerTiming && final.Metrics != nil {
				ctx.Response.Header.SetBytesV(headerServerTiming, openai.AppendServerTiming(nil, final.Metrics))
			}
			held.write(ctx, collector.AppendBody(held.buffer(), final))
			return nil
		}
	}
}
