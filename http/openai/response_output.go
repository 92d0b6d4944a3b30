package openai

import (
	"encoding/json"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// itemStatus is an output item's or a response's status.
type itemStatus string

const (
	inProgress itemStatus = "in_progress"
	completed  itemStatus = "completed"
	incomplete itemStatus = "incomplete"
	failed     itemStatus = "failed"
	cancelled  itemStatus = "cancelled"
)

// outputItem is an item of a response's output. Each kind of item writes itself,
// whole and as the events between output_item.added and output_item.done.
type outputItem interface {
	// appendItem appends the item as far as it has come, appendBegun as it is before
	// it has any content.
	appendItem(dst []byte) []byte
	appendBegun(dst []byte) []byte
	// appendOpening and appendClosing append the events around the deltas.
	appendOpening(dst []byte, e *eventWriter) []byte
	appendClosing(dst []byte, e *eventWriter) []byte
	// add takes more text, appendDelta appends the event of that.
	add(text string)
	appendDelta(dst []byte, e *eventWriter, text string) []byte
	// addTo adds the item to a chat message.
	addTo(m *message)
	end(itemStatus)
}

// output is the items of a response so far. At most the last one is open.
type output struct {
	response *Response
	items    []outputItem
	turns    []int // of each item, from 0: the generation that made it
	open     bool
	isListed bool // the items that tell of servers' tools are there
	// isTurnOver: results of calls have come, so that the next item is of another turn.
	isTurnOver bool

	newID string
	names tokenNamer            // of the tokens of a stream
	held  []infer.TokenLogprobs // of tokens that are held back
}

func newOutput(c *Call) output {
	return output{response: c.Response, newID: c.Response.newID, names: tokenNamer{asIDs: c.Reply.TokensAsTokenIDs}}
}

// message returns the open message, or a new one at the end; opened says which.
func (o *output) message() (m *messageItem, opened bool) {
	if o.open {
		if m, ok := o.items[len(o.items)-1].(*messageItem); ok {
			return m, false
		}
	}
	m = o.newMessage()
	o.begin(m)
	return m, true
}

func (o *output) newMessage() *messageItem {
	return &messageItem{id: o.nextID("msg_"), status: inProgress, asIDs: o.names.asIDs}
}

func (o *output) begin(item outputItem) {
	o.add(item)
	o.open = true
}

// add appends an item to the turn that is being generated.
func (o *output) add(item outputItem) {
	turn := 0
	if n := len(o.turns); n > 0 {
		turn = o.turns[n-1]
	}
	if o.isTurnOver {
		turn++
		o.isTurnOver = false
	}
	o.items, o.turns = append(o.items, item), append(o.turns, turn)
}

// place finds the item that a piece belongs to, which is the last one then. ended is
// an item that the piece ends, begun one that it begins; nil = none.
func (o *output) place(p *infer.Piece) (ended, begun outputItem) {
	if p.Kind == infer.PieceCallEnd {
		status := completed
		if p.Incomplete {
			status = incomplete
		}
		return o.close(status), nil
	}
	if o.open && accepts(o.items[len(o.items)-1], p.Kind) {
		return nil, nil
	}
	ended = o.close(completed)
	switch p.Kind {
	case infer.PieceReasoning:
		begun = &reasoningItem{id: o.nextID("rs_"), status: inProgress}
	case infer.PieceCall:
		begun = o.newCall(p)
	default:
		begun = o.newMessage()
	}
	o.begin(begun)
	return ended, begun
}

// newCall returns the item of a call that begins: the server's or the client's to run.
func (o *output) newCall(p *infer.Piece) outputItem {
	if tool, ok := o.response.serverTools[p.Name]; ok {
		return &mcpItem{id: o.nextID("mcp_"), status: inProgress, tool: tool, call: call{id: p.ID, name: p.Name}}
	}
	return &callItem{id: o.nextID("fc_"), status: inProgress, call: call{id: responseCallID(p.ID), name: p.Name}}
}

// accepts reports whether a piece goes on with an item.
func accepts(item outputItem, kind infer.PieceKind) bool {
	switch item.(type) {
	case *messageItem:
		return kind == infer.PieceContent
	case *reasoningItem:
		return kind == infer.PieceReasoning
	}
	return kind == infer.PieceArguments
}

// logprobsOf returns what a message gets of the log-probabilities of a delta, for the
// last piece of it that is content. Those of thoughts and calls are not shown, those of
// tokens that are held back wait for what these become.
func (o *output) logprobsOf(d *infer.Delta, i int) []infer.TokenLogprobs {
	for _, p := range d.Parsed.Pieces[i+1:] {
		if p.Kind == infer.PieceContent {
			return nil
		}
	}
	held := o.held
	o.held = nil
	return append(held, d.Logprobs...)
}

// hold keeps the log-probabilities of a delta that has nothing to show yet.
func (o *output) hold(d *infer.Delta) {
	if len(d.Parsed.Pieces) == 0 {
		o.held = append(o.held, d.Logprobs...)
		return
	}
	o.held = nil
}

// nextID makes ids of the response's own fresh one: items are never looked up.
func (o *output) nextID(prefix string) string {
	return prefix + o.newID + strconv.Itoa(len(o.items))
}

// close ends the open item and returns it, nil if there is none.
func (o *output) close(status itemStatus) outputItem {
	if !o.open {
		return nil
	}
	o.open = false
	item := o.items[len(o.items)-1]
	item.end(status)
	return item
}

func (o *output) appendItems(dst []byte) []byte {
	dst = append(dst, '[')
	for i, item := range o.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item.appendItem(dst)
	}
	return append(dst, ']')
}

// chatMessage returns items of one turn as the assistant's message of a conversation;
// nil if they are calls that were never run, and nothing else.
func chatMessage(items []outputItem) json.RawMessage {
	var m message
	hasText := false
	for _, item := range items {
		_, isText := item.(*messageItem)
		hasText = hasText || isText
		item.addTo(&m)
	}
	if len(items) > 0 && !hasText && m.reasoning == nil && m.calls == nil {
		return nil
	}
	s := Said{Role: "assistant"}
	if m.reasoning != nil {
		s.Reasoning = appendEscaped([]byte{}, m.reasoning)
	}
	if hasText {
		s.Content = appendString(nil, m.content)
	}
	for i := range m.calls {
		s.AddCall(m.calls[i].id, m.calls[i].name, appendString(nil, m.calls[i].arguments))
	}
	return s.Message()
}

// endOf is an item's status when its sequence ends for this reason.
func endOf(r infer.FinishReason) itemStatus {
	if r == infer.FinishLength {
		return incomplete
	}
	return completed
}

// messageItem is text for the user: a message with one part.
type messageItem struct {
	id       string
	status   itemStatus
	text     []byte
	logprobs []infer.TokenLogprobs // of the text's tokens; nil = not asked for
	asIDs    bool                  // tokens are named by their ids
}

func (m *messageItem) add(text string) { m.text = append(m.text, text...) }

// addDelta is add for a text with its tokens.
func (m *messageItem) addDelta(d *infer.Delta, logprobs bool) {
	m.add(d.Text)
	if logprobs {
		m.logprobs = append(m.logprobs, d.Logprobs...)
	}
}

func (m *messageItem) end(status itemStatus) { m.status = status }

func (m *messageItem) appendItem(dst []byte) []byte {
	dst = m.appendHead(dst)
	return append(m.appendPart(dst), "]}"...)
}

func (m *messageItem) appendBegun(dst []byte) []byte { return append(m.appendHead(dst), "]}"...) }

// appendHead appends the item up to its content.
func (m *messageItem) appendHead(dst []byte) []byte {
	dst = appendString(append(dst, `{"id":`...), m.id)
	dst = append(append(append(dst, `,"type":"message","status":"`...), m.status...), `","role":"assistant","content":[`...)
	return dst
}

func (m *messageItem) appendPart(dst []byte) []byte {
	dst = append(dst, `{"type":"output_text","annotations":[],"logprobs":`...)
	dst = m.appendLogprobs(dst)
	return append(appendString(append(dst, `,"text":`...), m.text), '}')
}

func (m *messageItem) appendLogprobs(dst []byte) []byte {
	return appendTextLogprobs(dst, &tokenNamer{asIDs: m.asIDs}, m.logprobs)
}

func (m *messageItem) addTo(out *message) { out.content = append(out.content, m.text...) }

// appendOpening is called before there is text.
func (m *messageItem) appendOpening(dst []byte, e *eventWriter) []byte {
	dst = e.beginPart(dst, "response.content_part.added", m.id)
	dst = m.appendPart(append(dst, `,"part":`...))
	return append(dst, eventEnd...)
}

func (m *messageItem) appendClosing(dst []byte, e *eventWriter) []byte {
	dst = e.beginPart(dst, "response.output_text.done", m.id)
	dst = appendString(append(dst, `,"text":`...), m.text)
	dst = append(m.appendLogprobs(append(dst, `,"logprobs":`...)), eventEnd...)
	dst = e.beginPart(dst, "response.content_part.done", m.id)
	dst = m.appendPart(append(dst, `,"part":`...))
	return append(dst, eventEnd...)
}

func (m *messageItem) appendDelta(dst []byte, e *eventWriter, text string) []byte {
	return m.appendTextDelta(dst, e, &infer.Delta{Text: text}, &tokenNamer{asIDs: m.asIDs})
}

// appendTextDelta appends the event of one delta's text.
func (m *messageItem) appendTextDelta(dst []byte, e *eventWriter, d *infer.Delta, n *tokenNamer) []byte {
	dst = e.beginPart(dst, "response.output_text.delta", m.id)
	dst = appendString(append(dst, `,"delta":`...), d.Text)
	return append(appendTextLogprobs(append(dst, `,"logprobs":`...), n, d.Logprobs), eventEnd...)
}

// appendTextLogprobs appends a list with one entry per token.
func appendTextLogprobs(dst []byte, n *tokenNamer, list []infer.TokenLogprobs) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTokenLogprobs(dst, n, &list[i])
	}
	return append(dst, ']')
}
