package openai

import "encoding/json"

// Said is what one speaker of a conversation says in a turn. Of an assistant that is a
// text, its reasoning and its calls, which are one message: that is how chat templates
// want it.
type Said struct {
	Role      string
	Content   json.RawMessage // nil = none
	Reasoning []byte          // a JSON string without its quotes; nil = none
	Calls     []byte          // joined by commas; nil = none
}

// AddReasoning adds a JSON string without its quotes to the reasoning, on a line of its
// own.
func (s *Said) AddReasoning(text []byte) {
	if s.Reasoning != nil {
		s.Reasoning = append(s.Reasoning, `\n`...)
	}
	s.Reasoning = append(s.Reasoning, text...)
}

// AddCall adds a call; arguments is a JSON string.
func (s *Said) AddCall(id, name string, arguments json.RawMessage) {
	if s.Calls != nil {
		s.Calls = append(s.Calls, ',')
	}
	s.Calls = append(append(appendCallHead(s.Calls, id, name), arguments...), "}}"...)
}

// appendCallHead appends a call, as chat messages have it, up to its arguments.
func appendCallHead(dst []byte, id, name string) []byte {
	dst = appendString(append(dst, `{"id":`...), id)
	dst = appendString(append(dst, `,"type":"function","function":{"name":`...), name)
	return append(dst, `,"arguments":`...)
}

// IsEmpty reports whether nothing has been said.
func (s *Said) IsEmpty() bool { return s.Content == nil && s.Reasoning == nil && s.Calls == nil }

// Message returns the turn as a message of a conversation.
func (s *Said) Message() json.RawMessage {
	m := append(append([]byte(`{"role":"`), s.Role...), '"')
	if s.Reasoning != nil {
		m = append(append(append(m, `,"reasoning":"`...), s.Reasoning...), '"')
	}
	m = appendRawOrNull(append(m, `,"content":`...), s.Content)
	if s.Calls != nil {
		m = append(append(append(m, `,"tool_calls":[`...), s.Calls...), ']')
	}
	return append(m, '}')
}

// ToolMessage returns the result of a call as a message of a conversation; content is
// JSON.
func ToolMessage(callID string, content json.RawMessage) json.RawMessage {
	m := appendString([]byte(`{"role":"tool","tool_call_id":`), callID)
	return append(append(append(m, `,"content":`...), content...), '}')
}
