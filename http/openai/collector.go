package openai

import "github.com/troupe-llm/troupe/infer"

// Collector gathers the deltas of a request that is answered with one body.
type Collector struct {
	reply   *Reply
	choices []collected
}

// collected is one choice so far.
type collected struct {
	text     []byte
	tokenIDs []int32
	logprobs []infer.TokenLogprobs
	prompt   *infer.PromptInfo
	finish   infer.FinishReason
	stop     infer.StopReason
	message  *message // what stands for text if that was taken apart
	tally    tally
}

// NewCollector returns the writer of an answer that is not streamed.
func (r *Reply) NewCollector() *Collector {
	return &Collector{reply: r, choices: make([]collected, r.NumChoices)}
}

// Add takes a delta; what it needs of it is copied.
func (c *Collector) Add(d *infer.Delta) {
	choice := &c.choices[d.Index]
	if d.Parsed == nil {
		choice.text = append(choice.text, d.Text...)
	} else {
		if choice.message == nil {
			choice.message = &message{}
		}
		choice.message.add(c.reply, &choice.tally, d.Parsed.Pieces)
	}
	if c.reply.ReturnTokenIDs {
		choice.tokenIDs = append(choice.tokenIDs, d.TokenIDs...)
	}
	if c.reply.Logprobs {
		choice.logprobs = append(choice.logprobs, d.Logprobs...)
	}
	if d.Prompt != nil {
		choice.prompt = d.Prompt
	}
	if d.FinishReason != infer.FinishNone {
		choice.finish, choice.stop = d.FinishReason, d.StopReason
	}
}

// AppendBody appends the whole answer; f must not hold an error.
func (c *Collector) AppendBody(dst []byte, f *infer.Final) []byte {
	r := c.reply
	object := "text_completion"
	if r.chat {
		object = "chat.completion"
	}
	dst = append(r.appendIdentity(dst, object), `,"choices":[`...)
	for i := range c.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(append(dst, `{"index":`...), i)
		if r.chat {
			dst = c.appendMessage(dst, &c.choices[i])
		} else {
			dst = c.appendText(dst, &c.choices[i])
		}
		dst = append(r.appendChoiceMetrics(dst, f, i), '}')
	}
	dst = append(dst, `],"service_tier":null`...)
	dst = r.appendFingerprint(dst, writeNulls)
	dst = r.appendUsage(append(dst, `,"usage":`...), f, writeNulls)
	if r.chat {
		dst = c.appendPromptFields(dst, c.choices[0].prompt)
		dst = append(dst, `,"prompt_text":null`...)
	}
	dst = append(dst, `,"kv_transfer_params":null`...)
	return append(r.appendTimings(r.appendMetricsField(dst, f.Metrics), f), '}')
}

// appendMessage appends a chat choice's members.
func (c *Collector) appendMessage(dst []byte, choice *collected) []byte {
	dst = appendString(append(dst, `,"message":{"role":`...), c.reply.Role)
	if choice.message != nil {
		dst = c.appendParsedMessage(dst, choice.message)
	} else {
		dst = appendEscaped(append(dst, `,"content":"`...), c.reply.EchoText)
		dst = append(appendEscaped(dst, choice.text), '"')
		dst = append(dst, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null`...)
	}
	dst = append(dst, `},"logprobs":`...)
	if c.reply.Logprobs {
		dst = appendChatLogprobs(dst, &tokenNamer{asIDs: c.reply.TokensAsTokenIDs}, choice.logprobs)
	} else {
		dst = append(dst, "null"...)
	}
	return c.appendEnding(dst, choice)
}

// appendText appends a completion choice's members.
func (c *Collector) appendText(dst []byte, choice *collected) []byte {
	dst = append(dst, `,"text":"`...)
	echoed := c.reply.Echo && choice.prompt != nil
	if echoed {
		dst = appendEscaped(dst, choice.prompt.Text)
	}
	dst = append(appendEscaped(dst, choice.text), `","logprobs":`...)
	if c.reply.Logprobs {
		l := completionLogprobs{names: tokenNamer{asIDs: c.reply.TokensAsTokenIDs}}
		if echoed {
			l.addPrompt(choice.prompt.Logprobs)
		}
		l.addOutput(choice.logprobs)
		dst = l.appendJSON(dst)
	} else {
		dst = append(dst, "null"...)
	}
	return c.appendPromptFields(c.appendEnding(dst, choice), choice.prompt)
}

func (c *Collector) appendEnding(dst []byte, choice *collected) []byte {
	dst = c.reply.appendFinish(append(dst, `,"finish_reason":`...), choice.finish, &choice.tally)
	dst = appendStopReason(append(dst, `,"stop_reason":`...), choice.stop)
	dst = append(dst, `,"token_ids":`...)
	if c.reply.ReturnTokenIDs {
		return appendTokenIDs(dst, choice.tokenIDs)
	}
	return append(dst, "null"...)
}

// appendPromptFields appends what is reported of a prompt: chat does so once,
// completions in each choice.
func (c *Collector) appendPromptFields(dst []byte, prompt *infer.PromptInfo) []byte {
	dst = append(dst, `,"prompt_logprobs":`...)
	if c.reply.PromptLogprobs && prompt != nil && prompt.Logprobs != nil {
		dst = appendPromptLogprobs(dst, prompt.Logprobs)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"prompt_token_ids":`...)
	if c.reply.ReturnTokenIDs && prompt != nil {
		return appendTokenIDs(dst, prompt.TokenIDs)
	}
	return append(dst, "null"...)
}
