package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// readInput reads instructions and input into messages of a conversation.
func (r *Response) readInput(o *object) {
	if text := o.typed("instructions", "a string"); text != nil {
		r.instructions = textMessage("system", text)
	}
	raw := o.raw("input")
	switch {
	case o.err != nil:
	case raw == nil:
		o.fail(infer.CodeMalformed, "input", "is required: a text or a list of items")
	case kind(raw) == "a string":
		r.dialogue = []json.RawMessage{textMessage("user", raw)}
		item := append([]byte(`{"type":"message","role":"user","content":[{"type":"input_text","text":`), raw...)
		r.input = []json.RawMessage{append(item, "}]}"...)}
	case kind(raw) != "an array":
		o.mismatch("input", "a string or a list of items", raw)
	case isEmptyArray(raw):
		o.fail(infer.CodeInvalid, "input", "must not be empty")
	default:
		r.readItems(o, bytes.Clone(raw))
	}
}

func textMessage(role string, text json.RawMessage) json.RawMessage {
	m := append([]byte(`{"role":"`), role...)
	return append(append(append(m, `","content":`...), text...), '}')
}

func (r *Response) readItems(o *object, raw json.RawMessage) {
	var d dialogue
	for i, element := range elements(raw) {
		if i == maxMessages {
			o.fail(infer.CodeInvalid, "input", "has more than %d entries", maxMessages)
			return
		}
		item := parseObject(element, fmt.Sprintf("input[%d]", i))
		d.add(item, element)
		if o.adopt(item); o.err != nil {
			return
		}
		r.input = append(r.input, element)
	}
	if d.endTurn(); len(d.messages) == 0 {
		o.fail(infer.CodeInvalid, "input", "holds nothing that can be read")
	}
	r.dialogue = d.messages
}

// dialogue makes messages of items. What an assistant said in one turn comes as several.
type dialogue struct {
	messages []json.RawMessage
	said     Said              // by the assistant in the turn
	results  []json.RawMessage // messages of results that came with the turn's calls
}

var itemTypes = []string{"message", "function_call", "function_call_output", "reasoning", "mcp_call", "mcp_list_tools"}

// add takes an item; raw is its JSON, which the caller gives away.
func (d *dialogue) add(o *object, raw json.RawMessage) {
	form := o.str("type")
	switch {
	case o.err != nil:
	case form == nil && o.raw("role") == nil:
		o.fail(infer.CodeMalformed, "type", "is required: one of %s", strings.Join(itemTypes, ", "))
	case form == nil && (o.has("tool_calls") || o.has("tool_call_id")): // a message of the chat endpoint
		o.checkMessage()
		d.endTurn()
		d.messages = append(d.messages, raw)
	case form == nil || *form == "message":
		d.addMessage(o)
	case *form == "function_call":
		d.addCall(o)
	case *form == "function_call_output":
		d.addCallOutput(o)
	case *form == "reasoning":
		d.addReasoning(o)
	case *form == "mcp_call":
		d.addServerCall(o)
	case *form == "mcp_list_tools": // tools come with each request
	default:
		o.fail(infer.CodeInvalid, "type", "%q is not supported: use one of %s", excerpt(*form), strings.Join(itemTypes, ", "))
	}
}

var messageRoles = []string{"user", "assistant", "system", "developer"}

func (d *dialogue) addMessage(o *object) {
	if o.checkMessage(); o.err != nil {
		return
	}
	role, content := *o.str("role"), o.raw("content")
	switch {
	case !slices.Contains(messageRoles, role):
		o.fail(infer.CodeInvalid, "role", "unknown role %q: use one of %q", excerpt(role), messageRoles)
	case role != "assistant":
		d.endTurn()
		d.messages = append(d.messages, textMessage(role, content))
	case content != nil:
		if d.said.Content != nil || d.said.Calls != nil {
			d.endTurn()
		}
		d.said.Content = content
	}
}

func (d *dialogue) addCall(o *object) {
	id, name, arguments := o.needed("call_id"), o.needed("name"), o.typed("arguments", "a string")
	switch {
	case o.err != nil:
		return
	case arguments == nil:
		o.fail(infer.CodeMalformed, "arguments", "is required: JSON as a string")
		return
	case len(arguments) > len(`""`) && !json.Valid([]byte(unquote(arguments))):
		o.fail(infer.CodeInvalid, "arguments", "is not valid JSON: %s", excerpt(unquote(arguments)))
		return
	}
	d.said.AddCall(id, name, arguments)
}

// needed reads a string that must be there and say something.
func (o *object) needed(name string) string {
	s := or(o.str(name), "")
	if s == "" {
		o.fail(infer.CodeMalformed, name, "is required")
	}
	return s
}

func (d *dialogue) addCallOutput(o *object) {
	id, output := o.needed("call_id"), o.raw("output")
	switch {
	case o.err != nil:
		return
	case output == nil:
		o.fail(infer.CodeMalformed, "output", "is required")
		return
	case kind(output) == "an array":
		o.checkTexts("output", output)
	case kind(output) != "a string":
		o.mismatch("output", "a string or a list of parts", output)
	}
	d.endTurn()
	d.messages = append(d.messages, ToolMessage(id, output))
}

// checkTexts accepts a list of parts that are text.
func (o *object) checkTexts(name string, raw json.RawMessage) {
	for i, element := range elements(raw) {
		part := parseObject(element, fmt.Sprintf("%s%s[%d]", o.path, name, i))
		if part.checkPart(); part.err != nil {
			o.adopt(part)
			return
		}
	}
}

// addReasoning takes the text of a reasoning item, or the summary of one that has
// none. What is encrypted cannot be read and is left out.
func (d *dialogue) addReasoning(o *object) {
	text := o.joinTexts("content", "reasoning_text")
	if text == nil {
		text = o.joinTexts("summary", "summary_text")
	}
	if text == nil || o.err != nil {
		return
	}
	if d.said.Content != nil || d.said.Calls != nil {
		d.endTurn()
	}
	d.said.AddReasoning(text)
}

// joinTexts reads a list of parts of one type as lines, nil if there is none.
func (o *object) joinTexts(name, form string) []byte {
	raw := o.typed(name, "an array")
	var joined []byte
	for i, element := range elements(raw) {
		part := parseObject(element, fmt.Sprintf("%s%s[%d]", o.path, name, i))
		part.choice("type", form)
		text := part.typed("text", "a string")
		if text == nil {
			part.fail(infer.CodeMalformed, "text", "is required")
		}
		if o.adopt(part); o.err != nil {
			return nil
		}
		if joined != nil {
			joined = append(joined, `\n`...)
		}
		joined = append(joined, text[1:len(text)-1]...)
	}
	return joined
}

// endTurn makes a message of what the assistant has said, if anything.
func (d *dialogue) endTurn() {
	if d.said.IsEmpty() {
		return
	}
	d.said.Role = "assistant"
	d.messages = append(append(d.messages, d.said.Message()), d.results...)
	d.said, d.results = Said{}, nil
}
