package http

import (
	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// prepared reads a body, waits for its turn, and lets use work on it, which may
// be much: it must end with the call.
func (s *Server) prepared(c *fiber.Ctx, use func(call *call, body []byte) error) error {
	return s.withBody(c, func(body []byte) error {
		call := s.begin(c.Context(), false)
		defer s.end(call)
		call.unary()
		pass, err := s.gate.enter(call.ctx, len(body))
		if err == nil {
			defer pass.leave()
			err = use(call, body)
		}
		if err != nil && call.hasGone() {
			return clientGone(c.Context())
		}
		return err
	})
}

// tokenize serves POST /tokenize.
func (s *Server) tokenize(c *fiber.Ctx) error {
	return s.prepared(c, func(call *call, body []byte) error {
		req, err := openai.ParseTokenize(body, &s.profile)
		if err != nil {
			return err
		}
		res, err := s.opts.Generator.Tokenize(call.ctx, req)
		if err != nil {
			return err
		}
		held := s.newHeld()
		if err := held.add(openai.TokenizedSize(res)); err != nil {
			return err
		}
		held.write(c.Context(), openai.AppendTokenized(held.buffer(), res, s.profile.Model))
		return nil
	})
}

// detokenize serves POST /detokenize.
func (s *Server) detokenize(c *fiber.Ctx) error {
	return s.prepared(c, func(call *call, body []byte) error {
		ids, err := openai.ParseDetokenize(body, &s.profile)
		if err != nil {
			return err
		}
		text, err := s.opts.Generator.Detokenize(call.ctx, ids)
		if err != nil {
			return err
		}
		held := s.newHeld()
		if err := held.add(openai.DetokenizedSize(text)); err != nil {
			return err
		}
		held.write(c.Context(), openai.AppendDetokenized(held.buffer(), text))
		return nil
	})
}

// add counts numBytes of an answer that is made at once.
func (h *held) add(numBytes int) error {
	h.json += numBytes
	if limit := h.server.opts.AnswerLimit; h.json > limit {
		return infer.Errorf(infer.CodeInvalid, "", "The answer would have %d bytes, the limit of an answer in one piece is %d: send the request in parts", h.json, limit)
	}
	return h.check()
}
