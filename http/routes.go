package http

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/troupe-llm/troupe/http/anthropic"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp/fasthttpadaptor"
)

// generating are the endpoints that generate text.
var generating = map[string]parse{
	"/v1/chat/completions": openai.ParseChat,
	"/v1/completions":      openai.ParseCompletion,
	responsesPath:          openai.ParseResponse,
	messagesPath:           anthropic.ParseMessage,
}

// addRoutes registers every endpoint. The template given to each is its label
// in the metrics.
func (s *Server) addRoutes(app *fiber.App) {
	post := func(path string, h fiber.Handler) {
		s.opts.HTTPMetrics.Preset(path, fiber.MethodPost)
		app.Post(path, matched(path), h)
	}
	get := func(path string, h fiber.Handler) {
		s.opts.HTTPMetrics.Preset(path, fiber.MethodGet)
		app.Get(path, matched(path), h)
	}
	for _, method := range []string{fiber.MethodGet, fiber.MethodPost} {
		s.opts.HTTPMetrics.Preset(noRoute, method)
	}

	for path, parse := range generating {
		post(path, s.generate(path, parse))
	}
	s.addResponseRoutes(app)
	get("/v1/models", s.models)
	// A model's name may hold slashes; OpenAI's template is shown to the metrics.
	app.Get("/v1/models/*", matched("/v1/models/{model}"), s.model)
	post("/tokenize", s.tokenize)
	post("/detokenize", s.detokenize)
	post(countTokensPath, s.countTokens)
	post("/v1/embeddings", notImplemented("/v1/embeddings"))

	if s.opts.Inspector != nil {
		get("/v1/requests", s.admin(s.listRequests))
		app.Get("/v1/requests/*", matched("/v1/requests/{id}"), s.admin(s.getRequest))
		app.Delete("/v1/requests/*", matched("/v1/requests/{id}"), s.admin(s.deleteRequest))
	}
	if s.opts.Cluster != nil {
		clusterHandler := s.showCluster
		if s.keys.hasAdmin {
			clusterHandler = s.admin(clusterHandler)
		}
		get("/v1/cluster", clusterHandler)
	}
	if s.opts.FaultInjection {
		fault := s.fault
		if s.keys.hasAdmin {
			fault = s.admin(fault)
		}
		post("/debug/fault", fault)
	}

	get("/health", s.health)
	get("/ping", s.health)
	post("/ping", s.health)
	get("/version", s.version)
	get("/load", s.load)
	if s.opts.Gatherer != nil {
		get("/metrics", s.metrics())
	}
}

// matched notes which route a request took.
func matched(template string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		exchangeOf(c.Context()).route = template
		return c.Next()
	}
}

// notImplemented answers for endpoints of a later version.
func notImplemented(path string) fiber.Handler {
	return func(*fiber.Ctx) error {
		return infer.Errorf(infer.CodeNotImplemented, "", "%s is not supported by this version", path)
	}
}

// metricsType is the media type of Prometheus' text format. Scrapers that compare
// it find it as other servers write it; the library would add a parameter.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

func (s *Server) metrics() fiber.Handler {
	handler := fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{}))
	return func(c *fiber.Ctx) error {
		handler(c.Context())
		if h := &c.Context().Response.Header; strings.HasPrefix(string(h.ContentType()), "text/plain; version=0.0.4;") {
			h.SetContentType(metricsType)
		}
		return nil
	}
}

func (s *Server) health(c *fiber.Ctx) error {
	if s.draining.Load() || s.opts.Generator.Health() != nil {
		c.Status(http.StatusServiceUnavailable)
	}
	return nil
}

func (s *Server) version(c *fiber.Ctx) error {
	return c.JSON(map[string]string{"version": s.opts.Version})
}

func (s *Server) load(c *fiber.Ctx) error {
	load := 0
	if s.opts.ServerLoadTracking {
		load = s.calls.load()
	}
	return c.JSON(map[string]int{"server_load": load})
}

func (s *Server) models(c *fiber.Ctx) error {
	writeJSON(c.Context(), http.StatusOK, openai.AppendModels(nil, s.profile.Model, s.created))
	return nil
}

func (s *Server) model(c *fiber.Ctx) error {
	name, err := url.PathUnescape(c.Params("*"))
	if err != nil { // no model has such a name; it is shown as it was sent
		return openai.ModelNotFound(c.Params("*"))
	}
	if !slices.Contains(s.profile.Model.ServedNames, name) {
		return openai.ModelNotFound(name)
	}
	writeJSON(c.Context(), http.StatusOK, openai.AppendModel(nil, s.profile.Model, name, s.created))
	return nil
}
