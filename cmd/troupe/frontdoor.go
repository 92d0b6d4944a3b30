package main

import (
	"slices"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/keysfile"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/logline"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/recordlog"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/reqlog"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/tlsfiles"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
	"github.com/troupe-llm/troupe/scheduler"
)

// openFrontDoor opens what the HTTP server needs and can be found wrong before
// anything large is loaded.
func (s *server) openFrontDoor() (err error) {
	if s.keys, err = keysfile.Load(s.cfg.HTTP.APIKeysFile, s.cfg.HTTP.AdminAPIKey); err != nil {
		return err
	}
	warn := func(message string) { s.log.Warn(message) }
	if h := &s.cfg.HTTP; h.SSLCertfile != "" {
		s.tls, err = tlsfiles.Load(tlsfiles.Options{
			KeyFile: h.SSLKeyfile, CertFile: h.SSLCertfile, CACerts: h.SSLCACerts, CertReqs: h.SSLCertReqs,
			Ciphers: h.SSLCiphers, Refresh: h.EnableSSLRefresh, Warn: warn,
		})
		if err != nil {
			return err
		}
	}
	path := s.cfg.Logging.RequestLog
	if path == "" {
		return nil
	}
	s.records, err = recordlog.Open(path, recordlog.Options{Warn: warn})
	if err == nil {
		s.closers = append(s.closers, s.records.Close)
	}
	return err
}

func (s *server) keyNames() []string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.Name
	}
	return names
}

// wantsTimes reports whether anybody asks for the times of single requests:
// clients or those who read records.
func (s *server) wantsTimes() bool {
	isAdmin := func(k http.Key) bool { return k.Admin }
	return s.cfg.Metrics.EnablePerRequestMetrics || s.cfg.Metrics.EnablePerTurnMetrics || s.records != nil || slices.ContainsFunc(s.keys, isAdmin)
}

// mostConnections bounds the default of --max-connections: each costs memory even
// when it is idle.
const mostConnections = 16384

// maxConnections is --max-connections, or what the limit of open files leaves room for.
func maxConnections(cfg *config.Serve) int {
	if n := cfg.HTTP.MaxConnections; n != nil {
		return int(*n)
	}
	files := maxOpenFiles()
	return max(1, min(files-files/8, mostConnections))
}

// specLevel returns what is recorded of speculative decoding per request.
func (s *server) specLevel() metrics.SpecLevel {
	level, _ := metrics.ParseSpecLevel(s.cfg.Metrics.PerRequestSpecDecodeMetrics) // the flag knows no other words
	return level
}

func (s *server) makeHTTP(m *Main) (err error) {
	cfg := s.cfg
	generator := withCallFaults(s.engine)
	if cfg.Logging.EnableLogRequests {
		o := reqlog.Options{Logger: s.log, MaxLen: -1, Outputs: cfg.Logging.EnableLogOutputs, Deltas: cfg.Logging.EnableLogDeltas}
		if n := cfg.Logging.MaxLogLen; n != nil {
			o.MaxLen = *n
		}
		generator = reqlog.Wrap(generator, o)
	}
	// An engine that cannot be looked into has no endpoints for that.
	inspector, _ := any(s.engine).(infer.Inspector)
	o := http.Options{
		Generator: generator, Version: version(), Logger: logline.New(m.Stderr, logline.ParseLevel(cfg.HTTP.UvicornLogLevel)),
		HTTPMetrics: metrics.NewHTTP(s.registry), Gatherer: s.registry, Requests: metrics.NewRequests(s.registry, s.keyNames()),
		ResponseStore: cfg.HTTP.EnableResponseStore || cfg.Env.ResponseStore,
		Inspector:     inspector, FaultInjection: cfg.HTTP.EnableFaultInjection,
		PerRequestMetrics: cfg.Metrics.EnablePerRequestMetrics, SpecDecodeMetrics: s.specLevel() != metrics.SpecNone,
		PerChoiceMetrics: cfg.Metrics.EnablePerChoiceMetrics, OmitMetricsObject: !cfg.Metrics.Spells(config.SpellingVLLM),
		LlamaServerTimings: cfg.Metrics.Spells(config.SpellingLlamaServer), GroqUsageTimes: cfg.Metrics.Spells(config.SpellingGroq),
		PerTurnMetrics: cfg.Metrics.EnablePerTurnMetrics, MaxToolTurns: cfg.Chat.MaxToolTurns,
		ForceIncludeUsage:   cfg.Metrics.EnableForceIncludeUsage,
		PromptTokensDetails: cfg.Metrics.EnablePromptTokensDetails, RequestIDHeaders: cfg.HTTP.EnableRequestIDHeaders,
		ServerLoadTracking: cfg.Metrics.EnableServerLoadTracking, ReturnTokensAsTokenIDs: cfg.Chat.ReturnTokensAsTokenIDs,
		KnowsToolCalls: cfg.ToolCallParser() != "",
		AutoToolChoice: cfg.Chat.EnableAutoToolChoice, ExcludeToolsWhenNone: cfg.Chat.ExcludeToolsWhenNone, ReasoningTokens: cfg.Chat.ReasoningParser != "",
		PriorityScheduling: cfg.Scheduler.SchedulingPolicy == scheduler.Priority.String(),
		MaxLogprobs:        cfg.Model.MaxLogprobs, MaxNumSequences: cfg.Env.MaxNumSequences, MaxStopStrings: cfg.Env.MaxStopStrings, ResponseRole: cfg.Chat.ResponseRole,
		APIKeys: cfg.APIKeys(), Keys: s.keys, SaltByKey: cfg.HTTP.APIKeysFile != "", TLS: s.tls, RootPath: cfg.HTTP.RootPath, IdleTimeout: cfg.Env.KeepAlive,
		AllowedOrigins: cfg.HTTP.AllowedOrigins.Items, AllowedMethods: cfg.HTTP.AllowedMethods.Items,
		AllowedHeaders: cfg.HTTP.AllowedHeaders.Items, AllowCredentials: cfg.HTTP.AllowCredentials,
		BodyLimit: int(cfg.HTTP.MaxRequestBodyBytes), HeaderLimit: int(cfg.HTTP.MaxRequestHeaderBytes),
		AnswerLimit: int(cfg.HTTP.MaxResponseBodyBytes), MaxConnections: maxConnections(cfg),
		SSEKeepAlive: seconds(cfg.HTTP.SSEKeepAliveInterval),
		AccessLog:    !cfg.HTTP.DisableUvicornAccessLog, AccessLogExclude: cfg.HTTP.DisableAccessLogForEndpoints,
	}
	if s.node != nil {
		o.Cluster = s.engine
	}
	if s.records != nil {
		o.RequestLog = s.records.Add
	}
	if s.tools != nil {
		o.Tools = s.tools
		o.ToolMetrics = metrics.NewTools(s.registry, s.tools.Labels())
	}
	if s.http, err = http.New(o); err == nil {
		s.closers = append(s.closers, s.shutDown)
	}
	return err
}
