package openai

import (
	"encoding/json"
	"iter"

	"github.com/troupe-llm/troupe/infer"
)

// This file is what packages of other APIs use of this one: the reader of JSON
// objects, what requests of every API have, and the writers of values.

// Object reads the fields of a JSON object by name and type. The first thing wrong is
// kept; later reads then return zero values. A missing field and null read the same.
type Object = object

// Open checks a whole body and opens its object.
func (p *Profile) Open(body []byte) *Object { return p.open(body) }

// OpenObject opens valid JSON that should be an object; path stands in errors.
func OpenObject(raw json.RawMessage, path string) *Object { return parseObject(raw, path) }

// Err returns the first thing wrong, nil if nothing is.
func (o *object) Err() error {
	if o.err == nil {
		return nil
	}
	return o.err
}

// Path returns the prefix of field names in errors: "" or "messages[0].".
func (o *object) Path() string { return o.path }

// Fail records the first error; name is the field within this object.
func (o *object) Fail(code infer.Code, name, format string, args ...any) {
	o.fail(code, name, format, args...)
}

// Mismatch is Fail for a value of the wrong kind.
func (o *object) Mismatch(name, want string, raw json.RawMessage) { o.mismatch(name, want, raw) }

// Adopt takes over the first error of an object within this one.
func (o *object) Adopt(inner *Object) { o.adopt(inner) }

// Raw returns a field's JSON, which belongs to the body, nil if it is missing or null.
func (o *object) Raw(name string) json.RawMessage { return o.raw(name) }

// Typed is Raw for a field that must be of a kind that [Kind] names.
func (o *object) Typed(name, want string) json.RawMessage { return o.typed(name, want) }

// Str reads a string, "" if it is missing.
func (o *object) Str(name string) string { return or(o.str(name), "") }

// Needed reads a string that must be there and say something.
func (o *object) Needed(name string) string { return o.needed(name) }

// Label reads a short string without effect.
func (o *object) Label(name string) string { return o.label(name) }

// Flag reads a boolean, false if it is missing.
func (o *object) Flag(name string) bool { return o.flag(name, false) }

// Count reads an integer in [lo, hi], nil if it is missing.
func (o *object) Count(name string, lo, hi int64) *int { return o.count(name, lo, hi) }

// Strings reads a list of at most max strings, none of them empty.
func (o *object) Strings(name string, max int) []string { return o.stringList(name, max) }

// OneOf fails if a field's value is not among those it may have.
func (o *object) OneOf(name, value string, values []string) { o.oneOf(name, value, values) }

// Ignored returns the names, cut, of fields that nobody has asked for.
func (o *object) Ignored() []string { return o.ignored() }

// CheckModel accepts no model, "" and the served names.
func (p *Profile) CheckModel(o *Object) { p.checkModel(o) }

// NewCall reads what a request for one answer has whatever its API is: the model, its
// name, how to sample, its priority, whether it is streamed, and where metrics go.
func (p *Profile) NewCall(o *Object, prefix string, e Envelope) *Call {
	p.checkModel(o)
	c := &Call{Reply: Reply{
		ID: responseID(o, prefix, e), Model: p.Model.ServedNames[0], Created: e.Created, NumChoices: 1,
		Stream: o.flag("stream", false), PromptTokensDetails: p.PromptTokensDetails, ReasoningTokens: p.ReasoningTokens,
		Metrics: p.metricsObject(), NoTimes: !p.PerRequestMetrics,
	}}
	p.metricsPlaces(o, e.Metrics, &c.Reply)
	c.Request = &infer.Request{
		ID: c.Reply.ID, Arrival: e.Arrival, Receive: e.Receive, N: 1,
		Sampling: p.sampling(o), SeedGiven: o.seed() != nil, BadWords: o.stringList("bad_words", maxListedStrings),
		Priority: p.priority(o, e.Priority), CacheSalt: o.cacheSalt(),
		Stream: c.Reply.Stream, StreamInterval: p.streamInterval(o),
	}
	return c
}

// MaxTokens reads how much is generated at most, nil if it is missing, and caps it by
// the model's own limit.
func (p *Profile) MaxTokens(o *Object, name string) *int {
	limit, _ := p.maxTokens(o, name)
	return limit
}

// AppendTool appends a tool as templates know it; description and parameters are JSON,
// nil = none.
func AppendTool(dst []byte, name string, description, parameters json.RawMessage) []byte {
	f := function{name: name, description: description, parameters: parameters}
	return f.appendForTemplate(dst)
}

// Elements iterates over the elements of a valid JSON array, as parts of raw.
func Elements(raw json.RawMessage) iter.Seq2[int, json.RawMessage] { return elements(raw) }

// Kind names a valid JSON value's type: "a string", "an object", "an array", …
func Kind(raw json.RawMessage) string { return kind(raw) }

// Unquote decodes a valid JSON string.
func Unquote(raw json.RawMessage) string { return unquote(raw) }

// Excerpt cuts a client's value for an error message.
func Excerpt(s string) string { return excerpt(s) }

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString[T string | []byte](dst []byte, s T) []byte { return appendString(dst, s) }

// AppendMetricsField appends the field metrics with its leading comma, if it is on.
func (r *Reply) AppendMetricsField(dst []byte, m *infer.RequestMetrics) []byte {
	return r.appendMetricsField(dst, m)
}

// AppendMetricsComment appends the metrics as a server-sent comment, if the client asked
// for that.
func (r *Reply) AppendMetricsComment(dst []byte, f *infer.Final) []byte {
	if !r.MetricsComment {
		return dst
	}
	return r.appendMetricsComment(dst, f)
}
