package http

import (
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
)

const (
	responsesPath = "/v1/responses"
	// cancelGrace is how long the answer to a cancellation waits for the end.
	cancelGrace = 5 * time.Second
	maxIDShown  = 160 // bytes of an unknown id that its error repeats
)

// addResponseRoutes registers what is done with a response that has been made.
// Making one is an endpoint that generates, like others.
func (s *Server) addResponseRoutes(app *fiber.App) {
	app.Get(responsesPath+"/*", matched(responsesPath+"/{id}"), s.getResponse)
	app.Delete(responsesPath+"/*", matched(responsesPath+"/{id}"), s.deleteResponse)
	app.Post(responsesPath+"/*", matched(responsesPath+"/{id}/cancel"), s.cancelResponse)
}

// prepareResponse decides whether a response is kept, and puts the conversation of
// the one that it continues before its input.
func (s *Server) prepareResponse(req *openai.Call, k *key) error {
	r := req.Response
	if r == nil {
		return nil
	}
	if r.Store = r.Store && s.responses.isOn; r.Background && !r.Store {
		return infer.Errorf(infer.CodeInvalid, "background", "background: needs store: true, and a server that was started with --enable-response-store")
	}
	if !r.Store {
		defer r.Forget()
	}
	id := r.PreviousID
	if id == "" {
		return nil
	}
	kept, ok := s.responses.find(k, id, time.Now())
	switch {
	case !ok:
		return s.noSuchResponse("previous_response_id", id)
	case kept.end.messages == nil:
		return infer.Errorf(infer.CodeInvalid, "previous_response_id", "previous_response_id: response '%s' has not come to its end", id)
	}
	return req.Follow(kept.end.messages)
}

// reserve makes room for a response that shall be kept; nil if it shall not, or the
// store is full and its client waits for it anyway.
func (s *Server) reserve(req *openai.Call, k *key, c *call) (*keptResponse, error) {
	r := req.Response
	if r == nil || !r.Store {
		return nil, nil
	}
	kept := &keptResponse{
		id: req.Reply.ID, owner: k, since: time.Now(), over: make(chan struct{}), cancel: c.cancel, isBackground: r.Background,
		started: req.NewResponseBody().AppendStarted(nil), input: r.TakeInput(), working: r.NumBytes(),
	}
	err := s.responses.add(kept)
	switch {
	case err == nil:
		return kept, nil
	case r.Background:
		return nil, err
	}
	r.Store = false
	r.Forget()
	return nil, nil
}

// submit hands a request to the generator. The stream keeps the response made of it,
// unless kept is nil.
func (s *Server) submit(req *openai.Call, c *call, owner *key, kept *keptResponse) (stream infer.Stream, err error) {
	if kept != nil {
		defer func() {
			if stream == nil {
				s.responses.drop(kept)
			}
		}()
	}
	made, err := s.generateTurns(req, c, owner)
	switch {
	case err != nil:
		return nil, err
	case kept == nil:
		return made, nil
	}
	return &keeper{Stream: made, store: &s.responses, kept: kept, body: req.NewResponseBody(), held: s.newHeld()}, nil
}

// keeper is a stream that keeps the response made of it. It sees every event,
// whoever reads them and however the request ends.
type keeper struct {
	infer.Stream
	store   *responseStore
	kept    *keptResponse
	body    *openai.ResponseBody // nil = it is over, or is not kept any more
	held    *held                // until the store counts it
	charged int                  // bytes of output that the store knows of
	isFull  bool                 // no more output is taken; in the background only
}

// growStep is how much output comes together before the store is told of it.
const growStep = 16 << 10

// Drain implements infer.Stream.
func (k *keeper) Drain(buf []infer.Event) []infer.Event {
	before := len(buf)
	buf = k.Stream.Drain(buf)
	for i := before; i < len(buf) && k.body != nil; i++ {
		if f := buf[i].Final; f != nil {
			k.finish(f)
			continue
		}
		if k.isFull {
			continue
		}
		if !k.hasRoom(&buf[i].Delta) {
			k.giveUp()
			continue
		}
		k.body.Add(&buf[i].Delta)
	}
	return buf
}

func (k *keeper) hasRoom(d *infer.Delta) bool {
	if k.held.addDelta(d) != nil {
		return false
	}
	more := k.held.size - k.charged
	if more < growStep {
		return true
	}
	k.charged += more
	return k.store.grow(k.kept, more)
}

// giveUp forgets the response, whose client gets it all the same. One in the
// background ends: nobody else reads it.
func (k *keeper) giveUp() {
	if k.kept.isBackground {
		k.isFull = true
		k.kept.cancel(infer.CancelTooLarge)
		return
	}
	k.body = nil
	k.held.release()
	k.store.drop(k.kept)
}

func (k *keeper) finish(f *infer.Final) {
	if k.isFull { // whatever became of the rest
		full := *f
		full.FinishReason, full.Err = infer.FinishError, infer.Errorf(infer.CodeInvalid, "max_output_tokens", "The response has grown beyond what is kept: ask for fewer tokens (max_output_tokens)")
		f = &full
	}
	f.StampWritten(infer.Now())
	end := responseEnd{body: k.body.AppendBody(nil, f)}
	if f.Err == nil && f.FinishReason != infer.FinishAbort {
		end.messages = k.body.Conversation()
	}
	k.store.finish(k.kept, end)
	k.body = nil
	k.held.release()
}

// answerLater answers with the response as it is at its start. Nobody reads the
// stream from here on but its keeper, to the end, and the client may leave.
func answerLater(ctx *fasthttp.RequestCtx, req *openai.Call) error {
	writeJSON(ctx, fasthttp.StatusOK, req.NewResponseBody().AppendStarted(nil))
	return nil
}

// getResponse serves GET /v1/responses/{id} and what was its input.
func (s *Server) getResponse(c *fiber.Ctx) error {
	id, listsInput := strings.CutSuffix(c.Params("*"), "/input_items")
	kept, err := s.findResponse(c, id)
	switch {
	case err != nil:
		return err
	case listsInput:
		page, err := openai.ParsePage(string(c.Request().URI().QueryString()))
		if err != nil {
			return err
		}
		writeJSON(c.Context(), fasthttp.StatusOK, openai.AppendInputItems(nil, kept.input, page))
		return nil
	case c.QueryBool("stream"):
		return infer.Errorf(infer.CodeNotImplemented, "stream", "stream: a response that is kept cannot be streamed again by this version")
	}
	writeJSON(c.Context(), fasthttp.StatusOK, kept.body())
	return nil
}

// deleteResponse serves DELETE /v1/responses/{id}. One in progress goes on for the
// client who reads it, and is not kept; in the background nobody does.
func (s *Server) deleteResponse(c *fiber.Ctx) error {
	kept, err := s.findResponse(c, c.Params("*"))
	if err != nil {
		return err
	}
	s.responses.remove(kept.owner, kept.id)
	if kept.isBackground && kept.end.body == nil {
		kept.cancel(infer.CancelAdmin)
	}
	writeJSON(c.Context(), fasthttp.StatusOK, openai.AppendDeletedResponse(nil, kept.id))
	return nil
}

// cancelResponse serves POST /v1/responses/{id}/cancel: it ends one in progress.
func (s *Server) cancelResponse(c *fiber.Ctx) error {
	path, ok := strings.CutSuffix(c.Params("*"), "/cancel")
	if !ok {
		return fiber.ErrNotFound
	}
	kept, err := s.findResponse(c, path)
	switch {
	case err != nil:
		return err
	case kept.end.body != nil:
		return infer.Errorf(infer.CodeInvalid, "response_id", "Response with id '%s' is over and cannot be cancelled.", kept.id)
	}
	kept.cancel(infer.CancelAdmin)
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	select {
	case <-kept.over:
	case <-timer.C: // its reader is slow; the cancellation stands
	}
	if after, ok := s.responses.find(kept.owner, kept.id, time.Now()); ok {
		kept = after
	}
	writeJSON(c.Context(), fasthttp.StatusOK, kept.body())
	return nil
}

// findResponse finds the response of a path, among those of the request's key.
func (s *Server) findResponse(c *fiber.Ctx, path string) (keptResponse, error) {
	id, err := url.PathUnescape(path)
	if err != nil {
		return keptResponse{}, s.noSuchResponse("response_id", path)
	}
	kept, ok := s.responses.find(exchangeOf(c.Context()).key, id, time.Now())
	if !ok {
		return keptResponse{}, s.noSuchResponse("response_id", id)
	}
	return kept, nil
}

// noSuchResponse does not say whether somebody else has a response of that id.
func (s *Server) noSuchResponse(param, id string) error {
	hint := ""
	if !s.responses.isOn {
		hint = " This server keeps no responses: it was started without --enable-response-store."
	}
	return infer.Errorf(infer.CodeNotFound, param, "Response with id '%s' not found.%s", id[:min(len(id), maxIDShown)], hint)
}
