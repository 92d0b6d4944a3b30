package actors

import (
	"slices"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
	"github.com/troupe-llm/troupe/tokenizer"
)

// transcript turns the tokens of one sequence into deltas: text in whole
// characters, cut at stop strings, held back while it may still become one. It
// is pure; the sequence actor feeds it and sends what it yields.
//
// Invariants: text, token ids and logprobs of a token leave in the same delta,
// except for characters that wait for their rest; joined over all deltas they are
// the same whatever the interval and however tokens were grouped into steps.
type transcript struct {
	tokenizer *tokenizer.Tokenizer
	params    *infer.SamplingParams
	decoder   *tokenizer.Decoder
	stops     *sampling.StopMatcher // nil without stop strings
	parser    *outputParser         // nil = the text is not taken apart
	interval  int                   // tokens between two deltas

	numTokens int // so far, the closing one included
	numSent   int // of those, in deltas already taken

	text     string // not sent yet
	tokenIDs []int32
	logprobs []infer.TokenLogprobs
	finish   infer.FinishReason
	stop     infer.StopReason
	ended    bool // no more text comes
}

// newTranscript returns the transcript of a sequence without output. stops are
// those of params, nil if it has none.
func newTranscript(t *tokenizer.Tokenizer, params *infer.SamplingParams, stops *sampling.Stops, interval int) *transcript {
	tr := &transcript{tokenizer: t, params: params, decoder: newDecoder(t, params.SkipSpecialTokens), interval: interval}
	if stops != nil {
		tr.stops = stops.NewMatcher(params.IncludeStopStrInOutput)
	}
	return tr
}

// parse has the text taken apart. The transcript is still without output.
func (t *transcript) parse(p *outputParser) {
	t.parser = p
	t.decoder = newDecoder(t.tokenizer, false) // the parser decides
}

// decode returns the text of a token.
func (t *transcript) decode(id int32) string {
	if t.parser != nil {
		return t.parser.decode(t.tokenizer, t.decoder, t.params.SkipSpecialTokens, id)
	}
	return t.decoder.Push(id)
}

// add appends what a step gave. It returns how many of the tokens count: a stop
// string ends the sequence with the token that completed it, and what came after
// that token never was.
func (t *transcript) add(out *SequenceOutput) int {
	t.finish, t.stop = out.FinishReason, out.details().StopReason
	n := len(out.NewTokenIDs)
	for i, id := range out.NewTokenIDs {
		t.numTokens++
		closing := t.finish == infer.FinishStop && i == n-1
		if closing && !t.params.IncludeStopStrInOutput {
			break // an end-of-sequence or stop token is no text
		}
		if t.addText(t.decode(id)) {
			n = i + 1
			break
		}
	}
	if t.finish != infer.FinishNone {
		t.ended = true
		if t.stop.Text == "" {
			t.flush()
		}
	}
	t.keep(out, n)
	return n
}

// addText reports whether text completed a stop string, and then finishes the
// sequence. Stop strings count only in text of tokens beyond min_tokens.
func (t *transcript) addText(text string) bool {
	if t.stops == nil || t.numTokens <= t.params.MinTokens {
		t.text += text
		return false
	}
	emit, matched, ok := t.stops.Push(text)
	t.text += emit
	if ok {
		t.finish, t.stop = infer.FinishStop, infer.StopReason{Text: matched}
	}
	return ok
}

// flush ends the text: what was held back cannot become a stop string any more.
// An incomplete last character is dropped by the decoder.
func (t *transcript) flush() {
	t.ended = true
	if t.addText(t.decoder.Flush()) || t.stops == nil {
		return
	}
	t.text += t.stops.Flush()
}

// keep holds the first n tokens of a step for the next delta. Without a hold-back
// the step's own memory is passed on.
func (t *transcript) keep(out *SequenceOutput, n int) {
	logprobs := out.details().Logprobs
	logprobs = logprobs[:min(n, len(logprobs))]
	for i := range logprobs {
		t.spell(&logprobs[i])
	}
	if len(t.tokenIDs) == 0 {
		t.tokenIDs = slices.Clip(out.NewTokenIDs[:n])
		t.logprobs = slices.Clip(logprobs)
		return
	}
	t.tokenIDs = append(t.tokenIDs, out.NewTokenIDs[:n]...)
	t.logprobs = append(t.logprobs, logprobs...)
}

// spell fills in the text of a position's tokens. The logprobs belong to the
// receiver of the output, so they are completed in place.
func (t *transcript) spell(l *infer.TokenLogprobs) {
	l.Token.Text = t.tokenizer.TokenText(l.Token.TokenID)
	for i := range l.Top {
		l.Top[i].Text = t.tokenizer.TokenText(l.Top[i].TokenID)
	}
}

// numThoughts returns how many tokens were thoughts, once the text has ended.
func (t *transcript) numThoughts() int {
	if t.parser == nil {
		return 0
	}
	return t.parser.numThoughts()
}

// finished reports whether the sequence has ended.
func (t *transcript) finished() bool { return t.finish != infer.FinishNone }

// due reports whether a delta should go out: the end, the first token, or new
// text at least interval tokens after the last delta.
func (t *transcript) due() bool {
	if t.finished() {
		return true
	}
	return t.text != "" && (t.numSent == 0 || t.numTokens-t.numSent >= t.interval)
}

// take returns what has not been sent yet.
func (t *transcript) take(index int) infer.Delta {
	d := infer.Delta{
		Index: index, Text: t.text, TokenIDs: t.tokenIDs, Logprobs: t.logprobs,
		NumOutputTokens: t.numTokens, FinishReason: t.finish, StopReason: t.stop,
	}
	if t.parser != nil {
		d.Parsed = t.parser.parse(t.text, t.ended)
	}
	t.text, t.tokenIDs, t.logprobs = "", nil, nil
	t.numSent = t.numTokens
	return d
}
