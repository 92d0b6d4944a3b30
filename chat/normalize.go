package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/chat/jinja"
	"github.com/troupe-llm/troupe/infer"
)

// Messages reach the template as the client wrote them, except for what vLLM
// changes too (vllm/entrypoints/chat_utils.py):
//   - content becomes a string, or a list of text parts, as the template expects;
//     null content of an assistant's tool calls becomes empty;
//   - an assistant's tool call arguments become objects, an empty list of tool
//     calls is dropped;
//   - reasoning and reasoning_content are set to each other.
//
// Beyond vLLM, the results of an assistant's calls are put into the order of the calls
// if each names one of them: most templates show no ids, and a model that sees none
// goes by the order.

// roles are the roles a message may have.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

// messages decodes and normalizes the conversation.
func (t *Template) messages(d *jinja.Decoder, raw []json.RawMessage) (*jinja.List, error) {
	if len(raw) == 0 {
		return nil, infer.Errorf(infer.CodeInvalid, "messages", "messages must not be empty")
	}
	list := jinja.NewList()
	for i, b := range raw {
		m, err := t.message(d, b, fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, m)
	}
	orderResults(list.Items)
	return list, nil
}

// orderResults sorts each run of tool messages by the calls of the message before it.
func orderResults(messages []jinja.Value) {
	for i, v := range messages {
		order := callOrder(v)
		if len(order) < 2 {
			continue
		}
		end := i + 1
		for end < len(messages) && callIndex(messages[end], order) >= 0 {
			end++
		}
		if end < len(messages) && textOf(messages[end], "role") == "tool" {
			continue // not the result of any of these calls
		}
		slices.SortStableFunc(messages[i+1:end], func(a, b jinja.Value) int { return callIndex(a, order) - callIndex(b, order) })
	}
}

// callOrder returns the place of each call of a message by its id.
func callOrder(v jinja.Value) map[string]int {
	m, _ := v.(*jinja.Dict)
	calls, _ := m.Get("tool_calls")
	list, ok := calls.(*jinja.List)
	if !ok {
		return nil
	}
	order := make(map[string]int, len(list.Items))
	for i, call := range list.Items {
		if id := textOf(call, "id"); id != "" {
			order[id] = i
		}
	}
	return order
}

// callIndex returns the place of the call that a message is the result of, -1 if there
// is none.
func callIndex(v jinja.Value, order map[string]int) int {
	i, known := order[textOf(v, "tool_call_id")]
	if !known || textOf(v, "role") != "tool" {
		return -1
	}
	return i
}

// textOf returns a member of an object that is a string, else "".
func textOf(v jinja.Value, name string) string {
	m, ok := v.(*jinja.Dict)
	if !ok {
		return ""
	}
	value, _ := m.Get(name)
	text, _ := value.(jinja.Text)
	return text.String()
}

// invalid reports a field that is not acceptable.
func invalid(field, format string, a ...any) error {
	return infer.Errorf(infer.CodeInvalid, field, "%s %s", field, fmt.Sprintf(format, a...))
}

// message decodes the message at the given path.
func (t *Template) message(d *jinja.Decoder, raw json.RawMessage, path string) (*jinja.Dict, error) {
	v, err := d.Decode(raw, jinja.FromClient)
	if err != nil {
		return nil, invalid(path, "is not usable: %v", err)
	}
	m, ok := v.(*jinja.Dict)
	if !ok {
		return nil, invalid(path, "must be an object")
	}
	role, err := roleOf(m, path)
	if err != nil {
		return nil, err
	}
	// From here on the role is one of ours, not client text.
	m.Set("role", jinja.Plain(role))
	if role == "assistant" {
		if err := toolCalls(d, m, path); err != nil {
			return nil, err
		}
		aliasReasoning(m)
	}
	return m, t.content(m, role, path)
}

func roleOf(m *jinja.Dict, path string) (string, error) {
	v, found := m.Get("role")
	if !found {
		return "", invalid(path+".role", "is required")
	}
	role, ok := v.(jinja.Text)
	if !ok {
		return "", invalid(path+".role", "must be a string")
	}
	if !slices.Contains(roles, role.String()) {
		return "", invalid(path+".role", "must be one of %s, got %q", strings.Join(roles, ", "), clip(role.String()))
	}
	return role.String(), nil
}

// clip shortens a client's value for a message.
func clip(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// content normalizes the content of a message in place.
func (t *Template) content(m *jinja.Dict, role, path string) error {
	path += ".content"
	v, _ := m.Get("content")
	var texts []string
	switch v := v.(type) {
	case jinja.Text:
		texts = []string{v.String()}
	case *jinja.List:
		for j, part := range v.Items {
			s, err := partText(part, fmt.Sprintf("%s[%d]", path, j))
			if err != nil {
				return err
			}
			texts = append(texts, s)
		}
	case nil:
		if !mayLackContent(m, role) {
			return invalid(path, "is required")
		}
	default:
		return invalid(path, "must be a string or a list of content parts")
	}
	if !t.openAI {
		m.Set("content", jinja.Client(strings.Join(texts, "\n")))
		return nil
	}
	list := jinja.NewList()
	for _, s := range texts {
		part := &jinja.Dict{}
		part.Set("type", jinja.Plain("text"))
		part.Set("text", jinja.Client(s))
		list.Items = append(list.Items, part)
	}
	m.Set("content", list)
	return nil
}

// mayLackContent reports whether a message makes sense without content: an
// assistant that calls tools, reasons or refuses.
func mayLackContent(m *jinja.Dict, role string) bool {
	if role != "assistant" {
		return false
	}
	for _, name := range []string{"tool_calls", "function_call", "reasoning_content", "refusal"} {
		if v, _ := m.Get(name); v != nil {
			return true
		}
	}
	return false
}

// textParts are the types of content parts that are text, and the key of their text.
var textParts = map[string]string{"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}

// partText returns the text of a content part.
func partText(v jinja.Value, path string) (string, error) {
	if t, ok := v.(jinja.Text); ok {
		return t.String(), nil
	}
	part, ok := v.(*jinja.Dict)
	if !ok {
		return "", invalid(path, "must be an object")
	}
	kind, _ := part.Get("type")
	name, ok := kind.(jinja.Text)
	if !ok {
		return "", invalid(path+".type", "is required")
	}
	key, ok := textParts[name.String()]
	if !ok {
		return "", invalid(path+".type", "%q is not supported: this model takes text only", clip(name.String()))
	}
	text, _ := part.Get(key)
	t, ok := text.(jinja.Text)
	if !ok {
		return "", invalid(path+"."+key, "must be a string")
	}
	return t.String(), nil
}

// toolCalls decodes the arguments of an assistant's tool calls in place.
func toolCalls(d *jinja.Decoder, m *jinja.Dict, path string) error {
	path += ".tool_calls"
	v, found := m.Get("tool_calls")
	list, ok := v.(*jinja.List)
	switch {
	case !found:
		return nil
	case v == nil || ok && len(list.Items) == 0:
		m.Delete("tool_calls")
		return nil
	case !ok:
		return invalid(path, "must be a list")
	}
	for j, item := range list.Items {
		field := fmt.Sprintf("%s[%d]", path, j)
		call, ok := item.(*jinja.Dict)
		if !ok {
			return invalid(field, "must be an object")
		}
		fn, _ := call.Get("function")
		function, ok := fn.(*jinja.Dict)
		if !ok {
			return invalid(field+".function", "must be an object")
		}
		if err := decodeArguments(d, function, field+".function.arguments"); err != nil {
			return err
		}
	}
	return nil
}

// decodeArguments replaces JSON text by what it says; no arguments are {}.
func decodeArguments(d *jinja.Decoder, function *jinja.Dict, field string) error {
	v, _ := function.Get("arguments")
	text, isText := v.(jinja.Text)
	switch {
	case v == nil || isText && text.String() == "":
		function.Set("arguments", &jinja.Dict{})
	case isText:
		decoded, err := d.Decode([]byte(text.String()), jinja.FromClient)
		if err != nil {
			return invalid(field, "must be a JSON text: %v", err)
		}
		function.Set("arguments", decoded)
	}
	return nil
}

// aliasReasoning gives templates the reasoning under both names in use.
func aliasReasoning(m *jinja.Dict) {
	short, _ := m.Get("reasoning")
	long, _ := m.Get("reasoning_content")
	switch {
	case short != nil && long == nil:
		m.Set("reasoning_content", short)
	case long != nil && short == nil:
		m.Set("reasoning", long)
	}
}
