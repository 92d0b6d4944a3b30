package http

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/valyala/fasthttp"
)

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
		req, err := s.readCall(c, p)
		if err != nil {
			return err
		}
		if err := s.follow(req, x.key); err != nil {
			return err
		}
		s.keys.sign(req.Request, x.key)
		e.identify(req.Request)
		x.responseID = req.Reply.ID
		if len(req.Ignored) > 0 {
			s.opts.Logger.LogAttrs(context.Background(), slog.LevelDebug, "fields without effect", append(x.logAttrs(), slog.Any("fields", req.Ignored))...)
		}
		return s.run(c.Context(), req, func(call *call, stream infer.Stream) infer.Stream {
			admitted = true
			call.meter = &meter{Stream: s.keep(req, x.key, call, stream), entry: e, call: call}
			return call.meter
		})
	}
}

// readCall reads the body and takes the request off its key's limits.
func (s *Server) readCall(c *fiber.Ctx, p parse) (req *openai.Call, err error) {
	err = s.withBody(c, func(body []byte) (err error) {
		if err := exchangeOf(c.Context()).key.admit(time.Now()); err != nil {
			return err
		}
		req, err = p(body, &s.profile, envelope(c))
		return err
	})
	return req, err
}

// envelope copies what a request needs of its headers.
func envelope(c *fiber.Ctx) openai.Envelope {
	h := &c.Request().Header
	return openai.Envelope{
		NewID:     newID(),
		RequestID: string(h.Peek(openai.HeaderRequestID)),
		Priority:  string(h.Peek(openai.HeaderPriority)),
		Created:   time.Now().Unix(),
		Arrival:   infer.Now(),
	}
}

// run admits a request and answers it. Every refusal comes before the first
// byte, as a status of its own. An admitted stream is read through what admitted
// makes of it.
func (s *Server) run(ctx *fasthttp.RequestCtx, req *openai.Call, admitted func(*call, infer.Stream) infer.Stream) error {
	x, admission := s.begin(ctx.Conn(), true)
	streamed := false
	defer func() {
		if !streamed { // else the event stream ends the call
			s.end(x)
		}
	}()
	stream, err := s.opts.Generator.Generate(admission, req.Request)
	switch {
	case err != nil && x.hasGone():
		return clientGone(ctx)
	case err != nil:
		return err
	}
	stream = admitted(x, stream)
	x.attach(stream)
	if !req.Reply.Stream {
		return s.answer(ctx, x, req, stream)
	}
	events := s.newEvents(ctx, x, req.NewStream(), stream)
	streamed = true
	ctx.SetContentType("text/event-stream; charset=utf-8")
	ctx.Response.Header.Set(fiber.HeaderCacheControl, "no-cache")
	ctx.Response.Header.Set("X-Accel-Buffering", "no") // proxies must not hold chunks back
	if !ctx.Request.Header.IsHTTP11() {
		return s.answerBuffered(ctx, events)
	}
	ctx.Response.ImmediateHeaderFlush = true
	ctx.Response.SetBodyStream(events, -1)
	events.exchange.streamed = true
	return nil
}

// clientGone leaves a mark for the log and the metrics; nobody reads the answer.
func clientGone(ctx *fasthttp.RequestCtx) error {
	ctx.SetStatusCode(metrics.StatusClientGone)
	ctx.SetConnectionClose()
	return nil
}

// answer waits for the whole output and writes one body.
func (s *Server) answer(ctx *fasthttp.RequestCtx, x *call, req *openai.Call, stream infer.Stream) error {
	over := false
	defer func() {
		if !over {
			x.cancel(infer.CancelAdmin)
		}
	}()
	collector := req.NewBody()
	var pending []infer.Event
	for {
		select {
		case <-x.gone:
			return clientGone(ctx)
		case <-stream.Ready():
		}
		pending = stream.Drain(pending[:0])
		for i := range pending {
			final := pending[i].Final
			if final == nil {
				collector.Add(&pending[i].Delta)
				continue
			}
			over = true
			if final.Err != nil {
				refuse(ctx, final.Err) // the generator has logged it
				return nil
			}
			writeJSON(ctx, fasthttp.StatusOK, collector.AppendBody(nil, final))
			return nil
		}
	}
}

// answerBuffered sends the events of a stream as one body: HTTP/1.0 has no
// chunks to send them in.
func (s *Server) answerBuffered(ctx *fasthttp.RequestCtx, events *events) error {
	defer events.Close()
	var body bytes.Buffer
	if _, err := events.WriteTo(&body); err != nil {
		return clientGone(ctx)
	}
	ctx.Response.SetBodyRaw(body.Bytes())
	return nil
}
