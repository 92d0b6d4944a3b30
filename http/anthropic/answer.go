package anthropic

import (
	"strconv"
	"strings"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

// answer says how the message of one request is written.
type answer struct {
	reply     *openai.Reply
	signature string // of thoughts: any word, since nobody checks it
	shown     thoughts
}

// NewBody implements openai.Writers.
func (a *answer) NewBody() openai.BodyWriter { return &Body{answer: a} }

// NewStream implements openai.Writers.
func (a *answer) NewStream() openai.StreamWriter { return &Stream{answer: a} }

// appendHead appends a message up to its first block.
func (a *answer) appendHead(dst []byte) []byte {
	dst = openai.AppendString(append(dst, `{"id":`...), a.reply.ID)
	dst = openai.AppendString(append(dst, `,"type":"message","role":"assistant","model":`...), a.reply.Model)
	return append(dst, `,"content":[`...)
}

// callID makes the id of a call one as this API has them. One that a model's templates
// demand stays as it is.
func callID(id string) string {
	if rest, ok := strings.CutPrefix(id, "chatcmpl-tool-"); ok {
		return "toolu_" + rest
	}
	return id
}

// blockKind is a kind of content block.
type blockKind uint8

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	callBlock
)

// kindOf is the block that a piece of output goes to.
func kindOf(p *infer.Piece) blockKind {
	switch p.Kind {
	case infer.PieceContent:
		return textBlock
	case infer.PieceReasoning:
		return thinkingBlock
	}
	return callBlock
}

// ending is what the reason of a message's end depends on.
type ending struct {
	finish   infer.FinishReason
	stop     infer.StopReason
	numCalls int
	isCut    bool // a call broke off
}

// see notes what a delta says of the end.
func (e *ending) see(d *infer.Delta) {
	if d.FinishReason != infer.FinishNone {
		e.finish, e.stop = d.FinishReason, d.StopReason
	}
	if d.Parsed == nil {
		return
	}
	for i := range d.Parsed.Pieces {
		switch p := &d.Parsed.Pieces[i]; p.Kind {
		case infer.PieceCall:
			e.numCalls++
		case infer.PieceCallEnd:
			e.isCut = e.isCut || p.Incomplete
		}
	}
}

// appendReason appends stop_reason and stop_sequence. It is tool_use if the client can
// run all calls.
func (e *ending) appendReason(dst []byte) []byte {
	dst = append(dst, `"stop_reason":"`...)
	switch {
	case e.finish == infer.FinishLength:
		dst = append(dst, "max_tokens"...)
	case e.stop.Text != "":
		dst = append(dst, `stop_sequence","stop_sequence":`...)
		return openai.AppendString(dst, e.stop.Text)
	case e.numCalls > 0 && !e.isCut:
		dst = append(dst, "tool_use"...)
	default:
		dst = append(dst, "end_turn"...)
	}
	return append(dst, `","stop_sequence":null`...)
}

// appendUsage appends the bill of a whole request. Anthropic counts the tokens of a
// prompt that were found in the cache apart from the others.
func (a *answer) appendUsage(dst []byte, u infer.Usage) []byte {
	input, created, read := u.NumPromptTokens, "null", "null"
	if a.reply.PromptTokensDetails {
		input -= u.NumCachedTokens
		created, read = "0", strconv.Itoa(u.NumCachedTokens)
	}
	dst = appendInt(append(dst, `{"input_tokens":`...), input)
	dst = append(append(dst, `,"cache_creation_input_tokens":`...), created...)
	dst = append(append(dst, `,"cache_read_input_tokens":`...), read...)
	dst = appendInt(append(dst, `,"output_tokens":`...), u.NumCompletionTokens)
	if a.reply.ReasoningTokens {
		dst = appendInt(append(dst, `,"output_tokens_details":{"thinking_tokens":`...), u.NumReasoningTokens)
		return append(dst, "}}"...)
	}
	return append(dst, `,"output_tokens_details":null}`...)
}

func appendInt(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(i), 10) }
