package openai

import (
	"encoding/json"

	"github.com/troupe-llm/troupe/infer"
)

// serverTool is a tool that the server runs, as an output item has it.
type serverTool struct{ label, name string }

// listing is the tools of one server that a request offers.
type listing struct {
	label string
	tools []infer.ServerTool
}

// listItem tells which tools of a server the model may call. It is there before
// anything is generated.
type listItem struct {
	id string
	listing
}

func (l *listItem) appendItem(dst []byte) []byte {
	dst = l.appendHead(dst)
	for i := range l.tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		t := &l.tools[i]
		dst = appendString(append(dst, `{"name":`...), t.Name)
		dst = appendStringOrNull(append(dst, `,"description":`...), t.Description)
		dst = append(append(dst, `,"input_schema":`...), t.Schema...)
		dst = append(appendRawOrNull(append(dst, `,"annotations":`...), t.Annotations), '}')
	}
	return append(dst, "]}"...)
}

func (l *listItem) appendBegun(dst []byte) []byte { return append(l.appendHead(dst), "]}"...) }

// appendHead appends the item up to its tools.
func (l *listItem) appendHead(dst []byte) []byte {
	dst = appendString(append(dst, `{"id":`...), l.id)
	dst = appendString(append(dst, `,"type":"mcp_list_tools","server_label":`...), l.label)
	return append(dst, `,"error":null,"tools":[`...)
}

func (l *listItem) appendOpening(dst []byte, e *eventWriter) []byte {
	return e.appendAbout(dst, "response.mcp_list_tools.in_progress", l.id)
}

func (l *listItem) appendClosing(dst []byte, e *eventWriter) []byte {
	return e.appendAbout(dst, "response.mcp_list_tools.completed", l.id)
}

func (l *listItem) appendDelta(dst []byte, _ *eventWriter, _ string) []byte { return dst }

func (l *listItem) add(string)     {}
func (l *listItem) addTo(*message) {}
func (l *listItem) end(itemStatus) {}

// mcpItem is a call of a tool that the server runs. It has its arguments when its
// generation is over, and its result some time later.
type mcpItem struct {
	id     string
	status itemStatus
	tool   serverTool
	call   call
	result *infer.ToolResult // nil = not known, or it was never run
}

// calling is the status of a call whose arguments are there and whose result is not.
const calling itemStatus = "calling"

func (m *mcpItem) add(text string) { m.call.arguments = append(m.call.arguments, text...) }

// end is called when the call has been written.
func (m *mcpItem) end(status itemStatus) {
	if m.status = status; status == completed {
		m.status = calling
	}
}

// finish takes the result.
func (m *mcpItem) finish(p *infer.Piece) {
	m.result = &infer.ToolResult{Text: p.Text, IsFailed: p.IsFailed}
	if m.status = completed; p.IsFailed {
		m.status = failed
	}
}

// addTo adds the call to the message that it is part of. One that was never run is
// left out: no result of it would follow.
func (m *mcpItem) addTo(out *message) {
	if m.result == nil {
		return
	}
	made := m.call
	if !json.Valid(made.arguments) { // the result says so; templates want JSON
		made.arguments = []byte("{}")
	}
	out.calls = append(out.calls, made)
}

// toolMessage is the result as a conversation has it.
func (m *mcpItem) toolMessage() json.RawMessage {
	return ToolMessage(m.call.id, appendString(nil, toolText(m.result)))
}

// toolText is a result as the model reads it.
func toolText(r *infer.ToolResult) string {
	if r.IsFailed {
		return "Error: " + r.Text
	}
	return r.Text
}

func (m *mcpItem) appendItem(dst []byte) []byte {
	dst = appendString(append(dst, `{"id":`...), m.id)
	dst = append(append(append(dst, `,"type":"mcp_call","status":"`...), m.status...), '"')
	dst = appendString(append(dst, `,"server_label":`...), m.tool.label)
	dst = appendString(append(dst, `,"name":`...), m.tool.name)
	dst = appendString(append(dst, `,"arguments":`...), m.call.arguments)
	switch {
	case m.result == nil:
		dst = append(dst, `,"output":null,"error":null`...)
	case m.result.IsFailed:
		dst = appendString(append(dst, `,"output":null,"error":`...), m.result.Text)
	default:
		dst = append(appendString(append(dst, `,"output":`...), m.result.Text), `,"error":null`...)
	}
	return append(dst, `,"approval_request_id":null}`...)
}

func (m *mcpItem) appendBegun(dst []byte) []byte { return m.appendItem(dst) }

func (m *mcpItem) appendOpening(dst []byte, e *eventWriter) []byte {
	return e.appendAbout(dst, "response.mcp_call.in_progress", m.id)
}

func (m *mcpItem) appendDelta(dst []byte, e *eventWriter, text string) []byte {
	dst = appendString(append(e.beginItem(dst, "response.mcp_call_arguments.delta"), `,"item_id":`...), m.id)
	return append(appendString(append(dst, `,"delta":`...), text), eventEnd...)
}

func (m *mcpItem) appendClosing(dst []byte, e *eventWriter) []byte {
	dst = appendString(append(e.beginItem(dst, "response.mcp_call_arguments.done"), `,"item_id":`...), m.id)
	return append(appendString(append(dst, `,"arguments":`...), m.call.arguments), eventEnd...)
}

// appendAbout appends an event that says nothing but its name of the current item.
func (e *eventWriter) appendAbout(dst []byte, name, itemID string) []byte {
	dst = appendString(append(e.beginItem(dst, name), `,"item_id":`...), itemID)
	return append(dst, eventEnd...)
}

// list puts the items that tell of servers' tools at the front, once.
func (o *output) list() {
	if o.isListed {
		return
	}
	o.isListed = true
	for _, l := range o.response.listings {
		o.add(&listItem{id: o.nextID("mcpl_"), listing: l})
	}
}

// isSilent reports whether the model has said nothing yet.
func (o *output) isSilent() bool {
	return len(o.items) == 0 || o.isListed && len(o.items) == len(o.response.listings)
}

// settle gives a result to the call that it is of, and returns that with its index; nil
// if there is none.
func (o *output) settle(p *infer.Piece) (*mcpItem, int) {
	o.isTurnOver = true
	for i := len(o.items) - 1; i >= 0; i-- {
		if m, ok := o.items[i].(*mcpItem); ok && m.status == calling && m.call.id == p.ID {
			m.finish(p)
			return m, i
		}
	}
	return nil, 0
}

// abandon ends the calls that were never run, and calls end for each.
func (o *output) abandon(end func(m *mcpItem, index int)) {
	for i, item := range o.items {
		if m, ok := item.(*mcpItem); ok && m.status == calling {
			m.status = incomplete
			end(m, i)
		}
	}
}

func ignoreItem(*mcpItem, int) {}

// messages returns what was generated, and the results of calls, as messages of a
// conversation: for each turn one of the assistant's, then the results in the order of
// its calls.
func (o *output) messages() []json.RawMessage {
	if len(o.items) == 0 {
		return []json.RawMessage{chatMessage(nil)}
	}
	var list []json.RawMessage
	for first := 0; first < len(o.items); {
		end := first
		for end < len(o.items) && o.turns[end] == o.turns[first] {
			end++
		}
		list = appendTurn(list, o.items[first:end])
		first = end
	}
	return list
}

func appendTurn(list []json.RawMessage, items []outputItem) []json.RawMessage {
	if said := chatMessage(items); said != nil {
		list = append(list, said)
	}
	for _, item := range items {
		if m, ok := item.(*mcpItem); ok && m.result != nil {
			list = append(list, m.toolMessage())
		}
	}
	return list
}
