package openai

import (
	"math"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// maxCacheSaltBytes bounds cache_salt; every block hash of the request holds it.
const maxCacheSaltBytes = 256

// Call is a request with the way its answer is written.
type Call struct {
	Request  *infer.Request
	Reply    Reply
	Response *Response // nil = not a call of POST /v1/responses
	Writers  Writers   // nil = the answer has a form of this package
	Ignored  []string  // names of fields without effect, a few; only with Profile.ListIgnored
}

// Writers makes the writers of an answer in the form of another API.
type Writers interface {
	NewBody() BodyWriter
	NewStream() StreamWriter
}

// BodyWriter gathers the deltas of a request that is answered with one body.
type BodyWriter interface {
	// Add takes a delta; what it needs of it is copied.
	Add(d *infer.Delta)
	// AppendBody appends the whole answer; f must not hold an error.
	AppendBody(dst []byte, f *infer.Final) []byte
}

// StreamWriter writes the events of a request as server-sent events. One
// goroutine uses it.
type StreamWriter interface {
	// AppendStart appends what is written before there is any output.
	AppendStart(dst []byte) []byte
	// AppendDelta appends the events of one delta; none if it says nothing.
	AppendDelta(dst []byte, d *infer.Delta) []byte
	// AppendFinal appends the end of the stream, the error of f included.
	AppendFinal(dst []byte, f *infer.Final) []byte
	// AppendBroken ends the stream after a panic; it relies on nothing that the
	// panic may have left half done.
	AppendBroken(dst []byte, err *infer.Error) []byte
}

// NewBody returns the writer of an answer that is not streamed.
func (c *Call) NewBody() BodyWriter {
	switch {
	case c.Writers != nil:
		return c.Writers.NewBody()
	case c.Response != nil:
		return c.NewResponseBody()
	}
	return c.Reply.NewCollector()
}

// NewStream returns the writer of a streamed answer.
func (c *Call) NewStream() StreamWriter {
	switch {
	case c.Writers != nil:
		return c.Writers.NewStream()
	case c.Response != nil:
		return c.NewResponseStream()
	}
	return c.Reply.NewStream()
}

// open is parseBody for a request whose ignored fields may be asked for.
func (p *Profile) open(body []byte) *object {
	o := parseBody(body)
	if p.ListIgnored {
		o.read = make(map[string]bool, len(o.fields))
	}
	return o
}

// common reads what chat and completions share. Fields that depend on the kind
// of request (logprobs, max_tokens, echo) are added by the caller.
func (p *Profile) common(o *object, prefix string, e Envelope) *Call {
	c := &Call{Reply: Reply{
		Model:               p.Model.ServedNames[0],
		Created:             e.Created,
		SystemFingerprint:   p.SystemFingerprint,
		PromptTokensDetails: p.PromptTokensDetails,
		Metrics:             p.metricsObject(),
		NoTimes:             !p.PerRequestMetrics,
		PerChoiceMetrics:    p.PerChoiceMetrics,
		LlamaServerTimings:  p.LlamaServerTimings,
		GroqUsageTimes:      p.GroqUsageTimes,
	}}
	p.checkModel(o)
	c.Reply.ID = responseID(o, prefix, e)
	p.usageMode(o, &c.Reply)
	p.metricsPlaces(o, e.Metrics, &c.Reply)
	o.refuseLater()
	c.Request = &infer.Request{
		ID:         c.Reply.ID,
		Arrival:    e.Arrival,
		Receive:    e.Receive,
		Sampling:   p.sampling(o),
		SeedGiven:  o.seed() != nil,
		Structured: o.structured(),
		BadWords:   o.stringList("bad_words", maxListedStrings),
		Priority:   p.priority(o, e.Priority),
		CacheSalt:  o.cacheSalt(),

		Stream:         c.Reply.Stream,
		StreamInterval: p.streamInterval(o),
	}
	c.Request.N = p.choices(o, &c.Request.Sampling)
	c.Reply.ReturnTokenIDs = o.flag("return_token_ids", false)
	c.Reply.TokensAsTokenIDs = o.flag("return_tokens_as_token_ids", p.ReturnTokensAsTokenIDs)
	// A chunk with running usage must know the prompt's length.
	c.Request.ReturnTokenIDs = c.Reply.ReturnTokenIDs || (c.Reply.Stream && c.Reply.ContinuousUsage)
	c.Request.Sampling.NumPromptLogprobs = p.promptLogprobs(o, &c.Reply)
	c.Request.TruncatePromptTokens = p.truncatePromptTokens(o)
	c.Request.TruncateRight = o.truncateRight()
	return c
}

// streamInterval reads how many tokens a chunk should have; 0 = not given.
func (p *Profile) streamInterval(o *object) int {
	n := o.count("stream_interval", math.MinInt32, math.MaxInt32)
	if n != nil && *n < 1 {
		o.fail(infer.CodeInvalid, "stream_interval", "must be at least 1, got %d", *n)
	}
	return or(n, 0)
}

func (p *Profile) truncatePromptTokens(o *object) *int {
	n := o.count("truncate_prompt_tokens", math.MinInt32, math.MaxInt32)
	switch {
	case n == nil:
	case *n < -1 || *n == 0:
		o.fail(infer.CodeInvalid, "truncate_prompt_tokens", "must be at least 1, or -1 for as many as fit, got %d", *n)
	case *n > p.Model.MaxModelLen:
		o.fail(infer.CodeInvalid, "truncate_prompt_tokens", "%d is greater than the context length of %d tokens", *n, p.Model.MaxModelLen)
	}
	return n
}

func (o *object) truncateRight() bool {
	side := o.str("truncation_side")
	switch {
	case side == nil || *side == "left":
		return false
	case *side != "right":
		o.fail(infer.CodeMalformed, "truncation_side", `must be "left" or "right", got %q`, excerpt(*side))
	}
	return true
}

func (o *object) cacheSalt() string {
	salt := o.str("cache_salt")
	switch {
	case salt == nil:
		return ""
	case *salt == "":
		o.fail(infer.CodeInvalid, "cache_salt", "must not be empty; leave the field out instead")
	case len(*salt) > maxCacheSaltBytes:
		o.fail(infer.CodeInvalid, "cache_salt", "has %d bytes, the limit is %d", len(*salt), maxCacheSaltBytes)
	case strings.ContainsAny(*salt, "@/\\\x00"):
		o.fail(infer.CodeInvalid, "cache_salt", `must not contain @, /, \ or NUL`)
	}
	return *salt
}
