package openai

import "strings"

// responseCallID makes the id of a call one as this API has them. One that a model's
// templates demand stays as it is.
func responseCallID(id string) string {
	if rest, ok := strings.CutPrefix(id, "chatcmpl-tool-"); ok {
		return "call_" + rest
	}
	return id
}

// callItem is a call of a function that the client runs.
type callItem struct {
	id     string
	status itemStatus
	call   call
}

func (c *callItem) add(text string) { c.call.arguments = append(c.call.arguments, text...) }

func (c *callItem) end(status itemStatus) { c.status = status }

func (c *callItem) addTo(m *message) { m.calls = append(m.calls, c.call) }

func (c *callItem) appendItem(dst []byte) []byte {
	dst = appendString(append(dst, `{"id":`...), c.id)
	dst = append(append(append(dst, `,"type":"function_call","status":"`...), c.status...), '"')
	dst = appendString(append(dst, `,"call_id":`...), c.call.id)
	dst = appendString(append(dst, `,"name":`...), c.call.name)
	return append(appendString(append(dst, `,"arguments":`...), c.call.arguments), '}')
}

func (c *callItem) appendBegun(dst []byte) []byte { return c.appendItem(dst) }

func (c *callItem) appendOpening(dst []byte, _ *eventWriter) []byte { return dst }

func (c *callItem) appendDelta(dst []byte, e *eventWriter, text string) []byte {
	dst = appendString(append(e.beginItem(dst, "response.function_call_arguments.delta"), `,"item_id":`...), c.id)
	dst = appendString(append(dst, `,"delta":`...), text)
	return append(dst, eventEnd...)
}

func (c *callItem) appendClosing(dst []byte, e *eventWriter) []byte {
	dst = appendString(append(e.beginItem(dst, "response.function_call_arguments.done"), `,"item_id":`...), c.id)
	dst = appendString(append(dst, `,"name":`...), c.call.name)
	dst = appendString(append(dst, `,"arguments":`...), c.call.arguments)
	return append(dst, eventEnd...)
}

// reasoningItem is what the model thinks, with one part. There are no summaries.
type reasoningItem struct {
	id     string
	status itemStatus
	text   []byte
}

func (r *reasoningItem) add(text string) { r.text = append(r.text, text...) }

func (r *reasoningItem) end(status itemStatus) { r.status = status }

func (r *reasoningItem) addTo(m *message) { m.reasoning = append(m.reasoning, r.text...) }

func (r *reasoningItem) appendItem(dst []byte) []byte {
	return append(r.appendPart(r.appendHead(dst)), "]}"...)
}

func (r *reasoningItem) appendBegun(dst []byte) []byte { return append(r.appendHead(dst), "]}"...) }

// appendHead appends the item up to its content.
func (r *reasoningItem) appendHead(dst []byte) []byte {
	dst = appendString(append(dst, `{"id":`...), r.id)
	dst = append(append(append(dst, `,"type":"reasoning","status":"`...), r.status...), '"')
	return append(dst, `,"summary":[],"encrypted_content":null,"content":[`...)
}

func (r *reasoningItem) appendPart(dst []byte) []byte {
	return append(appendString(append(dst, `{"type":"reasoning_text","text":`...), r.text), '}')
}

// appendOpening is called before there is text.
func (r *reasoningItem) appendOpening(dst []byte, e *eventWriter) []byte {
	dst = e.beginPart(dst, "response.content_part.added", r.id)
	return append(r.appendPart(append(dst, `,"part":`...)), eventEnd...)
}

func (r *reasoningItem) appendDelta(dst []byte, e *eventWriter, text string) []byte {
	dst = e.beginPart(dst, "response.reasoning_text.delta", r.id)
	return append(appendString(append(dst, `,"delta":`...), text), eventEnd...)
}

func (r *reasoningItem) appendClosing(dst []byte, e *eventWriter) []byte {
	dst = e.beginPart(dst, "response.reasoning_text.done", r.id)
	dst = append(appendString(append(dst, `,"text":`...), r.text), eventEnd...)
	dst = e.beginPart(dst, "response.content_part.done", r.id)
	return append(r.appendPart(append(dst, `,"part":`...)), eventEnd...)
}
