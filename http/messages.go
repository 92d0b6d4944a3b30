package http

import (
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/http/anthropic"
	"github.com/valyala/fasthttp"
)

const (
	messagesPath    = "/v1/messages"
	countTokensPath = messagesPath + "/count_tokens"

	headerAPIKey     = "X-Api-Key"
	headerMessagesID = "Request-Id" // under which Anthropic's clients know a request
)

// isMessages reports whether the Messages API was asked, whose errors have a form of
// their own.
func (x *exchange) isMessages() bool {
	return x.path == messagesPath || strings.HasPrefix(x.path, messagesPath+"/")
}

// countTokens serves POST /v1/messages/count_tokens.
func (s *Server) countTokens(c *fiber.Ctx) error {
	return s.prepared(c, func(call *call, body []byte) error {
		req, err := anthropic.ParseCount(body, &s.profile)
		if err != nil {
			return err
		}
		res, err := s.opts.Generator.Tokenize(call.ctx, req)
		if err != nil {
			return err
		}
		writeJSON(c.Context(), fasthttp.StatusOK, anthropic.AppendCount(nil, len(res.TokenIDs)))
		return nil
	})
}
