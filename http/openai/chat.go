package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// ParseChat reads the body of POST /v1/chat/completions.
func ParseChat(body []byte, p *Profile, e Envelope) (*Call, error) {
	o := p.open(body)
	c := p.common(o, "chatcmpl-", e)
	r := c.Request
	c.Reply.chat = true
	c.Reply.NumChoices = r.N
	tools := p.chatTools(o, c)
	c.Reply.ReasoningTokens = p.ReasoningTokens
	c.Reply.OmitReasoning = !o.flag("include_reasoning", true)
	p.chatLogprobs(o, c)
	r.MaxTokens, r.MaxTokensParam = p.maxTokens(o, "max_completion_tokens", "max_tokens")
	if r.MaxTokens != nil && *r.MaxTokens < 1 {
		o.fail(infer.CodeInvalid, r.MaxTokensParam, "must be at least 1, got %d", *r.MaxTokens)
	}
	r.Sampling.MinTokens = p.minTokens(o, r.MaxTokens)
	r.AddSpecialTokens = o.flag("add_special_tokens", false)
	r.Chat = o.chatInput()
	r.Chat.Tools = tools
	p.chatRole(o, c)
	if o.err != nil {
		return nil, o.err
	}
	c.Ignored = o.ignored()
	return c, nil
}

// chatLogprobs reads logprobs (a switch) and top_logprobs (a number).
func (p *Profile) chatLogprobs(o *object, c *Call) {
	on := o.flag("logprobs", false)
	top := p.logprobs(o, "top_logprobs", "sample")
	if !on {
		if top > 0 {
			o.fail(infer.CodeMalformed, "top_logprobs", "needs logprobs: true")
		}
		return
	}
	c.Reply.Logprobs = true
	c.Request.Sampling.NumLogprobs = max(top, 0)
}

// chatRole decides whose message is generated, and with echo the text that it
// continues: the last message's, if that has the same role.
func (p *Profile) chatRole(o *object, c *Call) {
	echo := o.flag("echo", false)
	c.Reply.Role = p.ResponseRole
	if o.err != nil {
		return
	}
	messages := c.Request.Chat.Messages
	last := parseObject(messages[len(messages)-1], "")
	role := or(last.str("role"), "")
	if !c.Request.Chat.AddGenerationPrompt {
		c.Reply.Role = role
	}
	if echo && role == c.Reply.Role {
		if raw := last.raw("content"); raw != nil {
			c.Reply.EchoText = unquoteOr(raw, "")
		}
	}
}

// chatInput reads the conversation and how it is rendered; it copies what it
// keeps, so that the body's memory can go.
func (o *object) chatInput() *infer.ChatInput {
	in := &infer.ChatInput{
		Messages:             o.messages("messages"),
		AddGenerationPrompt:  o.flag("add_generation_prompt", true),
		ContinueFinalMessage: o.flag("continue_final_message", false),
		TemplateKwargs:       o.templateKwargs(o.chatEffort()),
		Template:             or(o.str("chat_template"), ""),
	}
	if in.ContinueFinalMessage && in.AddGenerationPrompt {
		o.fail(infer.CodeMalformed, "continue_final_message", "cannot be true together with add_generation_prompt, which is true by default")
	}
	return in
}

// chatEffort reads reasoning_effort, "" if there is none.
func (o *object) chatEffort() string {
	effort := o.str("reasoning_effort")
	if effort != nil {
		o.oneOf("reasoning_effort", *effort, efforts)
	}
	return or(effort, "")
}

// maxMessages bounds a conversation: each message costs at least one token. So do
// the parts of all contents together, but for those that say nothing.
const (
	maxMessages = 1 << 16
	maxParts    = 1 << 16
)

var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

// messages reads the list of messages. Each must be an object with a known role
// and text; what else it holds is the template's business.
func (o *object) messages(name string) []json.RawMessage {
	raw := o.typed(name, "an array")
	if raw == nil {
		o.fail(infer.CodeMalformed, name, "is required: a list of messages")
		return nil
	}
	raw = bytes.Clone(raw)
	var list []json.RawMessage
	numParts := 0
	for i, element := range elements(raw) {
		if i == maxMessages {
			o.fail(infer.CodeInvalid, name, "has more than %d entries", maxMessages)
			return nil
		}
		m := parseObject(element, fmt.Sprintf("%s[%d]", name, i))
		m.parts = &numParts
		if m.checkMessage(); m.err != nil {
			o.adopt(m)
			return nil
		}
		list = append(list, element)
	}
	if len(list) == 0 {
		o.fail(infer.CodeInvalid, name, "must not be empty")
	}
	return list
}

func (o *object) checkMessage() {
	role := o.str("role")
	if role == nil {
		o.fail(infer.CodeMalformed, "role", "is required")
		return
	}
	if !slices.Contains(roles, *role) {
		o.fail(infer.CodeInvalid, "role", "unknown role %q: use one of %q", excerpt(*role), roles)
		return
	}
	content := o.raw("content")
	switch {
	case o.err != nil:
	case content == nil && *role != "assistant":
		o.fail(infer.CodeMalformed, "content", "is required in a message of role %q", *role)
	case content == nil || kind(content) == "a string":
	case kind(content) == "an array":
		o.checkParts(content)
	default:
		o.mismatch("content", "a string or a list of parts", content)
	}
	o.typed("tool_calls", "an array")
}

// textParts are the types of parts that are text, and the field that holds it.
var textParts = map[string]string{"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}

// checkParts accepts the parts of a content list: strings and parts of text.
func (o *object) checkParts(content json.RawMessage) {
	if o.parts == nil {
		o.parts = new(int)
	}
	for i, element := range elements(content) {
		if *o.parts++; *o.parts > maxParts {
			o.fail(infer.CodeInvalid, "content", "the conversation has more than %d parts", maxParts)
			return
		}
		if kind(element) == "a string" {
			continue
		}
		part := parseObject(element, fmt.Sprintf("%scontent[%d]", o.path, i))
		if part.checkPart(); part.err != nil {
			o.adopt(part)
			return
		}
	}
}

func (o *object) checkPart() {
	form := o.str("type")
	if form == nil {
		o.fail(infer.CodeMalformed, "type", "is required")
		return
	}
	field, ok := textParts[*form]
	switch {
	case !ok:
		o.fail(infer.CodeInvalid, "type", "%q is not supported: this model takes text only", excerpt(*form))
	case o.str(field) == nil:
		o.fail(infer.CodeMalformed, field, "is required")
	}
}
