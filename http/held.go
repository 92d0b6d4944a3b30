package http

import (
	"bytes"
	"time"

	"github.com/troupe-llm/troupe/infer"
	"github.com/valyala/fasthttp"
)

const (
	// freeAnswer is what every answer in one piece may hold without asking.
	freeAnswer = 1 << 20
	// A server holds at most this many times its answer limit in answers that are
	// made in one piece.
	answerBudgetFactor = 4
	// minHeldRate is the bytes per second at which such an answer has to be read.
	minHeldRate = 64 << 10

	// What a reported log-probability takes: in memory, and as JSON without the
	// token's text, which is there as a string and as a list of bytes.
	logprobBytes     = 48
	logprobJSONBytes = 80
	jsonPerTextByte  = 6
	tokenIDBytes     = 12 // in memory and as JSON
	// choiceMetricsBytes is the JSON of a choice's metrics with all that may be in it but
	// the counts of each step with drafts.
	choiceMetricsBytes = 1 << 10

	callBytes = 256 // of a call without its arguments, in memory and as JSON
)

// responseCopies is how often a streamed response repeats its output at its end: in
// the events that end the text, the part and the item, and in the last one.
const responseCopies = 4

// held is the memory of an answer that is made in one piece, or that repeats itself
// at its end, from the first delta until it has been written.
type held struct {
	server *Server
	copies int // of the body at a time; 0 = 1, of an answer in one piece
	json   int // bytes of the body, about
	size   int // bytes in all, about
	taken  int // of these, bytes taken from the budget
}

func (s *Server) newHeld() *held { return &held{server: s} }

// addDelta counts what d adds. The error says that the answer has grown too large.
func (h *held) addDelta(d *infer.Delta) error {
	h.json += len(d.Text) + len(d.Text)/4 + tokenIDBytes*len(d.TokenIDs)
	h.size += 2 * len(d.Text)
	h.addLogprobs(d.Logprobs)
	if d.FinishReason != infer.FinishNone && h.server.opts.PerChoiceMetrics {
		h.json += choiceMetricsBytes
	}
	if d.Parsed != nil {
		h.addCalls(d.Parsed.Pieces)
	}
	if p := d.Prompt; p != nil {
		h.json += len(p.Text) + tokenIDBytes*len(p.TokenIDs)
		h.size += len(p.Text)
		h.addLogprobs(p.Logprobs)
	}
	return h.check()
}

// addCalls adds what calls have beside the text that the model wrote.
func (h *held) addCalls(pieces []infer.Piece) {
	for i := range pieces {
		if pieces[i].Kind == infer.PieceCall {
			h.size += callBytes
			h.json += callBytes
		}
	}
}

func (h *held) addLogprobs(list []infer.TokenLogprobs) {
	for i := range list {
		h.addLogprob(&list[i].Token)
		for k := range list[i].Top {
			h.addLogprob(&list[i].Top[k])
		}
	}
}

func (h *held) addLogprob(l *infer.TokenLogprob) {
	h.size += logprobBytes
	h.json += logprobJSONBytes + jsonPerTextByte*len(l.Text)
}

// check compares with the limit of one answer, and takes from what all share.
func (h *held) check() error {
	size, limit := h.size+h.json*max(h.copies, 1), h.server.opts.AnswerLimit
	switch {
	case size > limit && h.copies > 1:
		return infer.Errorf(infer.CodeInvalid, "max_output_tokens", "The response has grown beyond what %d bytes, the limit of an answer, have room for: "+
			"ask for fewer tokens (max_output_tokens) or log-probabilities", limit)
	case size > limit:
		return infer.Errorf(infer.CodeInvalid, "stream", "The answer has grown beyond %d bytes, the limit of an answer in one piece: "+
			"set stream: true, or ask for fewer choices (n), tokens (max_tokens) or log-probabilities", limit)
	}
	if size <= max(h.taken, freeAnswer) {
		return nil
	}
	more := max(size, min(2*size, limit)) - h.taken // doubling, so that the budget is asked seldom
	if !h.server.answers.take(more) {
		return &infer.Error{
			Code:       infer.CodeOverloaded,
			Message:    "The server holds too many large answers; set stream: true, or try again",
			RetryAfter: time.Second,
		}
	}
	h.taken += more
	return nil
}

// buffer returns memory to append the body to; nil where it is small.
func (h *held) buffer() []byte {
	if h.taken == 0 {
		return nil
	}
	return make([]byte, 0, h.json)
}

// release gives back what was taken; it may be called more than once.
func (h *held) release() {
	h.server.answers.give(h.taken)
	h.taken = 0
}

// write answers with the body, whose memory counts until it is written.
func (h *held) write(ctx *fasthttp.RequestCtx, body []byte) {
	if h.taken == 0 {
		writeJSON(ctx, fasthttp.StatusOK, body)
		return
	}
	exchangeOf(ctx).heldBytes = len(body)
	writeJSON(ctx, fasthttp.StatusOK, nil)
	ctx.Response.SetBodyStream(&heldBody{held: h, Reader: bytes.NewReader(body)}, len(body))
}

// heldBody gives the memory back when it has been written, or cannot be.
type heldBody struct {
	*bytes.Reader
	held *held
}

// Close implements io.Closer.
func (b *heldBody) Close() error {
	b.held.release()
	return nil
}
