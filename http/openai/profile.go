package openai

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// Profile is what a server allows and how it answers; requests are checked
// against it. One value serves all requests and is never changed.
type Profile struct {
	Model *infer.ModelInfo

	MaxLogprobs        int  // cap of logprobs, top_logprobs, prompt_logprobs; -1 = none
	MaxNumSequences    int  // cap of n, and of prompts times n
	MaxStopStrings     int  // cap of the length of stop: each is looked for in every piece of text
	PriorityScheduling bool // `priority` may be other than 0
	ListIgnored        bool // Call.Ignored is filled

	ResponseRole           string // role of generated messages
	SystemFingerprint      string // "" = none
	PerRequestMetrics      bool
	SpecDecodeMetrics      bool
	PerChoiceMetrics       bool // those of each choice, where the request as a whole has none
	OmitMetricsObject      bool // times are not written in vLLM's words
	LlamaServerTimings     bool // they are in llama-server's
	GroqUsageTimes         bool // they are in Groq's
	PerTurnMetrics         bool // responses have metrics_per_turn
	ForceIncludeUsage      bool
	PromptTokensDetails    bool
	ReturnTokensAsTokenIDs bool

	AutoToolChoice       bool // the model may decide to call tools
	KnowsToolCalls       bool // its form of calls is known, whether it may or not
	ExcludeToolsWhenNone bool // tools that must not be called are not shown to the model
	ReasoningTokens      bool // thoughts are told apart, and counted
}

// Headers that say something about a request, as vLLM reads them.
const (
	HeaderRequestID = "X-Request-Id"
	HeaderPriority  = "X-Vllm-Priority"
)

// Envelope is what belongs to one request beside its body.
type Envelope struct {
	NewID     string // fresh id without prefix, used if the client names none
	RequestID string // HeaderRequestID, "" if not sent
	Priority  string // HeaderPriority, "" if not sent
	Metrics   string // HeaderMetrics, "" if not sent
	Created   int64  // unix seconds
	Arrival   int64  // infer.Now() when the body had been read
	Receive   int64  // nanoseconds to the end of the body, from when the headers and its first 8 KiB are there

	ToolServers []infer.ToolServer // whose tools responses may offer, nil = none
}

// Reply says how the answer to one request is written.
type Reply struct {
	ID, Model         string
	Created           int64
	SystemFingerprint string
	NumChoices        int // prompts times n

	Stream          bool
	IncludeUsage    bool // a last chunk with usage
	ContinuousUsage bool // running usage on every chunk

	PromptTokensDetails bool
	Metrics             bool // the object is on; the value may still be null
	NoTimes             bool // its times are off
	PerChoiceMetrics    bool // choices have objects of their own where there are several
	LlamaServerTimings  bool // timings
	GroqUsageTimes      bool // times in usage
	ServerTiming        bool // a header Server-Timing
	MetricsComment      bool // a comment at the end of a stream without usage
	MetricsChunk        bool // a chunk for that
	TurnMetrics         bool // responses: the list of turns is on

	Logprobs         bool
	PromptLogprobs   bool
	TokensAsTokenIDs bool
	ReturnTokenIDs   bool
	Echo             bool // completions: each choice starts with its prompt

	ReasoningTokens bool // usage says how many tokens were thoughts
	OmitReasoning   bool // chat: thoughts are not shown
	ForcedTool      bool // a function must be called
	NamedTool       bool // and the request named it

	Role     string // chat: role of the message
	EchoText string // chat: text that each choice starts with

	chat bool
}

// maxIDBytes bounds a client's request id.
const maxIDBytes = 128

// CheckRequestID accepts up to 128 bytes of visible ASCII: the id becomes part
// of response ids, headers and logs.
func CheckRequestID(id, param string) *infer.Error {
	if len(id) > maxIDBytes {
		return infer.Errorf(infer.CodeInvalid, param, "%s: has %d bytes, the limit is %d", param, len(id), maxIDBytes)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return infer.Errorf(infer.CodeInvalid, param, "%s: must be visible ASCII, byte %d is not", param, i)
		}
	}
	return nil
}

// responseID returns the id of a response: the client's or a fresh one.
func responseID(o *object, prefix string, e Envelope) string {
	id, param := e.RequestID, HeaderRequestID
	if id == "" {
		if s := o.str("request_id"); s != nil {
			id, param = *s, "request_id"
		}
	}
	if id == "" {
		return prefix + e.NewID
	}
	if err := CheckRequestID(id, param); err != nil && o.err == nil {
		o.err = err
	}
	return prefix + id
}

// checkModel accepts no model, "" and the served names.
func (p *Profile) checkModel(o *object) {
	name := o.str("model")
	if name == nil || *name == "" || slices.Contains(p.Model.ServedNames, *name) || o.err != nil {
		return
	}
	o.err = ModelNotFound(*name)
}

// ModelNotFound is the error for a name that is not served.
func ModelNotFound(name string) *infer.Error {
	return infer.Errorf(infer.CodeModelNotFound, "model", "The model `%s` does not exist.", excerpt(name))
}

// priority reads the body's priority; a header beats it.
func (p *Profile) priority(o *object, header string) int {
	priority := o.count("priority", math.MinInt32, math.MaxInt32)
	if header != "" {
		n, err := strconv.ParseInt(header, 10, 32)
		if err != nil {
			o.fail(infer.CodeMalformed, HeaderPriority, "must be an integer, got %q", excerpt(header))
			return 0
		}
		fromHeader := int(n)
		priority = &fromHeader
	}
	if priority == nil {
		return 0
	}
	if *priority != 0 && !p.PriorityScheduling {
		o.fail(infer.CodeInvalid, "priority", "%d needs a server started with --scheduling-policy priority", *priority)
	}
	return *priority
}

// usageMode reads stream and stream_options into r.
func (p *Profile) usageMode(o *object, r *Reply) {
	r.Stream = o.flag("stream", false)
	raw := o.raw("stream_options")
	if raw != nil {
		options := parseObject(raw, "stream_options")
		r.IncludeUsage = options.flag("include_usage", false)
		r.ContinuousUsage = options.flag("continuous_usage_stats", false) && r.IncludeUsage
		o.adopt(options)
		if !r.Stream && len(options.fields) > 0 {
			o.fail(infer.CodeMalformed, "stream_options", "only allowed with stream: true")
		}
	}
	if p.ForceIncludeUsage {
		r.IncludeUsage, r.ContinuousUsage = true, true
	}
}

// refuse fails on fields that vLLM knows and this version does not.
func (o *object) refuse(names ...string) {
	for _, name := range names {
		raw := o.raw(name)
		if raw == nil || string(raw) == "false" {
			continue
		}
		o.fail(infer.CodeNotImplemented, name, "not supported by this version")
	}
}

// refuseLater refuses beam search and the like.
func (o *object) refuseLater() { o.refuse("use_beam_search", "kv_transfer_params") }

func isEmptyArray(raw json.RawMessage) bool {
	for range elements(raw) {
		return false
	}
	return true
}

func unquoteOr(raw json.RawMessage, otherwise string) string {
	if kind(raw) != "a string" {
		return otherwise
	}
	return unquote(raw)
}
