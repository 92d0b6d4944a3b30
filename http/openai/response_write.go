package openai

import (
	"encoding/json"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// ResponseBody gathers a response that is answered with one body, or kept.
type ResponseBody struct {
	call   *Call
	output output
}

// NewResponseBody returns the writer of a response as one object.
func (c *Call) NewResponseBody() *ResponseBody {
	return &ResponseBody{call: c, output: newOutput(c)}
}

// Add implements BodyWriter.
func (b *ResponseBody) Add(d *infer.Delta) {
	b.output.list()
	switch {
	case d.Parsed != nil:
		b.addParsed(d)
	case d.Text != "" || len(d.Logprobs) > 0:
		m, _ := b.output.message()
		m.addDelta(d, b.call.Reply.Logprobs)
	}
	if d.FinishReason != infer.FinishNone {
		b.output.finish(d.FinishReason)
	}
}

func (b *ResponseBody) addParsed(d *infer.Delta) {
	o := &b.output
	for i := range d.Parsed.Pieces {
		p := &d.Parsed.Pieces[i]
		if p.Kind == infer.PieceOutput {
			o.close(completed)
			o.settle(p)
			continue
		}
		o.place(p)
		if p.Text == "" {
			continue
		}
		item := o.items[len(o.items)-1]
		item.add(p.Text)
		if m, ok := item.(*messageItem); ok && b.call.Reply.Logprobs {
			m.logprobs = append(m.logprobs, o.logprobsOf(d, i)...)
		}
	}
	o.hold(d)
}

// finish ends the output: there is a message even if nothing was said.
func (o *output) finish(r infer.FinishReason) {
	if o.isSilent() {
		o.message()
	}
	o.close(endOf(r))
	o.abandon(ignoreItem)
}

// AppendStarted appends the response as it is before there is any output.
func (b *ResponseBody) AppendStarted(dst []byte) []byte {
	return b.call.appendResponse(dst, &b.output, inProgress, nil)
}

// AppendBody implements BodyWriter; f may hold an error.
func (b *ResponseBody) AppendBody(dst []byte, f *infer.Final) []byte {
	b.output.list()
	b.output.close(incomplete) // open only if the request broke off
	b.output.abandon(ignoreItem)
	return b.call.appendResponse(dst, &b.output, responseStatus(f), f)
}

// Conversation returns the messages that a response to follow this one begins with.
func (b *ResponseBody) Conversation() []json.RawMessage {
	d := b.call.Response.dialogue
	return append(d[:len(d):len(d)], b.output.messages()...)
}

func responseStatus(f *infer.Final) itemStatus {
	switch {
	case f.FinishReason == infer.FinishAbort:
		return cancelled
	case f.Err != nil:
		return failed
	}
	return endOf(f.FinishReason)
}

// appendResponse appends the object of a response; f is nil while it is in progress.
func (c *Call) appendResponse(dst []byte, o *output, status itemStatus, f *infer.Final) []byte {
	r := &c.Reply
	dst = appendString(append(dst, `{"id":`...), r.ID)
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), r.Created, 10)
	dst = append(append(append(dst, `,"status":"`...), status...), `","access_programs":{"cyber":"standard"},"background":`...)
	dst = append(appendBool(dst, c.Response.Background), `,"error":`...)
	if f != nil && f.Err != nil {
		p := FromError(f.Err)
		dst = appendString(append(dst, `{"code":`...), responseErrorCode(p))
		dst = appendString(append(dst, `,"message":`...), p.Message)
		dst = append(dst, '}')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"incomplete_details":`...)
	switch {
	case status == incomplete && f != nil && f.Loop != nil && f.Loop.CallsExhausted:
		dst = append(dst, `{"reason":"max_tool_calls"}`...)
	case status == incomplete:
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	default:
		dst = append(dst, "null"...)
	}
	dst = appendString(append(dst, `,"model":`...), r.Model)
	dst = o.appendItems(append(dst, `,"output":`...))
	dst = append(dst, c.Response.settings.json...)
	dst = appendBool(append(dst, `,"store":`...), c.Response.Store)
	dst = appendResponseUsage(append(dst, `,"usage":`...), f)
	// The times of one generation are the response's; there are none of several. Without
	// them the field is left out: only the terminal state ever has it.
	if f != nil && f.Err == nil && f.Metrics != nil {
		dst = r.appendMetricsField(dst, f.Metrics)
	}
	if r.TurnMetrics && f != nil && f.Err == nil {
		dst = appendTurns(append(dst, `,"metrics_per_turn":`...), f)
	}
	return append(dst, '}')
}

// appendTurns appends what each generation took, and what its calls took apart.
func appendTurns(dst []byte, f *infer.Final) []byte {
	turns := []infer.Turn{{Usage: f.Usage, Metrics: f.Metrics}}
	if f.Loop != nil {
		turns = f.Loop.Turns
	}
	dst = append(dst, '[')
	for i := range turns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTurnMetrics(dst, &turns[i])
	}
	return append(dst, ']')
}

func appendTurnMetrics(dst []byte, t *infer.Turn) []byte {
	dst = appendInt(append(dst, `{"input_tokens":`...), t.Usage.NumPromptTokens)
	dst = appendInt(append(dst, `,"output_tokens":`...), t.Usage.NumCompletionTokens)
	dst = append(dst, `,"metrics":`...)
	if t.Metrics == nil {
		dst = append(dst, "null"...)
	} else {
		dst = AppendMetrics(dst, t.Metrics)
	}
	dst = appendNullFloat(append(dst, `,"tool_time_ms":`...), infer.NullFloat{Value: t.ToolMs, Valid: len(t.Calls) > 0})
	dst = append(dst, `,"tool_calls":[`...)
	for i := range t.Calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		c := &t.Calls[i]
		dst = appendString(append(dst, `{"server_label":`...), c.Server)
		dst = appendString(append(dst, `,"name":`...), c.Tool)
		dst = appendBool(append(dst, `,"failed":`...), c.IsFailed)
		dst = append(appendNullFloat(append(dst, `,"tool_time_ms":`...), infer.NullFloat{Value: c.Ms, Valid: true}), '}')
	}
	return append(dst, "]}"...)
}

// responseErrorCode is OpenAI's word for what goes wrong in mid-generation: the
// server's failure, or the reason of an error that is the client's to mend.
func responseErrorCode(p Problem) string {
	if p.Status >= firstServerStatus {
		return "server_error"
	}
	return p.Reason
}

const firstServerStatus = 500

// appendResponseUsage appends the bill, null while it is not known.
func appendResponseUsage(dst []byte, f *infer.Final) []byte {
	if f == nil || f.Usage == (infer.Usage{}) {
		return append(dst, "null"...)
	}
	u := f.Usage
	dst = appendInt(append(dst, `{"input_tokens":`...), u.NumPromptTokens)
	dst = appendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.NumCachedTokens)
	dst = appendInt(append(dst, `,"cache_write_tokens":0},"output_tokens":`...), u.NumCompletionTokens) // no client pays for the prefix cache
	dst = appendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.NumReasoningTokens)
	dst = append(dst, `},"total_tokens":`...)
	return append(appendInt(dst, u.NumPromptTokens+u.NumCompletionTokens), '}')
}

// AppendDeletedResponse appends the answer to the deletion of a response.
func AppendDeletedResponse(dst []byte, id string) []byte {
	return append(appendString(append(dst, `{"id":`...), id), `,"object":"response","deleted":true}`...)
}
