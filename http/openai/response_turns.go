package openai

import (
	"encoding/json"

	"github.com/troupe-llm/troupe/infer"
)

// HasServerTools reports whether the model may call tools that the server runs.
func (r *Response) HasServerTools() bool { return len(r.serverTools) > 0 }

// MaxToolCalls is the request's limit of calls that the server runs; nil = none.
func (r *Response) MaxToolCalls() *int { return r.maxToolCalls }

// Turns follows a response that may take several generations: it finds the calls that
// the server has to run, and makes the request of the next turn.
type Turns struct {
	body *ResponseBody
}

// NewTurns returns what follows the turns of a response. Nothing that it needs is
// shared with the response's writers.
func (c *Call) NewTurns() *Turns {
	own := *c
	own.Reply.Logprobs = false
	return &Turns{body: own.NewResponseBody()}
}

// Add takes a delta, or the result of a call. The end of a turn is not yet that of the
// response.
func (t *Turns) Add(d *infer.Delta) {
	open := *d
	open.FinishReason = infer.FinishNone
	t.body.Add(&open)
}

// Calls returns the calls of the turn so far that have been written to their end and
// are the server's to run.
func (t *Turns) Calls() []infer.ServerCall {
	var calls []infer.ServerCall
	for _, item := range t.body.output.items {
		if m, ok := item.(*mcpItem); ok && m.status == calling {
			calls = append(calls, infer.ServerCall{
				ID: m.call.id, Server: m.tool.label, Tool: m.tool.name, Arguments: json.RawMessage(m.call.arguments),
			})
		}
	}
	return calls
}

// AwaitsClient reports whether the client has calls to run before it can go on.
func (t *Turns) AwaitsClient() bool {
	for _, item := range t.body.output.items {
		if _, ok := item.(*callItem); ok {
			return true
		}
	}
	return false
}

// Next returns the request of the next turn: first, which no turn has changed, with
// all that was said since. A call is forced in the first turn only, and where the
// model cannot choose to call, the next one is the answer. numUsed is the tokens
// generated so far.
func (t *Turns) Next(first *infer.Request, p *Profile, numUsed int) *infer.Request {
	next := *first
	chat := *first.Chat
	chat.Messages = append(chat.Messages[:len(chat.Messages):len(chat.Messages)], t.body.output.messages()...)
	next.Chat = &chat
	if first.MaxTokens != nil {
		left := *first.MaxTokens - numUsed
		next.MaxTokens = &left
	}
	if tools := first.Tools; tools != nil && tools.Forced {
		next.Structured = t.body.call.Response.form
		next.Tools = nil
		if p.AutoToolChoice {
			next.Tools = &infer.ToolUse{Tools: tools.Tools, Single: tools.Single}
		}
	}
	next.Arrival, next.Receive = infer.Now(), 0 // no client sent it
	return &next
}
