package chat

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/troupe-llm/troupe/chat/jinja"
	"github.com/troupe-llm/troupe/infer"
)

// Defaults of [Options].
const (
	defaultMaxOutput = 8 << 20
	defaultTimeout   = 2 * time.Second
)

// maxValues bounds the JSON values in one request: a conversation that fills a
// context of a million tokens has fewer.
const maxValues = 1 << 20

// maxSteps bounds the work of one rendering where the clock would be too late: it
// is about a second of it.
const maxSteps = 10_000_000

// The values of Options.ContentFormat, as of vLLM's --chat-template-content-format.
const (
	FormatAuto   = "auto"   // openai if the template loops over content, else string
	FormatString = "string" // content is a string; parts are joined with newlines
	FormatOpenAI = "openai" // content is a list of {"type": "text", "text": …}
)

// Options set up a template. The zero value is usable.
type Options struct {
	BOSToken, EOSToken string           // the template's bos_token and eos_token
	Now                func() time.Time // what strftime_now reads; nil = time.Now
	MaxOutput          int              // bytes of rendered text; 0 = 8 MiB
	Timeout            time.Duration    // of one rendering; 0 = two seconds
	ContentFormat      string           // auto (also ""), string or openai
}

// Template is a parsed chat template, safe for concurrent use.
type Template struct {
	opts     Options
	compiled *jinja.Template
	openAI   bool // messages get their content as a list of parts
}

// Input is one conversation to render.
type Input struct {
	Chat          *infer.ChatInput
	DefaultKwargs json.RawMessage // object or nil; Chat.TemplateKwargs override it
	// MaxOutput is a lower limit than the template's own, in bytes, for a text that
	// would be of no use beyond it; 0 = none. Passing it is CodeContextLength.
	MaxOutput     int
	ControlTokens []string // sorted spellings that must stay plain text where the client wrote them
}

// Rendered is prompt text. Literal lists, in order and disjoint, the byte ranges
// that spell a control token and hold at least one byte of client text.
type Rendered struct {
	Text    string
	Literal []infer.Span
}

// Parse compiles a template. A syntax error is an *infer.Error (CodeInvalid,
// Param chat_template) that names the line.
func Parse(source string, o Options) (*Template, error) {
	compiled, err := jinja.Parse(source)
	if err != nil {
		return nil, infer.Errorf(infer.CodeInvalid, "chat_template", "chat template: %v", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxOutput <= 0 {
		o.MaxOutput = defaultMaxOutput
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	t := &Template{opts: o, compiled: compiled}
	switch o.ContentFormat {
	case FormatAuto, "":
		t.openAI = compiled.LoopsOverContent()
	case FormatOpenAI:
		t.openAI = true
	case FormatString:
	default:
		return nil, infer.Errorf(infer.CodeInvalid, "chat_template_content_format",
			"the chat template content format must be auto, string or openai, got %q", o.ContentFormat)
	}
	return t, nil
}

// Render renders a conversation. A template that came with the request is the
// caller's to parse, if it is trusted. Failures are *infer.Error: CodeInvalid with
// the field at fault, or with the template's own message where it calls
// raise_exception.
func (t *Template) Render(in Input) (Rendered, error) {
	if in.Chat == nil {
		return Rendered{}, infer.Errorf(infer.CodeInvalid, "messages", "messages are required")
	}
	if in.Chat.ContinueFinalMessage && in.Chat.AddGenerationPrompt {
		return Rendered{}, infer.Errorf(infer.CodeInvalid, "continue_final_message",
			"continue_final_message and add_generation_prompt cannot both be true")
	}
	vars, last, err := t.variables(in)
	if err != nil {
		return Rendered{}, err
	}
	limits := t.limits(in.MaxOutput)
	text, err := t.compiled.Render(vars, limits)
	if err != nil {
		var failed *jinja.Error
		isTooLong := in.MaxOutput > 0 && errors.As(err, &failed) && failed.TooLong
		if size := numBytes(in.Chat); isTooLong || size > limits.MaxOutput/2 {
			return Rendered{}, infer.Errorf(infer.CodeContextLength, "messages",
				"the conversation has %d bytes, too many for a prompt, which may have %d", size, limits.MaxOutput)
		}
		return Rendered{}, renderError(err)
	}
	if in.Chat.ContinueFinalMessage {
		if text, err = cutAtFinal(text, last); err != nil {
			return Rendered{}, err
		}
	}
	return Rendered{Text: text.String(), Literal: literalSpans(text, in.ControlTokens)}, nil
}

// limits returns the template's own limits, with a lower one for the text; 0 = none.
func (t *Template) limits(maxOutput int) jinja.Limits {
	if maxOutput <= 0 {
		maxOutput = t.opts.MaxOutput
	}
	return jinja.Limits{
		MaxOutput: min(maxOutput, t.opts.MaxOutput),
		// What a template builds on the way to its output: a few copies of it are
		// usual, and the constant leaves room for lists and small outputs.
		MaxBytes: 64<<20 + 16*t.opts.MaxOutput,
		MaxSteps: maxSteps,
		Timeout:  t.opts.Timeout,
		Now:      t.opts.Now,
	}
}

// renderError maps a failure of the engine to the client's error.
func renderError(err error) error {
	var e *jinja.Error
	if !errors.As(err, &e) {
		return infer.Internal(err)
	}
	if e.Raised {
		return infer.Errorf(infer.CodeInvalid, "messages", "%s", e.Message)
	}
	return infer.Errorf(infer.CodeInvalid, "messages", "the chat template failed: %v", e)
}

// numBytes returns the size of a conversation as it was sent.
func numBytes(in *infer.ChatInput) int {
	size := len(in.Tools) + len(in.TemplateKwargs)
	for _, m := range in.Messages {
		size += len(m)
	}
	return size
}

// reserved are names that kwargs may not set: they are fields of their own.
var reserved = []string{"messages", "tools", "chat_template", "tokenize"}

// variables builds what the template sees. last is the final message.
func (t *Template) variables(in Input) (vars, last *jinja.Dict, err error) {
	d := jinja.NewDecoder(maxValues)
	messages, err := t.messages(d, in.Chat.Messages)
	if err != nil {
		return nil, nil, err
	}
	tools, err := decodeTools(d, in.Chat.Tools)
	if err != nil {
		return nil, nil, err
	}
	vars = &jinja.Dict{}
	vars.Set("messages", messages)
	vars.Set("tools", tools)
	vars.Set("documents", nil)
	vars.Set("add_generation_prompt", in.Chat.AddGenerationPrompt)
	vars.Set("continue_final_message", in.Chat.ContinueFinalMessage)
	vars.Set("bos_token", jinja.Plain(t.opts.BOSToken))
	vars.Set("eos_token", jinja.Plain(t.opts.EOSToken))
	if err := addKwargs(d, vars, in.DefaultKwargs, jinja.FromServer); err != nil {
		return nil, nil, err
	}
	if err := addKwargs(d, vars, in.Chat.TemplateKwargs, jinja.FromClient); err != nil {
		return nil, nil, err
	}
	last, _ = messages.Items[len(messages.Items)-1].(*jinja.Dict)
	return vars, last, nil
}

// addKwargs sets the variables of chat_template_kwargs.
func addKwargs(d *jinja.Decoder, vars *jinja.Dict, raw json.RawMessage, from jinja.Origin) error {
	const param = "chat_template_kwargs"
	if len(raw) == 0 {
		return nil
	}
	v, err := d.Decode(raw, from)
	if err != nil {
		return infer.Errorf(infer.CodeInvalid, param, "%s: %v", param, err)
	}
	kwargs, ok := v.(*jinja.Dict)
	switch {
	case v == nil:
		return nil
	case !ok:
		return infer.Errorf(infer.CodeInvalid, param, "%s must be an object", param)
	}
	for _, name := range reserved {
		if _, found := kwargs.Get(name); found {
			return infer.Errorf(infer.CodeInvalid, param+"."+name, "%s cannot set %q", param, name)
		}
	}
	kwargs.Each(vars.Set)
	return nil
}

// decodeTools returns the tools as the template sees them: a list, or none.
func decodeTools(d *jinja.Decoder, raw json.RawMessage) (jinja.Value, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := d.Decode(raw, jinja.FromClient)
	if err != nil {
		return nil, infer.Errorf(infer.CodeInvalid, "tools", "tools: %v", err)
	}
	list, ok := v.(*jinja.List)
	switch {
	case v == nil || ok && len(list.Items) == 0:
		return nil, nil
	case !ok:
		return nil, infer.Errorf(infer.CodeInvalid, "tools", "tools must be a list")
	}
	return list, nil
}
