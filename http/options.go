package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// Options configure a [Server]. Only Generator is required; a zero value means
// the default that its comment names.
type Options struct {
	Generator infer.Generator
	Version   string       // answered by /version, and in system_fingerprint; "" = no fingerprint
	Logger    *slog.Logger // nil = discard

	// HTTPMetrics observes every request (nil = nothing is observed); Gatherer
	// feeds GET /metrics (nil = that route answers 404).
	HTTPMetrics *metrics.HTTP
	Gatherer    prometheus.Gatherer

	// Requests counts requests by key and outcome (nil = nobody does); RequestLog is
	// given a line of JSON about each when it is over, and must not block (nil = none).
	Requests   *metrics.Requests
	RequestLog func(line []byte)
	// Inspector is asked by administrators for requests in flight; nil = the
	// endpoints for that do not exist. FaultInjection adds POST /debug/fault.
	Inspector      infer.Inspector
	FaultInjection bool

	// Cluster is asked by administrators for the nodes of the service; nil = there is no
	// endpoint for that.
	Cluster infer.ClusterInspector

	// Tools are what models may call in the middle of a response; nil = nothing.
	Tools        infer.Toolbox
	ToolMetrics  *metrics.Tools // nil = nobody counts calls
	MaxToolTurns int            // most generations of a response that calls tools; 0 = 16

	PerRequestMetrics      bool // `metrics` in responses, with times
	PerTurnMetrics         bool // `metrics_per_turn` in answers of POST /v1/responses
	SpecDecodeMetrics      bool // `metrics` in responses, with what became of draft tokens
	PerChoiceMetrics       bool // each choice has those where there are several
	OmitMetricsObject      bool // no `metrics` all the same: times are written in others' words only
	LlamaServerTimings     bool // `timings`, the times as llama-server has them
	GroqUsageTimes         bool // times in `usage`, as Groq has them
	ForceIncludeUsage      bool // usage on every chunk and a usage chunk, whatever the client asked
	PromptTokensDetails    bool // cached_tokens in usage
	RequestIDHeaders       bool // X-Request-Id on every response
	ServerLoadTracking     bool // /load counts requests in flight
	ResponseStore          bool // responses of POST /v1/responses are kept in memory for a while, unless the client says no
	PriorityScheduling     bool // requests may set `priority`
	AutoToolChoice         bool // the model may decide to call tools
	KnowsToolCalls         bool // the form in which the model calls tools is known, whether it may decide to or not
	ExcludeToolsWhenNone   bool // tools that must not be called are not shown to the model
	ReasoningTokens        bool // thoughts are told apart from answers, and counted in usage
	ReturnTokensAsTokenIDs bool // tokens of logprobs are written "token_id:N"

	// MaxLogprobs caps logprobs, top_logprobs and prompt_logprobs; -1 = no cap.
	// It is taken literally: 0 allows the sampled token's own value only.
	MaxLogprobs     int
	MaxNumSequences int // largest n, and largest prompts times n; 0 = 16384

	MaxStopStrings int // most strings in stop; 0 = 16

	ResponseRole string // role of generated chat messages; "" = assistant

	// APIKeys and Keys guard paths below /v1, /v2, /inference and /cohere; none, or
	// those of administrators only = open.
	APIKeys   []string
	Keys      []Key
	SaltByKey bool // prefix-cache entries are shared by requests of one key name only

	// Cross-origin requests: no AllowedOrigins = no such headers are sent. "*"
	// stands for everything in each list.
	AllowedOrigins, AllowedMethods, AllowedHeaders []string
	AllowCredentials                               bool

	// TLS is what connections are encrypted with; nil = they are not.
	TLS *tls.Config

	RootPath string // prefix added by a proxy; taken off paths that carry it

	MaxConnections int // open at a time; 0 = no limit. Beyond: 503, and closed

	BodyLimit    int           // bytes; 0 = 64 MiB. Beyond: 413
	AnswerLimit  int           // bytes that an answer in one piece may take, on the way included; 0 = 128 MiB. Beyond: 400
	HeaderLimit  int           // bytes of request line and headers; 0 = 32 KiB. Beyond: 431
	ReadTimeout  time.Duration // for the headers, and the grace of a stalled body; 0 = 30 s
	IdleTimeout  time.Duration // between two requests of a connection; 0 = 75 s
	WriteTimeout time.Duration // per flush: a client that reads nothing for so long is cut off; 0 = 30 s
	SSEKeepAlive time.Duration // silence after which a stream gets a comment line; 0 = never

	AccessLog        bool     // one line per request, without any of its text; polls that succeed at level debug
	AccessLogExclude []string // paths that are not logged
}

const (
	defaultBodyLimit       = 64 << 20
	defaultAnswerLimit     = 128 << 20
	defaultHeaderLimit     = 32 << 10
	defaultReadTimeout     = 30 * time.Second
	defaultIdleTimeout     = 75 * time.Second
	defaultWriteTimeout    = 30 * time.Second
	defaultMaxNumSequences = 16384
	defaultMaxStopStrings  = 16
	defaultMaxToolTurns    = 16
)

// withDefaults returns o with every zero value that has a default replaced.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ResponseRole == "" {
		o.ResponseRole = "assistant"
	}
	o.RootPath = strings.TrimRight(o.RootPath, "/")
	setDefault(&o.BodyLimit, defaultBodyLimit)
	setDefault(&o.AnswerLimit, defaultAnswerLimit)
	setDefault(&o.HeaderLimit, defaultHeaderLimit)
	setDefault(&o.ReadTimeout, defaultReadTimeout)
	setDefault(&o.IdleTimeout, defaultIdleTimeout)
	setDefault(&o.WriteTimeout, defaultWriteTimeout)
	setDefault(&o.MaxNumSequences, defaultMaxNumSequences)
	setDefault(&o.MaxStopStrings, defaultMaxStopStrings)
	setDefault(&o.MaxToolTurns, defaultMaxToolTurns)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate refuses what no default can mend.
func (o *Options) validate() error {
	for name, value := range map[string]int{
		"MaxConnections": o.MaxConnections, "BodyLimit": o.BodyLimit, "AnswerLimit": o.AnswerLimit, "HeaderLimit": o.HeaderLimit, "MaxNumSequences": o.MaxNumSequences, "MaxStopStrings": o.MaxStopStrings, "MaxToolTurns": o.MaxToolTurns,
		"ReadTimeout": int(o.ReadTimeout), "IdleTimeout": int(o.IdleTimeout), "WriteTimeout": int(o.WriteTimeout), "SSEKeepAlive": int(o.SSEKeepAlive),
	} {
		if value < 0 {
			return fmt.Errorf("http: Options.%s is negative", name)
		}
	}
	if o.MaxLogprobs < -1 {
		return fmt.Errorf("http: Options.MaxLogprobs is %d; it must be at least -1", o.MaxLogprobs)
	}
	if o.RootPath != "" && !strings.HasPrefix(o.RootPath, "/") {
		return fmt.Errorf("http: Options.RootPath %q does not begin with a slash", o.RootPath)
	}
	if o.FaultInjection && o.Inspector == nil {
		return errors.New("http: Options.FaultInjection needs an Inspector")
	}
	if slices.Contains(o.APIKeys, "") {
		return errors.New("http: Options.APIKeys holds an empty key")
	}
	return checkKeys(o.Keys)
}

// profile is the part of the options that package openai reads.
func (o *Options) profile() openai.Profile {
	fingerprint := ""
	if o.Version != "" {
		fingerprint = "troupe-" + o.Version
	}
	return openai.Profile{
		Model:                  o.Generator.Model(),
		MaxLogprobs:            o.MaxLogprobs,
		MaxNumSequences:        o.MaxNumSequences,
		MaxStopStrings:         o.MaxStopStrings,
		ListIgnored:            o.Logger.Enabled(context.Background(), slog.LevelDebug),
		PriorityScheduling:     o.PriorityScheduling,
		ResponseRole:           o.ResponseRole,
		SystemFingerprint:      fingerprint,
		PerRequestMetrics:      o.PerRequestMetrics,
		SpecDecodeMetrics:      o.SpecDecodeMetrics,
		PerChoiceMetrics:       o.PerChoiceMetrics,
		OmitMetricsObject:      o.OmitMetricsObject,
		LlamaServerTimings:     o.LlamaServerTimings,
		GroqUsageTimes:         o.GroqUsageTimes,
		PerTurnMetrics:         o.PerTurnMetrics,
		ForceIncludeUsage:      o.ForceIncludeUsage,
		PromptTokensDetails:    o.PromptTokensDetails,
		ReturnTokensAsTokenIDs: o.ReturnTokensAsTokenIDs,
		AutoToolChoice:         o.AutoToolChoice,
		KnowsToolCalls:         o.KnowsToolCalls,
		ExcludeToolsWhenNone:   o.ExcludeToolsWhenNone,
		ReasoningTokens:        o.ReasoningTokens,
	}
}
