package http

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// guarded are the prefixes of paths that need a key, as in vLLM.
var guarded = []string{"/v1", "/v2", "/inference", "/cohere"}

// authorized reports whether a request may go on. path is the one that routes
// are matched with, byte by byte, so no other spelling reaches a guarded route.
func (s *Server) authorized(ctx *fasthttp.RequestCtx, path string) bool {
	isGuarded := slices.ContainsFunc(guarded, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
	if len(s.keys) == 0 || !isGuarded || ctx.IsOptions() {
		return true
	}
	scheme, token, _ := strings.Cut(string(ctx.Request.Header.Peek(fiber.HeaderAuthorization)), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	// Hashes have one length, and all keys are compared: the time taken tells nothing.
	sum := sha256.Sum256([]byte(token))
	match := 0
	for i := range s.keys {
		match |= subtle.ConstantTimeCompare(sum[:], s.keys[i][:])
	}
	return match == 1
}

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
