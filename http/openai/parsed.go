package openai

import "github.com/troupe-llm/troupe/infer"

// tally is what the finish reason of a choice depends on.
type tally struct {
	numCalls int
	cut      bool // a call broke off
}

func (t *tally) count(p *infer.Piece) {
	switch p.Kind {
	case infer.PieceCall:
		t.numCalls++
	case infer.PieceCallEnd:
		t.cut = t.cut || p.Incomplete
	}
}

// appendFinish appends the reason why a choice has ended. It is tool_calls if the
// client can run all of them; a function that the request named is no news.
func (r *Reply) appendFinish(dst []byte, reason infer.FinishReason, t *tally) []byte {
	if reason == infer.FinishStop && t.numCalls > 0 && !t.cut && !r.NamedTool {
		return append(dst, `"tool_calls"`...)
	}
	return appendFinishReason(dst, reason)
}

// shows reports whether a client sees anything of a piece.
func (r *Reply) shows(p *infer.Piece) bool {
	return p.Kind != infer.PieceCallEnd && !(p.Kind == infer.PieceReasoning && r.OmitReasoning)
}

// appendParsed appends a chunk for each piece of a delta. What is about the delta as
// a whole is in the last one.
func (s *Stream) appendParsed(dst []byte, d *infer.Delta, choice *choiceStream) []byte {
	last := -1
	for i := range d.Parsed.Pieces {
		choice.tally.count(&d.Parsed.Pieces[i])
		if s.reply.shows(&d.Parsed.Pieces[i]) {
			last = i
		}
	}
	for i := range last {
		if p := &d.Parsed.Pieces[i]; s.reply.shows(p) {
			dst = appendPiece(s.beginDelta(dst, d.Index), p)
			dst = append(dst, `},"logprobs":null,"finish_reason":null}]`...)
			dst = s.appendChunkEnd(dst, choice.numPromptTokens, d.NumOutputTokens)
		}
	}
	showsTokens := len(d.Logprobs) > 0 || (s.reply.ReturnTokenIDs && len(d.TokenIDs) > 0)
	if last < 0 && d.FinishReason == infer.FinishNone && !showsTokens {
		return dst
	}
	dst = s.beginDelta(dst, d.Index)
	if last >= 0 {
		dst = appendPiece(dst, &d.Parsed.Pieces[last])
	}
	dst = s.appendDeltaLogprobs(append(dst, `},"logprobs":`...), d, choice)
	return s.appendEnding(dst, d, choice)
}

func (s *Stream) beginDelta(dst []byte, index int) []byte {
	dst = appendInt(append(append(dst, s.head...), `{"index":`...), index)
	return append(dst, `,"delta":{`...)
}

// appendPiece appends the members of a delta that a piece makes.
func appendPiece(dst []byte, p *infer.Piece) []byte {
	switch p.Kind {
	case infer.PieceReasoning:
		return appendString(append(dst, `"reasoning":`...), p.Text)
	case infer.PieceCall:
		dst = appendInt(append(dst, `"tool_calls":[{"index":`...), p.Index)
		dst = appendString(append(dst, `,"id":`...), p.ID)
		dst = appendString(append(dst, `,"type":"function","function":{"name":`...), p.Name)
		return append(dst, `,"arguments":""}}]`...)
	case infer.PieceArguments:
		dst = appendInt(append(dst, `"tool_calls":[{"index":`...), p.Index)
		dst = appendString(append(dst, `,"function":{"arguments":`...), p.Text)
		return append(dst, "}}]"...)
	}
	return appendString(append(dst, `"content":`...), p.Text)
}

// message is what the pieces of a choice make.
type message struct {
	content, reasoning []byte
	calls              []call
}

type call struct {
	id, name  string
	arguments []byte
}

func (m *message) add(r *Reply, t *tally, pieces []infer.Piece) {
	for i := range pieces {
		p := &pieces[i]
		if t.count(p); !r.shows(p) {
			continue
		}
		switch p.Kind {
		case infer.PieceReasoning:
			m.reasoning = append(m.reasoning, p.Text...)
		case infer.PieceCall:
			m.calls = append(m.calls, call{id: p.ID, name: p.Name})
		case infer.PieceArguments:
			last := &m.calls[len(m.calls)-1]
			last.arguments = append(last.arguments, p.Text...)
		default:
			m.content = append(m.content, p.Text...)
		}
	}
}

// appendParsedMessage appends the members of a message up to the brace that ends it.
func (c *Collector) appendParsedMessage(dst []byte, m *message) []byte {
	dst = append(dst, `,"content":`...)
	hasOther := c.reply.ForcedTool || len(m.calls) > 0 || len(m.reasoning) > 0
	if len(m.content) == 0 && c.reply.EchoText == "" && hasOther {
		dst = append(dst, "null"...)
	} else {
		dst = appendEscaped(append(dst, '"'), c.reply.EchoText)
		dst = append(appendEscaped(dst, m.content), '"')
	}
	dst = append(dst, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":`...)
	if len(m.reasoning) == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, m.reasoning)
	}
	return m.appendCalls(dst)
}

// appendCalls appends the member tool_calls with its leading comma, if there are calls.
func (m *message) appendCalls(dst []byte) []byte {
	for i := range m.calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = m.calls[i].appendJSON(dst)
		if i == len(m.calls)-1 {
			dst = append(dst, ']')
		}
	}
	return dst
}

// appendJSON appends the call as chat messages have it.
func (c *call) appendJSON(dst []byte) []byte {
	return append(appendString(appendCallHead(dst, c.id, c.name), c.arguments), "}}"...)
}
