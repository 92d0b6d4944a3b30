package openai

import "github.com/troupe-llm/troupe/infer"

// ResponseStream writes a response as typed events, numbered from 0:
//
//	response.created, response.in_progress,
//	per server of tools: response.output_item.added, response.mcp_list_tools.in_progress,
//	          .completed, response.output_item.done
//	per item: response.output_item.added, [the item's own opening], deltas,
//	          [its closing], response.output_item.done,
//	response.completed, or .incomplete (cut at max_output_tokens), or error and .failed
//
// A call that the server runs has no output_item.done before its result, which
// response.mcp_call.completed or .failed announces.
//
// The last event holds the whole response with its usage, and its metrics. There
// is no [DONE].
type ResponseStream struct {
	call   *Call
	output output
	events eventWriter
}

// NewResponseStream returns the writer of a streamed response.
func (c *Call) NewResponseStream() *ResponseStream {
	return &ResponseStream{call: c, output: newOutput(c)}
}

// AppendStart implements StreamWriter.
func (s *ResponseStream) AppendStart(dst []byte) []byte {
	dst = s.appendState(dst, "response.created", inProgress, nil)
	dst = s.appendState(dst, "response.in_progress", inProgress, nil)
	s.output.list()
	for i, item := range s.output.items {
		s.events.index = i
		dst = s.appendDone(s.appendAdded(dst, item), item)
	}
	return dst
}

// appendState appends an event with the whole response.
func (s *ResponseStream) appendState(dst []byte, name string, status itemStatus, f *infer.Final) []byte {
	dst = append(s.events.begin(dst, name), `,"response":`...)
	return append(s.call.appendResponse(dst, &s.output, status, f), eventEnd...)
}

// AppendDelta implements StreamWriter.
func (s *ResponseStream) AppendDelta(dst []byte, d *infer.Delta) []byte {
	ends := d.FinishReason != infer.FinishNone
	if d.Parsed != nil {
		dst = s.appendParsed(dst, d)
	}
	says := d.Parsed == nil && (d.Text != "" || len(d.Logprobs) > 0)
	if says || ends && s.output.isSilent() {
		m, opened := s.output.message()
		if opened {
			dst = s.appendOpening(dst, m)
		}
		if says {
			m.addDelta(d, s.call.Reply.Logprobs)
			dst = m.appendTextDelta(dst, &s.events, d, &s.output.names)
		}
	}
	if ends {
		dst = s.appendClosing(dst, endOf(d.FinishReason))
	}
	return dst
}

// appendParsed appends the events of a delta that was taken apart.
func (s *ResponseStream) appendParsed(dst []byte, d *infer.Delta) []byte {
	o := &s.output
	for i := range d.Parsed.Pieces {
		p := &d.Parsed.Pieces[i]
		if p.Kind == infer.PieceOutput {
			dst = s.appendResult(dst, p)
			continue
		}
		ended, begun := o.place(p)
		if ended != nil {
			dst = s.appendDone(dst, ended)
		}
		if begun != nil {
			dst = s.appendOpening(dst, begun)
		}
		if p.Text == "" {
			continue
		}
		item := o.items[len(o.items)-1]
		if m, ok := item.(*messageItem); ok && s.call.Reply.Logprobs {
			own := infer.Delta{Text: p.Text, Logprobs: o.logprobsOf(d, i)}
			m.addDelta(&own, true)
			dst = m.appendTextDelta(dst, &s.events, &own, &o.names)
			continue
		}
		item.add(p.Text)
		dst = item.appendDelta(dst, &s.events, p.Text)
	}
	o.hold(d)
	return dst
}

// appendOpening appends the events that begin the last item.
func (s *ResponseStream) appendOpening(dst []byte, item outputItem) []byte {
	s.events.index = len(s.output.items) - 1
	return s.appendAdded(dst, item)
}

// appendAdded appends the events that begin the current item.
func (s *ResponseStream) appendAdded(dst []byte, item outputItem) []byte {
	dst = s.events.beginItem(dst, "response.output_item.added")
	dst = append(item.appendBegun(append(dst, `,"item":`...)), eventEnd...)
	return item.appendOpening(dst, &s.events)
}

// appendClosing ends the open item, if there is one.
func (s *ResponseStream) appendClosing(dst []byte, status itemStatus) []byte {
	if item := s.output.close(status); item != nil {
		dst = s.appendDone(dst, item)
	}
	s.output.abandon(func(m *mcpItem, index int) {
		s.events.index = index
		dst = s.appendItemDone(dst, m)
	})
	return dst
}

// appendDone appends the events that end the current item; of a call that the server
// runs, those that end its arguments.
func (s *ResponseStream) appendDone(dst []byte, item outputItem) []byte {
	dst = item.appendClosing(dst, &s.events)
	if m, ok := item.(*mcpItem); ok && m.status == calling {
		return dst
	}
	return s.appendItemDone(dst, item)
}

// appendResult appends the events of a call's result.
func (s *ResponseStream) appendResult(dst []byte, p *infer.Piece) []byte {
	if item := s.output.close(completed); item != nil {
		dst = s.appendDone(dst, item)
	}
	m, index := s.output.settle(p)
	if m == nil {
		return dst
	}
	s.events.index = index
	name := "response.mcp_call.completed"
	if p.IsFailed {
		name = "response.mcp_call.failed"
	}
	return s.appendItemDone(s.events.appendAbout(dst, name, m.id), m)
}

func (s *ResponseStream) appendItemDone(dst []byte, item outputItem) []byte {
	dst = s.events.beginItem(dst, "response.output_item.done")
	return append(item.appendItem(append(dst, `,"item":`...)), eventEnd...)
}

// AppendFinal implements StreamWriter.
func (s *ResponseStream) AppendFinal(dst []byte, f *infer.Final) []byte {
	status := responseStatus(f)
	switch status {
	case completed:
		return s.appendState(dst, "response.completed", status, f)
	case incomplete:
		return s.appendState(dst, "response.incomplete", status, f)
	}
	s.output.close(incomplete) // it broke off: its end is in the response only
	s.output.abandon(ignoreItem)
	if f.Err != nil {
		dst = s.events.appendError(dst, f.Err)
	}
	return s.appendState(dst, "response.failed", status, f)
}

// AppendBroken implements StreamWriter.
func (s *ResponseStream) AppendBroken(dst []byte, err *infer.Error) []byte {
	s.output.items, s.output.open = nil, false
	return s.AppendFinal(dst, &infer.Final{FinishReason: infer.FinishError, Err: err})
}

// eventWriter begins events and numbers them.
type eventWriter struct {
	number int // of the next event
	index  int // of the item that events are about, in the output
}

// begin appends an event up to its own members.
func (e *eventWriter) begin(dst []byte, name string) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\n"+`data: {"type":"`...)
	dst = append(append(dst, name...), `","sequence_number":`...)
	dst = appendInt(dst, e.number)
	e.number++
	return dst
}

// beginItem is begin for an event about the current item.
func (e *eventWriter) beginItem(dst []byte, name string) []byte {
	return appendInt(append(e.begin(dst, name), `,"output_index":`...), e.index)
}

// beginPart is beginItem for an event about the only part of the item.
func (e *eventWriter) beginPart(dst []byte, name, itemID string) []byte {
	dst = append(e.beginItem(dst, name), `,"content_index":0,"item_id":`...)
	return appendString(dst, itemID)
}

func (e *eventWriter) appendError(dst []byte, err *infer.Error) []byte {
	p := FromError(err)
	dst = appendString(append(e.begin(dst, "error"), `,"code":`...), responseErrorCode(p))
	dst = appendString(append(dst, `,"message":`...), p.Message)
	dst = appendStringOrNull(append(dst, `,"param":`...), p.Param)
	return append(dst, eventEnd...)
}
