package anthropic

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// ParseMessage reads the body of POST /v1/messages.
func ParseMessage(body []byte, p *openai.Profile, e openai.Envelope) (*openai.Call, error) {
	o := p.Open(body)
	c := p.NewCall(o, "msg_", e)
	r := c.Request
	r.Sampling.Stop = o.Strings("stop_sequences", p.MaxStopStrings)
	r.MaxTokens, r.MaxTokensParam = p.MaxTokens(o, "max_tokens"), "max_tokens"
	switch {
	case r.MaxTokens == nil:
		o.Fail(infer.CodeMalformed, "max_tokens", "is required")
	case *r.MaxTokens < 1:
		o.Fail(infer.CodeInvalid, "max_tokens", "must be at least 1, got %d", *r.MaxTokens)
	}
	if metadata := o.Typed("metadata", "an object"); metadata != nil {
		m := openai.OpenObject(metadata, "metadata")
		m.Label("user_id")
		o.Adopt(m)
	}
	in := readPrompt(o, p)
	// The client's own limit: the model's may be lower.
	if b, limit := in.thinking.budget, o.Count("max_tokens", math.MinInt64, math.MaxInt64); b > 0 && limit != nil && b >= *limit {
		o.Fail(infer.CodeInvalid, "thinking.budget_tokens", "must be less than max_tokens=%d, got %d", *limit, b)
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	r.Chat, r.Tools, r.Structured = in.chat, in.tools, in.form
	r.ReturnTokenIDs = r.Stream // the first event says how long the prompt is
	c.Writers = &answer{reply: &c.Reply, signature: e.NewID, shown: in.thinking.shown}
	c.Ignored = o.Ignored()
	return c, nil
}

// ParseCount reads the body of POST /v1/messages/count_tokens. What it returns has the
// tokens that a message of the same fields would begin with.
func ParseCount(body []byte, p *openai.Profile) (*infer.TokenizeRequest, error) {
	o := p.Open(body)
	p.CheckModel(o)
	in := readPrompt(o, p)
	if err := o.Err(); err != nil {
		return nil, err
	}
	return &infer.TokenizeRequest{Chat: in.chat}, nil
}

// AppendCount appends the answer to POST /v1/messages/count_tokens.
func AppendCount(dst []byte, numTokens int) []byte {
	return append(strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(numTokens), 10), '}')
}

// prompt is what a body says of the tokens that the model reads, and of what it may
// make of them.
type prompt struct {
	chat     *infer.ChatInput
	tools    *infer.ToolUse          // nil = none may be called
	form     *infer.StructuredOutput // of the answer, nil = any
	thinking thinking
}

// threadField asks for a conversation that the server keeps. Clients that are told no
// in the words of [AppendError] send the whole conversation instead.
const threadField = "thread"

func readPrompt(o *openai.Object, p *openai.Profile) prompt {
	if o.Raw(threadField) != nil {
		o.Fail(infer.CodeInvalid, threadField, "not supported: no conversations are kept, send all messages")
	}
	if raw := o.Typed("mcp_servers", "an array"); len(bytes.Trim(raw, "[] \t\r\n")) > 0 {
		o.Fail(infer.CodeInvalid, "mcp_servers", "not supported: tools of servers are not called for messages")
	}
	in := prompt{thinking: readThinking(o)}
	var effort string
	effort, in.form = readOutputConfig(o)
	var shown json.RawMessage
	in.tools, shown = readTools(o, p)
	if in.tools != nil && in.tools.Forced {
		in.form = nil // it is an answer's, and none comes
	}
	var c conversation
	c.addSystem(o)
	c.addMessages(o)
	isPrefilled := c.end(o)
	if isPrefilled && in.thinking.isOn {
		o.Fail(infer.CodeInvalid, "messages", "the last message is the assistant's, which cannot be continued with thinking on")
	}
	in.chat = &infer.ChatInput{
		Messages: c.messages, Tools: shown, TemplateKwargs: in.thinking.kwargs(effort),
		AddGenerationPrompt: !isPrefilled, ContinueFinalMessage: isPrefilled,
	}
	return in
}

var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// readOutputConfig reads how hard the model shall try, "" = not said, and what form
// the answer must have, nil = any.
func readOutputConfig(o *openai.Object) (effort string, form *infer.StructuredOutput) {
	form = readForm(o, "output_format") // its name before there was an output_config
	raw := o.Typed("output_config", "an object")
	if raw == nil {
		return "", form
	}
	config := openai.OpenObject(raw, "output_config")
	if effort = config.Str("effort"); effort != "" {
		config.OneOf("effort", effort, efforts)
	}
	if newer := readForm(config, "format"); newer != nil {
		form = newer
	}
	o.Adopt(config)
	return effort, form
}

// readForm reads the form of the answer from a member, nil = there is none.
func readForm(o *openai.Object, name string) *infer.StructuredOutput {
	raw := o.Typed(name, "an object")
	if raw == nil {
		return nil
	}
	path := o.Path() + name
	f := openai.OpenObject(raw, path)
	f.OneOf("type", f.Needed("type"), []string{"json_schema"})
	schema := f.Raw("schema")
	if schema == nil {
		f.Fail(infer.CodeMalformed, "schema", "is required")
	}
	o.Adopt(f)
	return &infer.StructuredOutput{Param: path, Path: f.Path() + "schema", JSONSchema: bytes.Clone(schema)}
}

// thoughts says what a client sees of them.
type thoughts uint8

const (
	dropThoughts thoughts = iota // nothing
	markThoughts                 // that there were some
	showThoughts
)

// thinking is what a request says of thoughts. Without a word they are off, as they
// are at Anthropic.
type thinking struct {
	isOn   bool
	budget int // 0 = not given; templates may show it to the model, and nothing else holds it to that
	shown  thoughts
}

func readThinking(o *openai.Object) (t thinking) {
	raw := o.Typed("thinking", "an object")
	if raw == nil {
		return t
	}
	in := openai.OpenObject(raw, "thinking")
	defer func() { o.Adopt(in) }()
	form := in.Needed("type")
	in.OneOf("type", form, []string{"enabled", "disabled", "adaptive"})
	if form == "disabled" {
		return t
	}
	t.isOn, t.shown = true, showThoughts
	if display := in.Str("display"); display != "" {
		in.OneOf("display", display, []string{"summarized", "omitted"})
		if display == "omitted" {
			t.shown = markThoughts
		}
	}
	budget := in.Count("budget_tokens", 1, math.MaxInt32)
	switch {
	case budget != nil:
		t.budget = *budget
	case form == "enabled":
		in.Fail(infer.CodeMalformed, "budget_tokens", "is required with type enabled")
	}
	return t
}

// kwargs returns the arguments by which templates know of thinking and effort.
func (t *thinking) kwargs(effort string) json.RawMessage {
	dst := strconv.AppendBool([]byte(`{"enable_thinking":`), t.isOn)
	dst = strconv.AppendBool(append(dst, `,"thinking":`...), t.isOn)
	if t.budget > 0 {
		dst = strconv.AppendInt(append(dst, `,"thinking_budget":`...), int64(t.budget), 10)
	}
	if effort != "" {
		dst = openai.AppendString(append(dst, `,"reasoning_effort":`...), effort)
	}
	return append(dst, '}')
}
