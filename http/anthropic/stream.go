package anthropic

import (
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// Stream writes a message as typed events:
//
//	message_start (with the first output, when the prompt's length is known),
//	per block: content_block_start, content_block_delta…, content_block_stop,
//	message_delta (the reason of the end, and usage), message_stop
//
// An error is an event of that name, and the last one. A Stream is used by one
// goroutine; it allocates nothing per delta once its caller's buffer has grown.
type Stream struct {
	*answer
	ending  ending
	open    blockKind
	index   int // of the open block, or of the next one
	started bool
}

const (
	eventEnd   = "}\n\n"
	deltaBegin = "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":`
)

// AppendStart implements openai.StreamWriter.
func (s *Stream) AppendStart(dst []byte) []byte { return dst }

// AppendDelta implements openai.StreamWriter.
func (s *Stream) AppendDelta(dst []byte, d *infer.Delta) []byte {
	if !s.started {
		numPromptTokens := 0
		if d.Prompt != nil {
			numPromptTokens = len(d.Prompt.TokenIDs)
		}
		dst = s.appendMessageStart(dst, numPromptTokens)
	}
	s.ending.see(d)
	if d.Parsed == nil {
		dst = s.appendText(dst, textBlock, d.Text)
	} else {
		for i := range d.Parsed.Pieces {
			dst = s.appendPiece(dst, &d.Parsed.Pieces[i])
		}
	}
	if d.FinishReason != infer.FinishNone {
		dst = s.appendBlockStop(dst)
	}
	return dst
}

// appendMessageStart appends the message without content. What of the prompt came from
// the cache is known at the end only, and said there.
func (s *Stream) appendMessageStart(dst []byte, numPromptTokens int) []byte {
	s.started = true
	dst = s.appendHead(append(dst, "event: message_start\ndata: "+`{"type":"message_start","message":`...))
	dst = append(dst, `],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"usage":{"input_tokens":`...)
	dst = appendInt(dst, numPromptTokens)
	dst = append(dst, `,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":0,"output_tokens_details":null}}`...)
	return append(dst, eventEnd...)
}

func (s *Stream) appendPiece(dst []byte, p *infer.Piece) []byte {
	switch p.Kind {
	case infer.PieceCall:
		dst = s.appendBlockStart(s.appendBlockStop(dst), callBlock)
		dst = append(appendCall(dst, callID(p.ID), p.Name), "{}"+callEnd...)
		return append(dst, eventEnd...)
	case infer.PieceCallEnd:
		return s.appendBlockStop(dst)
	}
	return s.appendText(dst, kindOf(p), p.Text)
}

// appendText appends text to the open block if that is of its kind, else to a new one.
func (s *Stream) appendText(dst []byte, kind blockKind, text string) []byte {
	if text == "" || kind == thinkingBlock && s.shown == dropThoughts {
		return dst
	}
	if s.open != kind {
		dst = s.appendBlockStart(s.appendBlockStop(dst), kind)
		if kind == thinkingBlock {
			dst = append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
		} else {
			dst = append(dst, `{"type":"text","text":"","citations":null}`...)
		}
		dst = append(dst, eventEnd...)
	}
	switch kind {
	case thinkingBlock:
		if s.shown == markThoughts {
			return dst
		}
		return s.appendBlockDelta(dst, `,"delta":{"type":"thinking_delta","thinking":`, text)
	case callBlock:
		return s.appendBlockDelta(dst, `,"delta":{"type":"input_json_delta","partial_json":`, text)
	}
	return s.appendBlockDelta(dst, `,"delta":{"type":"text_delta","text":`, text)
}

func (s *Stream) appendBlockDelta(dst []byte, form, text string) []byte {
	dst = append(appendInt(append(dst, deltaBegin...), s.index), form...)
	return append(append(openai.AppendString(dst, text), '}'), eventEnd...)
}

// appendBlockStart appends the event that begins a block up to the block.
func (s *Stream) appendBlockStart(dst []byte, kind blockKind) []byte {
	s.open = kind
	dst = append(dst, "event: content_block_start\ndata: "+`{"type":"content_block_start","index":`...)
	return append(appendInt(dst, s.index), `,"content_block":`...)
}

// appendBlockStop ends the open block, if there is one.
func (s *Stream) appendBlockStop(dst []byte) []byte {
	if s.open == noBlock {
		return dst
	}
	if s.open == thinkingBlock {
		dst = s.appendBlockDelta(dst, `,"delta":{"type":"signature_delta","signature":`, s.signature)
	}
	dst = append(dst, "event: content_block_stop\ndata: "+`{"type":"content_block_stop","index":`...)
	dst = append(appendInt(dst, s.index), eventEnd...)
	s.open = noBlock
	s.index++
	return dst
}

// AppendFinal implements openai.StreamWriter.
func (s *Stream) AppendFinal(dst []byte, f *infer.Final) []byte {
	if f.Err != nil {
		return s.AppendBroken(dst, f.Err)
	}
	if !s.started {
		dst = s.appendMessageStart(dst, f.Usage.NumPromptTokens)
	}
	dst = s.reply.AppendMetricsComment(s.appendBlockStop(dst), f)
	dst = append(dst, "event: message_delta\ndata: "+`{"type":"message_delta","delta":{`...)
	dst = s.ending.appendReason(dst)
	dst = s.appendUsage(append(dst, `,"stop_details":null,"container":null},"usage":`...), f.Usage)
	dst = append(s.reply.AppendMetricsField(dst, f.Metrics), eventEnd...)
	return append(dst, "event: message_stop\ndata: "+`{"type":"message_stop"`+eventEnd...)
}

// AppendBroken implements openai.StreamWriter.
func (s *Stream) AppendBroken(dst []byte, err *infer.Error) []byte {
	dst = append(dst, "event: error\ndata: "...)
	return append(AppendError(dst, openai.FromError(err), s.reply.ID), "\n\n"...)
}
