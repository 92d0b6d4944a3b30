package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// Bounds of a conversation: each message costs at least one token, and so do blocks
// that say something.
const (
	maxMessages = 1 << 16
	maxBlocks   = 1 << 16 // in all messages together
)

const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
)

var roles = []string{roleUser, roleAssistant, roleSystem}

// blockTypes are the types of blocks that messages of a role may have.
var blockTypes = map[string][]string{
	roleSystem:    {"text"},
	roleUser:      {"text", "tool_result"},
	roleAssistant: {"text", "thinking", "redacted_thinking", "tool_use"},
}

// conversation makes messages as chat templates know them. What is in them is copied
// from the body.
type conversation struct {
	messages  []json.RawMessage
	numBlocks int
	turn
}

// turn is what the one who speaks has said so far; parts of the body.
type turn struct {
	openai.Said                   // Role: "" = nobody has spoken; Content is not set before the end
	texts       []json.RawMessage // JSON strings
}

// addSystem reads the field system: a text or blocks of text.
func (c *conversation) addSystem(o *openai.Object) {
	raw := o.Raw("system")
	switch {
	case raw == nil || string(raw) == `""`:
	case openai.Kind(raw) == "a string":
		c.Role, c.texts = roleSystem, []json.RawMessage{raw}
	default:
		c.Role, c.texts = roleSystem, c.readTexts(o, "system", raw)
	}
}

// readTexts reads a text, or the texts of a list of text blocks.
func (c *conversation) readTexts(o *openai.Object, name string, raw json.RawMessage) (texts []json.RawMessage) {
	switch openai.Kind(raw) {
	case "a string":
		return []json.RawMessage{raw}
	case "an array":
	default:
		o.Mismatch(name, "a string or a list of text blocks", raw)
		return nil
	}
	for i, element := range openai.Elements(raw) {
		b := openai.OpenObject(element, fmt.Sprintf("%s%s[%d]", o.Path(), name, i))
		if form := c.blockType(b, blockTypes[roleSystem]); form == "text" {
			texts = append(texts, readText(b))
		}
		if o.Adopt(b); o.Err() != nil {
			return nil
		}
	}
	return texts
}

// blockType reads the type of a block, which must be one of a few.
func (c *conversation) blockType(b *openai.Object, known []string) string {
	if c.numBlocks++; c.numBlocks > maxBlocks {
		b.Fail(infer.CodeInvalid, "type", "the conversation has more than %d blocks", maxBlocks)
	}
	form := b.Needed("type")
	if !slices.Contains(known, form) {
		b.Fail(infer.CodeInvalid, "type", "a block of type %q is not supported here: the model reads text; use %s", openai.Excerpt(form), strings.Join(known, ", "))
	}
	return form
}

func readText(b *openai.Object) json.RawMessage {
	text := b.Typed("text", "a string")
	if text == nil {
		b.Fail(infer.CodeMalformed, "text", "is required")
	}
	return text
}

func (c *conversation) addMessages(o *openai.Object) {
	raw := o.Typed("messages", "an array")
	if raw == nil {
		o.Fail(infer.CodeMalformed, "messages", "is required: a list of messages")
		return
	}
	n := 0
	for i, element := range openai.Elements(raw) {
		if n++; n > maxMessages {
			o.Fail(infer.CodeInvalid, "messages", "has more than %d entries", maxMessages)
			return
		}
		m := openai.OpenObject(element, fmt.Sprintf("messages[%d]", i))
		c.addMessage(m)
		if o.Adopt(m); o.Err() != nil {
			return
		}
	}
	if n == 0 {
		o.Fail(infer.CodeInvalid, "messages", "must not be empty")
	}
}

func (c *conversation) addMessage(m *openai.Object) {
	role := m.Needed("role")
	m.OneOf("role", role, roles)
	content := m.Raw("content")
	if content == nil {
		m.Fail(infer.CodeMalformed, "content", "is required in a message of role %q", openai.Excerpt(role))
	}
	if m.Err() != nil {
		return
	}
	c.speak(role)
	switch openai.Kind(content) {
	case "a string":
		c.texts = append(c.texts, content)
	case "an array":
		c.addBlocks(m, content)
	default:
		m.Mismatch("content", "a string or a list of blocks", content)
	}
}

// speak begins a turn unless it is that role's already.
func (c *conversation) speak(role string) {
	if c.Role != role {
		c.endTurn()
		c.Role = role
	}
}

func (c *conversation) addBlocks(m *openai.Object, content json.RawMessage) {
	n := 0
	for i, element := range openai.Elements(content) {
		n++
		b := openai.OpenObject(element, fmt.Sprintf("%scontent[%d]", m.Path(), i))
		c.addBlock(b)
		if m.Adopt(b); m.Err() != nil {
			return
		}
	}
	if n == 0 && c.Role != roleAssistant {
		m.Fail(infer.CodeInvalid, "content", "must not be empty")
	}
}

func (c *conversation) addBlock(b *openai.Object) {
	switch c.blockType(b, blockTypes[c.Role]) {
	case "text":
		c.texts = append(c.texts, readText(b))
	case "tool_result":
		c.addResult(b)
	case "tool_use":
		c.addCall(b)
	case "thinking":
		c.addThinking(b)
	}
}

// addThinking takes what the assistant thought. The signature is not looked at: what a
// client may send as the assistant's words, it may send as its thoughts.
func (c *conversation) addThinking(b *openai.Object) {
	text := b.Typed("thinking", "a string")
	switch {
	case text == nil:
		b.Fail(infer.CodeMalformed, "thinking", "is required")
		return
	case len(text) == len(`""`):
		return
	}
	c.AddReasoning(text[1 : len(text)-1])
}

func (c *conversation) addCall(b *openai.Object) {
	id, name, input := b.Needed("id"), b.Needed("name"), b.Typed("input", "an object")
	if input == nil {
		input = json.RawMessage("{}")
	}
	c.AddCall(id, name, openai.AppendString(nil, []byte(input)))
}

// addResult takes the result of a call: a message of its own, behind what the user has
// said before it. Templates know of no is_error; the text says so.
func (c *conversation) addResult(b *openai.Object) {
	id := b.Needed("tool_use_id")
	b.Flag("is_error")
	var texts []json.RawMessage
	if content := b.Raw("content"); content != nil {
		texts = c.readTexts(b, "content", content)
	}
	c.endTurn()
	c.messages = append(c.messages, openai.ToolMessage(id, contentOf(texts)))
	c.Role = roleUser
}

// contentOf returns texts as the content of a message.
func contentOf(texts []json.RawMessage) json.RawMessage {
	switch len(texts) {
	case 0:
		return json.RawMessage(`""`)
	case 1:
		return texts[0]
	}
	var dst []byte
	for i, text := range texts {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		dst = append(append(append(dst, sep), `{"type":"text","text":`...), text...)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// endTurn makes a message of what has been said, if anything.
func (c *conversation) endTurn() {
	t := c.turn
	c.turn = turn{}
	if t.texts != nil {
		t.Content = contentOf(t.texts)
	}
	if !t.IsEmpty() {
		c.messages = append(c.messages, t.Message())
	}
}

// end ends the conversation. It reports whether the last words are the assistant's,
// which are to be continued.
func (c *conversation) end(o *openai.Object) (isPrefilled bool) {
	t := c.turn
	c.endTurn()
	switch {
	case len(c.messages) == 0:
		o.Fail(infer.CodeInvalid, "messages", "holds nothing that can be read")
	case t.Calls != nil:
		o.Fail(infer.CodeInvalid, "messages", "the last message calls tools: a message with their results must follow")
	case t.Role == roleAssistant && !t.isContinuable():
		o.Fail(infer.CodeInvalid, "messages", "the last message is the assistant's and has no text to continue")
	}
	return t.Role == roleAssistant && t.texts != nil
}

// isContinuable reports whether a turn of the assistant is none at all, or ends with
// text that the model can go on with.
func (t *turn) isContinuable() bool {
	if len(t.texts) == 0 {
		return t.Reasoning == nil
	}
	return strings.TrimSpace(openai.Unquote(t.texts[len(t.texts)-1])) != ""
}
