package openai

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// Response is what POST /v1/responses knows beside a [Reply]. Until Follow, the
// request's conversation is its own input only.
type Response struct {
	PreviousID string // previous_response_id, "" = none
	Store      bool   // the client wants it kept; the server may decide against it
	Background bool   // the answer is not waited for: it is asked for later

	instructions json.RawMessage   // the message of `instructions`, nil = none
	dialogue     []json.RawMessage // what came before, and the input; without instructions
	input        []json.RawMessage // items of the input as they came; a text is one item
	settings     responseSettings
	newID        string // makes the ids of items

	offered      []infer.ToolServer      // servers that there are, while tools are read
	serverTools  map[string]serverTool   // by function: what the server runs; nil = nothing
	listings     []listing               // of the servers that the request names
	maxToolCalls *int                    // nil = no limit
	form         *infer.StructuredOutput // that the answer must have, whether a call is forced first or not
}

// ParseResponse reads the body of POST /v1/responses.
func ParseResponse(body []byte, p *Profile, e Envelope) (*Call, error) {
	o := p.open(body)
	p.checkModel(o)
	o.refuseFromResponses()
	c := &Call{Reply: Reply{
		ID: responseID(o, "resp_", e), Model: p.Model.ServedNames[0], Created: e.Created, NumChoices: 1,
		Stream: o.flag("stream", false), Metrics: p.metricsObject(), NoTimes: !p.PerRequestMetrics,
		TokensAsTokenIDs: o.flag("return_tokens_as_token_ids", p.ReturnTokensAsTokenIDs), TurnMetrics: p.PerTurnMetrics,
	}}
	p.metricsPlaces(o, e.Metrics, &c.Reply)
	o.typed("stream_options", "an object") // include_obfuscation: nothing is padded
	c.Request = &infer.Request{
		ID: c.Reply.ID, Arrival: e.Arrival, Receive: e.Receive, N: 1,
		Sampling: p.sampling(o), SeedGiven: o.seed() != nil, BadWords: o.stringList("bad_words", maxListedStrings),
		Priority: p.priority(o, e.Priority), CacheSalt: o.cacheSalt(),
		Stream: c.Reply.Stream, StreamInterval: p.streamInterval(o),
	}
	p.responseLimits(o, c)
	r := &Response{newID: e.NewID, Store: o.flag("store", true), PreviousID: o.previousID(), Background: o.flag("background", false)}
	if r.Background && c.Reply.Stream {
		o.fail(infer.CodeNotImplemented, "background", "together with stream is not supported by this version")
	}
	c.Response, r.offered = r, e.ToolServers
	r.settings = o.responseSettings(p, c)
	r.offered = nil
	r.readInput(o)
	c.Request.Chat = o.responseChat(r)
	if o.err != nil {
		return nil, o.err
	}
	c.Ignored = o.ignored()
	return c, c.Follow(nil)
}

// refuseFromResponses refuses what this endpoint has not, or not yet.
func (o *object) refuseFromResponses() {
	if o.has("prompt") {
		o.fail(infer.CodeInvalid, "prompt", "prompt templates are not supported: send the text as input")
	}
	if n := o.count("n", math.MinInt32, math.MaxInt32); n != nil && *n != 1 {
		o.fail(infer.CodeInvalid, "n", "must be 1: a response is one answer, got %d", *n)
	}
	if o.has(responseFormat) {
		o.fail(infer.CodeInvalid, responseFormat, "not a field of responses: give text.format instead")
	}
	o.refuse("conversation")
	o.refuseLater()
}

// responseLimits reads how much is generated, what is said of it, and whether a
// long input may be cut.
func (p *Profile) responseLimits(o *object, c *Call) {
	r := c.Request
	r.MaxTokens, r.MaxTokensParam = p.maxTokens(o, "max_output_tokens")
	if r.MaxTokens != nil && *r.MaxTokens < 1 {
		o.fail(infer.CodeInvalid, r.MaxTokensParam, "must be at least 1, got %d", *r.MaxTokens)
	}
	r.Sampling.MinTokens = p.minTokens(o, r.MaxTokens)
	top := p.logprobs(o, "top_logprobs", "sample")
	if o.includesLogprobs() {
		c.Reply.Logprobs = true
		r.Sampling.NumLogprobs = max(top, 0)
	}
	if o.choice("truncation", "disabled", "auto") == "auto" {
		asManyAsFit := -1
		r.TruncatePromptTokens = &asManyAsFit
	}
}

// includable are the values of include. Only one can have an effect here: the
// others ask for parts of what no answer has.
var includable = []string{
	includeLogprobs, "reasoning.encrypted_content", "file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
	"message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs",
}

const includeLogprobs = "message.output_text.logprobs"

func (o *object) includesLogprobs() bool {
	found := false
	for _, value := range o.stringList("include", len(includable)) {
		o.oneOf("include", value, includable)
		found = found || value == includeLogprobs
	}
	return found
}

// maxResponseIDBytes bounds an id that a client repeats: it may be made of a request id.
const maxResponseIDBytes = len("resp_") + maxIDBytes

func (o *object) previousID() string {
	id := or(o.str("previous_response_id"), "")
	if len(id) > maxResponseIDBytes {
		o.fail(infer.CodeInvalid, "previous_response_id", "has %d bytes, the limit is %d", len(id), maxResponseIDBytes)
	}
	return id
}

// responseChat reads how the conversation is rendered.
func (o *object) responseChat(r *Response) *infer.ChatInput {
	return &infer.ChatInput{
		Tools:               r.settings.templateTools,
		AddGenerationPrompt: true,
		TemplateKwargs:      o.templateKwargs(o.effort()),
		Template:            or(o.str("chat_template"), ""),
	}
}

// templateKwargs returns chat_template_kwargs with what an effort ("" = none given)
// says to templates, unless the client says that itself.
func (o *object) templateKwargs(effort string) json.RawMessage {
	given := bytes.Clone(o.typed("chat_template_kwargs", "an object"))
	if effort == "" {
		return given
	}
	own := map[string]bool{}
	kwargs := []byte{'{'}
	if given != nil {
		for name := range members(given) {
			own[name] = true
		}
		kwargs = bytes.TrimRight(given, " \t\r\n")
		kwargs = kwargs[:len(kwargs)-1]
	}
	add := func(name string, value []byte) {
		if own[name] {
			return
		}
		if len(own) > 0 {
			kwargs = append(kwargs, ',')
		}
		own[name] = true
		kwargs = append(append(appendString(kwargs, name), ':'), value...)
	}
	add("reasoning_effort", appendString(nil, effort))
	if effort == noEffort {
		add("enable_thinking", []byte("false"))
	}
	return append(kwargs, '}')
}

// Follow puts the messages of an earlier response before the input. The result
// is what the template renders.
func (c *Call) Follow(previous []json.RawMessage) error {
	r := c.Response
	r.dialogue = append(previous[:len(previous):len(previous)], r.dialogue...)
	messages := r.dialogue
	if r.instructions != nil {
		messages = append([]json.RawMessage{r.instructions}, messages...)
	}
	if len(messages) > maxMessages {
		return infer.Errorf(infer.CodeInvalid, "input", "input: makes a conversation of %d messages, the limit is %d", len(messages), maxMessages)
	}
	c.Request.Chat.Messages = messages
	return nil
}
