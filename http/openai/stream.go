package openai

import "github.com/troupe-llm/troupe/infer"

const (
	eventEnd = "}\n\n"
	plainEnd = `,"logprobs":null,"finish_reason":null}]` + eventEnd
	done     = "data: [DONE]\n\n"
)

// KeepAlive is a server-sent comment: a sign of life that no client reads.
const KeepAlive = ": keep-alive\n\n"

// Stream writes the events of one request as server-sent events:
//
//	chat:        role chunk per choice, [echoed text per choice], deltas, [usage], [DONE]
//	completions: deltas, the first of a choice with its echoed prompt, [usage], [DONE]
//
// The last delta of a choice carries its finish_reason. An error in mid-stream
// is an event {"error": …}, and [DONE] after it, and no usage. A Stream is used
// by one goroutine; it allocates nothing per delta once its caller's buffer and
// its own have grown.
type Stream struct {
	reply       *Reply
	head        []byte // data: {"id":…,"choices":[
	plainHead   []byte // head, and what stands before the text of a plain chunk
	plainEnd    string // what stands after it
	choices     []choiceStream
	lists       completionLogprobs // scratch; offset and names are the current choice's
	names       tokenNamer         // scratch of chat
	started     bool
	numFinished int
}

// choiceStream is what a Stream remembers of a choice.
type choiceStream struct {
	tokens          assembler
	offset          int // characters of text so far, echo included
	numPromptTokens int
	tally           tally
}

// NewStream returns the writer of a streamed answer.
func (r *Reply) NewStream() *Stream {
	s := &Stream{reply: r, choices: make([]choiceStream, r.NumChoices)}
	object, text, end := "text_completion", `{"index":0,"text":"`, `"`+plainEnd
	if r.chat {
		object, text, end = "chat.completion.chunk", `{"index":0,"delta":{"content":"`, `"}`+plainEnd
	}
	s.head = r.appendIdentity(append(s.head, "data: "...), object)
	s.head = append(s.head, `,"choices":[`...)
	s.plainHead = append(s.head, text...)
	s.head = s.plainHead[:len(s.head):len(s.head)]
	s.plainEnd = end
	s.lists.names.asIDs, s.names.asIDs = r.TokensAsTokenIDs, r.TokensAsTokenIDs
	return s
}

// AppendStart implements StreamWriter: the first chunk waits for the first delta,
// which may bring the prompt.
func (s *Stream) AppendStart(dst []byte) []byte { return dst }

// AppendBroken implements StreamWriter.
func (s *Stream) AppendBroken(dst []byte, err *infer.Error) []byte {
	return s.appendError(dst, err)
}

// AppendDelta appends the chunks of one delta; none if it says nothing.
func (s *Stream) AppendDelta(dst []byte, d *infer.Delta) []byte {
	choice := &s.choices[d.Index]
	if d.Prompt != nil {
		choice.numPromptTokens = len(d.Prompt.TokenIDs)
	}
	if s.reply.chat && !s.started {
		s.started = true
		dst = s.appendOpening(dst, d.Prompt)
	}
	if d.Parsed != nil {
		return s.appendParsed(dst, d, choice)
	}
	if s.isEmpty(d) {
		return dst
	}
	if s.isPlain(d) {
		dst = appendEscaped(append(dst, s.plainHead...), d.Text)
		return append(dst, s.plainEnd...)
	}
	dst = append(dst, s.head...)
	dst = appendInt(append(dst, `{"index":`...), d.Index)
	if s.reply.chat {
		dst = s.appendChatDelta(dst, d, choice)
	} else {
		dst = s.appendCompletionDelta(dst, d, choice)
	}
	return s.appendEnding(dst, d, choice)
}

// appendEnding appends what follows the text and the logprobs of a delta.
func (s *Stream) appendEnding(dst []byte, d *infer.Delta, choice *choiceStream) []byte {
	dst = s.reply.appendFinish(append(dst, `,"finish_reason":`...), d.FinishReason, &choice.tally)
	if d.FinishReason != infer.FinishNone {
		dst = appendStopReason(append(dst, `,"stop_reason":`...), d.StopReason)
		s.numFinished++
	}
	if s.reply.ReturnTokenIDs {
		dst = appendTokenIDs(append(dst, `,"token_ids":`...), d.TokenIDs)
	}
	return s.appendChunkEnd(append(dst, "}]"...), choice.numPromptTokens, d.NumOutputTokens)
}

// isEmpty: a piece of text held back gives no chunk unless its tokens are shown.
func (s *Stream) isEmpty(d *infer.Delta) bool {
	r := s.reply
	showsPrompt := d.Prompt != nil && !r.chat && (r.Echo || r.ReturnTokenIDs)
	showsTokens := len(d.Logprobs) > 0 || (r.ReturnTokenIDs && len(d.TokenIDs) > 0)
	return d.Text == "" && d.FinishReason == infer.FinishNone && !showsPrompt && !showsTokens
}

// isPlain: a delta of the first choice with nothing but text, as nearly all are.
// Its chunk is put together from prepared parts.
func (s *Stream) isPlain(d *infer.Delta) bool {
	r := s.reply
	return d.Index == 0 && d.FinishReason == infer.FinishNone && d.Prompt == nil && !r.Logprobs &&
		!r.ContinuousUsage && !r.ReturnTokenIDs && s.numFinished < r.NumChoices
}

// appendChunkEnd appends what follows a chunk's choices.
func (s *Stream) appendChunkEnd(dst []byte, numPromptTokens, numOutputTokens int) []byte {
	if s.reply.ContinuousUsage {
		dst = appendRunningUsage(dst, numPromptTokens, numOutputTokens)
	}
	if s.numFinished == s.reply.NumChoices && !s.reply.IncludeUsage {
		dst = s.reply.appendFingerprint(dst, omitNulls)
	}
	return append(dst, eventEnd...)
}

// appendOpening appends the role chunk of every choice, and its echoed text.
func (s *Stream) appendOpening(dst []byte, prompt *infer.PromptInfo) []byte {
	numPromptTokens := 0
	if prompt != nil {
		numPromptTokens = len(prompt.TokenIDs)
	}
	for i := range s.choices {
		s.choices[i].numPromptTokens = numPromptTokens
		dst = appendInt(append(append(dst, s.head...), `{"index":`...), i)
		dst = appendString(append(dst, `,"delta":{"role":`...), s.reply.Role)
		dst = append(dst, `,"content":""},"logprobs":null,"finish_reason":null}]`...)
		if s.reply.ReturnTokenIDs && prompt != nil {
			dst = appendTokenIDs(append(dst, `,"prompt_token_ids":`...), prompt.TokenIDs)
		}
		dst = s.appendChunkEnd(dst, numPromptTokens, 0)
	}
	if s.reply.EchoText == "" {
		return dst
	}
	for i := range s.choices {
		dst = appendInt(append(append(dst, s.head...), `{"index":`...), i)
		dst = appendString(append(dst, `,"delta":{"content":`...), s.reply.EchoText)
		dst = append(dst, `},"logprobs":null,"finish_reason":null}]`...)
		dst = s.appendChunkEnd(dst, numPromptTokens, 0)
	}
	return dst
}

func (s *Stream) appendChatDelta(dst []byte, d *infer.Delta, choice *choiceStream) []byte {
	dst = append(dst, `,"delta":{`...)
	if d.Text != "" || d.FinishReason == infer.FinishNone {
		dst = appendString(append(dst, `"content":`...), d.Text)
	}
	return s.appendDeltaLogprobs(append(dst, `},"logprobs":`...), d, choice)
}

// appendDeltaLogprobs appends the tokens of a chat's delta, or null.
func (s *Stream) appendDeltaLogprobs(dst []byte, d *infer.Delta, choice *choiceStream) []byte {
	if !s.reply.Logprobs || len(d.Logprobs) == 0 {
		return append(dst, "null"...)
	}
	s.names.tokens = choice.tokens
	dst = appendChatLogprobs(dst, &s.names, d.Logprobs)
	choice.tokens = s.names.tokens
	return dst
}

func (s *Stream) appendCompletionDelta(dst []byte, d *infer.Delta, choice *choiceStream) []byte {
	dst = append(dst, `,"text":"`...)
	if s.reply.Echo && d.Prompt != nil {
		dst = appendEscaped(dst, d.Prompt.Text)
	}
	dst = append(appendEscaped(dst, d.Text), `","logprobs":`...)
	dst = s.appendCompletionLogprobs(dst, d, choice)
	if s.reply.ReturnTokenIDs && d.Prompt != nil {
		dst = appendTokenIDs(append(dst, `,"prompt_token_ids":`...), d.Prompt.TokenIDs)
	}
	return dst
}

func (s *Stream) appendCompletionLogprobs(dst []byte, d *infer.Delta, choice *choiceStream) []byte {
	echoed := s.reply.Echo && d.Prompt != nil && len(d.Prompt.Logprobs) > 0
	if !s.reply.Logprobs || (len(d.Logprobs) == 0 && !echoed) {
		return append(dst, "null"...)
	}
	l := &s.lists
	l.reset()
	l.offset, l.names.tokens = choice.offset, choice.tokens
	if echoed {
		l.addPrompt(d.Prompt.Logprobs)
	}
	l.addOutput(d.Logprobs)
	choice.offset, choice.tokens = l.offset, l.names.tokens
	return l.appendJSON(dst)
}

// AppendFinal appends the end of the stream: usage if asked for, else metrics if those
// are, or the error.
func (s *Stream) AppendFinal(dst []byte, f *infer.Final) []byte {
	if f.Err != nil {
		return s.appendError(dst, f.Err)
	}
	if s.reply.IncludeUsage {
		dst = append(append(dst, s.head...), `],"usage":`...)
		dst = s.reply.appendUsage(dst, f, omitNulls)
		dst = s.reply.appendFingerprint(dst, omitNulls)
		dst = append(s.reply.appendMetricsMembers(dst, f), eventEnd...)
		return append(dst, done...)
	}
	if s.reply.MetricsChunk {
		dst = append(append(dst, s.head...), ']')
		dst = append(s.reply.appendMetricsMembers(dst, f), eventEnd...)
	}
	if s.reply.MetricsComment {
		dst = s.reply.appendMetricsComment(dst, f)
	}
	return append(dst, done...)
}

// appendError appends an error and the end of the stream. An internal one says by
// which id it can be found in the log: the response's.
func (s *Stream) appendError(dst []byte, err *infer.Error) []byte {
	p := FromError(err)
	if err.Code.IsInternal() {
		p.RequestID = s.reply.ID
	}
	dst = p.AppendJSON(append(dst, "data: "...))
	return append(append(dst, "\n\n"...), done...)
}
