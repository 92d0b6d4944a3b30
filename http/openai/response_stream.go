package openai

import "github.com/troupe-llm/troupe/infer"

// ResponseStream writes a response as typed events, numbered from 0:
//
//	response.created, response.in_progress,
//	per item: response.output_item.added, [the item's own opening], deltas,
//	          [its closing], response.output_item.done,
//	response.completed, or .incomplete (cut at max_output_tokens), or error and .failed
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
	return s.appendState(dst, "response.in_progress", inProgress, nil)
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
	if says || ends && len(s.output.items) == 0 {
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
	dst = s.events.beginItem(dst, "response.output_item.added")
	dst = append(item.appendBegun(append(dst, `,"item":`...)), eventEnd...)
	return item.appendOpening(dst, &s.events)
}

// appendClosing ends the open item, if there is one.
func (s *ResponseStream) appendClosing(dst []byte, status itemStatus) []byte {
	if item := s.output.close(status); item != nil {
		return s.appendDone(dst, item)
	}
	return dst
}

// appendDone appends the events that end the last item.
func (s *ResponseStream) appendDone(dst []byte, item outputItem) []byte {
	dst = item.appendClosing(dst, &s.events)
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
