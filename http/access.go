package http

import (
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// cors adds the headers of cross-origin requests. It reports whether it has
// answered the request, which was a preflight.
func (s *Server) cors(ctx *fasthttp.RequestCtx) (answered bool) {
	origin := string(ctx.Request.Header.Peek(fiber.HeaderOrigin))
	if origin == "" || len(s.opts.AllowedOrigins) == 0 {
		return false
	}
	h := &ctx.Response.Header
	h.Add(fiber.HeaderVary, fiber.HeaderOrigin)
	if !slices.Contains(s.opts.AllowedOrigins, "*") && !slices.Contains(s.opts.AllowedOrigins, origin) {
		return false
	}
	allowed := origin
	if slices.Contains(s.opts.AllowedOrigins, "*") && !s.opts.AllowCredentials {
		allowed = "*"
	}
	h.Set(fiber.HeaderAccessControlAllowOrigin, allowed)
	if s.opts.AllowCredentials {
		h.Set(fiber.HeaderAccessControlAllowCredentials, "true")
	}
	requested := string(ctx.Request.Header.Peek(fiber.HeaderAccessControlRequestMethod))
	if !ctx.IsOptions() || requested == "" {
		return false
	}
	h.Set(fiber.HeaderAccessControlAllowMethods, allowList(s.opts.AllowedMethods, requested))
	if headers := string(ctx.Request.Header.Peek(fiber.HeaderAccessControlRequestHeaders)); headers != "" {
		h.Set(fiber.HeaderAccessControlAllowHeaders, allowList(s.opts.AllowedHeaders, headers))
	}
	h.Set(fiber.HeaderAccessControlMaxAge, "600")
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	return true
}

// allowList joins a list; "*" is answered with what the client asked for, since
// browsers do not take the star together with credentials.
func allowList(list []string, requested string) string {
	if slices.Contains(list, "*") {
		return requested
	}
	return strings.Join(list, ", ")
}
