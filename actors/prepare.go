package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
	"github.com/troupe-llm/troupe/tokenizer"
)

// maxSequencesPerRequest bounds the sequences that one request may start,
// prompts times choices.
const maxSequencesPerRequest = 16384

// job is a request that has passed every check: what the actors work on. It
// does not change once they do.
type job struct {
	request         *infer.Request
	stream          *stream
	sequences       []sequenceSpec
	stops           *sampling.Stops // nil without stop strings
	parsing         *parsing        // nil = the output is text
	numPromptTokens int             // each prompt once
	grammarTime     int64           // nanoseconds that the grammar took; 0 without Config.MetricsBreakdown
}

// sequenceSpec describes one choice of one prompt.
type sequenceSpec struct {
	id     infer.SeqID
	index  int // prompt * n + choice
	prompt *prompt
	params *infer.SamplingParams
	place  *place
	// batcher is the one to submit to first; nil = none lived.
	batcher *BatcherReady
	live    *liveSequence
	demand  *cluster.Demand // nil = the engine is in no cluster
}

// prompt is shared by its choices.
type prompt struct {
	text      string // as the model sees it; "" if nobody asked for it
	tail      string // the end of it; "" if nobody needs it
	tokenIDs  []int32
	maxTokens int
	counted   atomic.Bool // the prompt's tokens are in the books; the first choice with a token does it
}

// prepare turns a request into sequences, or says in the client's words why not.
// It stops soon after ctx has ended.
func (e *Engine) prepare(ctx context.Context, req *infer.Request) (*job, *infer.Error) {
	numPrompts := max(len(req.Prompts), 1)
	if req.N < 1 || req.N > maxSequencesPerRequest/numPrompts {
		return nil, infer.Errorf(infer.CodeInvalid, "n", "n times the number of prompts must be between 1 and %d, got %d * %d",
			maxSequencesPerRequest, req.N, numPrompts)
	}
	params, err := e.resolveParams(req)
	if err != nil {
		return nil, err
	}
	grammarTime, madeOf, err := e.resolveGrammar(ctx, req, &params)
	if err != nil {
		return nil, err
	}
	prompts, err := e.preparePrompts(ctx, req)
	if err != nil {
		return nil, err
	}
	j := newJob(req, params.Stop)
	j.grammarTime = grammarTime
	if j.parsing, err = e.parsing(req, prompts); err != nil {
		return nil, err
	}
	params.Grammar = e.thinkFirst(params.Grammar, j.parsing)
	if e.env.cluster != nil {
		params.Grammar = withForm(params.Grammar, madeOf)
	}
	for _, p := range prompts {
		if params.MinTokens > p.maxTokens {
			return nil, infer.Errorf(infer.CodeInvalid, "min_tokens",
				"min_tokens must be less than or equal to max_tokens=%d, got %d.", p.maxTokens, params.MinTokens)
		}
		j.numPromptTokens += len(p.tokenIDs)
		j.addChoices(p, params, e.seed(req))
	}
	for i := range j.sequences {
		j.sequences[i].id = e.env.nextSeqID()
	}
	e.addDemands(j)
	j.request = withoutSource(req)
	return j, nil
}

// withoutSource returns the request without what has become prompts, parameters and
// parsing: a request that waits in the queue costs about what it keeps of its tokens.
func withoutSource(req *infer.Request) *infer.Request {
	kept := *req
	kept.Chat, kept.Prompts, kept.Structured, kept.Tools, kept.BadWords = nil, nil, nil, nil, nil
	kept.Sampling = infer.SamplingParams{} // the sequences have theirs
	return &kept
}

func newJob(req *infer.Request, stops []string) *job {
	j := &job{request: req}
	if len(stops) > 0 {
		j.stops = sampling.NewStops(stops)
	}
	return j
}

// addChoices adds one sequence per choice of a prompt. Choices differ in their seed.
func (j *job) addChoices(p *prompt, params infer.SamplingParams, seed uint64) {
	params.MaxTokens = p.maxTokens
	for choice := range j.request.N {
		own := params
		own.Seed = sampling.DeriveSeed(seed, choice)
		j.sequences = append(j.sequences, sequenceSpec{index: len(j.sequences), prompt: p, params: &own, live: new(liveSequence)})
	}
}

// seed returns the seed of a prompt's choices: the request's, or the next one of
// the engine's.
func (e *Engine) seed(req *infer.Request) uint64 {
	if req.SeedGiven {
		return req.Sampling.Seed
	}
	return sampling.DrawSeed(e.config.Seed, e.drawnSeeds.Add(1))
}

func (e *Engine) preparePrompts(ctx context.Context, req *infer.Request) ([]*prompt, *infer.Error) {
	budget, err := newBudget(req, &e.config.Model)
	if err != nil {
		return nil, err
	}
	if req.Chat != nil {
		p, err := e.prepareChat(ctx, req, &budget)
		if err != nil {
			return nil, err
		}
		return []*prompt{p}, nil
	}
	if len(req.Prompts) == 0 {
		return nil, infer.Errorf(infer.CodeInvalid, "prompt", "At least one prompt is required.")
	}
	prompts := make([]*prompt, len(req.Prompts))
	for i := range req.Prompts {
		tokenIDs, err := e.promptTokens(ctx, req, &req.Prompts[i], &budget)
		if err != nil {
			return nil, err
		}
		if prompts[i], err = e.fit(req, &budget, req.Prompts[i].Text, tokenIDs); err != nil {
			return nil, err
		}
	}
	return prompts, nil
}

func (e *Engine) prepareChat(ctx context.Context, req *infer.Request, b *budget) (*prompt, *infer.Error) {
	maxOutput := e.maxRendered(b)
	rendered, err := e.render(req.Chat, maxOutput)
	switch {
	case err != nil && err.Code == infer.CodeContextLength && maxOutput > 0:
		return nil, b.overflow(b.maxPrompt()+1, max(b.requested, 0))
	case err != nil:
		return nil, err
	}
	tokenIDs, err := e.encode(ctx, req, b, rendered)
	if err != nil {
		return nil, err
	}
	p, err := e.fit(req, b, rendered.Text, tokenIDs)
	if err == nil && e.config.ReasoningParser != "" {
		p.tail = tailOf(rendered.Text)
	}
	return p, err
}

// A rendered conversation may have a few times the bytes that limit tokens can
// stand for, and always so many: what a template builds on its way may be longer
// than what comes of it.
const (
	renderedFactor = 8
	minRendered    = 64 << 10
)

// maxRendered returns how many bytes of a conversation are worth rendering, since
// more are more tokens than fit; 0 if there is no telling, or it may be cut.
func (e *Engine) maxRendered(b *budget) int {
	bytes := e.config.Tokenizer.MaxBytes(b.maxPrompt() + 2)
	if b.truncate != notGiven || bytes == 0 {
		return 0
	}
	return max(renderedFactor*bytes, minRendered)
}

// promptTokens returns the ids that a prompt was given as, or those of its text.
func (e *Engine) promptTokens(ctx context.Context, req *infer.Request, in *infer.Prompt, b *budget) ([]int32, *infer.Error) {
	if in.TokenIDs == nil {
		return e.encode(ctx, req, b, chat.Rendered{Text: in.Text})
	}
	return in.TokenIDs, checkTokenIDs("prompt", in.TokenIDs, e.config.Model.VocabSize)
}

// encode tokenizes a prompt up to the first token that is one too many. A prompt
// of which the end is kept has to be tokenized whole, within what one call may
// tokenize at all.
func (e *Engine) encode(ctx context.Context, req *infer.Request, b *budget, text chat.Rendered) ([]int32, *infer.Error) {
	limit := b.encodeLimit(req.TruncateRight)
	most := limit
	if limit == 0 {
		most = e.config.Model.MaxListedTokens()
	}
	tokenIDs := e.config.Tokenizer.Encode(text.Text, tokenizer.EncodeOptions{
		AddSpecialTokens: req.AddSpecialTokens,
		Literal:          text.Literal,
		Limit:            most,
		Done:             ctx.Done(),
	})
	if err := givenUp(ctx); err != nil {
		return nil, err
	}
	switch {
	case len(tokenIDs) <= most:
		return tokenIDs, nil
	case limit == 0:
		return nil, infer.Errorf(infer.CodeInvalid, "truncate_prompt_tokens",
			"truncate_prompt_tokens: a prompt that is cut at its beginning may have at most %d tokens, got a text of %d bytes that has more.", most, len(text.Text))
	default:
		return tokenIDs[:limit+1], nil
	}
}

// fit truncates a tokenized prompt if the request asked for it, and checks that
// what is left has its place in the context.
func (e *Engine) fit(req *infer.Request, b *budget, text string, tokenIDs []int32) (*prompt, *infer.Error) {
	kept := b.cut(tokenIDs, req.TruncateRight)
	if len(kept) == 0 {
		return nil, infer.Errorf(infer.CodeInvalid, "prompt", "The prompt cannot be empty: it has 0 tokens.")
	}
	maxTokens, err := b.maxTokens(len(kept))
	if err != nil {
		return nil, err
	}
	p := &prompt{tokenIDs: kept, maxTokens: maxTokens}
	if req.Echo {
		p.text = text
		if text == "" || len(kept) < len(tokenIDs) { // given as ids, or cut
			p.text = decodeText(e.config.Tokenizer, kept, req.Sampling.SkipSpecialTokens)
		}
	}
	return p, nil
}

// decodeText decodes a prompt as output is decoded.
func decodeText(t *tokenizer.Tokenizer, tokenIDs []int32, skipSpecial bool) string {
	d := newDecoder(t, skipSpecial)
	var b strings.Builder
	for _, id := range tokenIDs {
		b.WriteString(d.Push(id))
	}
	b.WriteString(d.Flush())
	return b.String()
}

// newDecoder returns a decoder for text that clients read: bytes that form no
// character are left out of it.
func newDecoder(t *tokenizer.Tokenizer, skipSpecial bool) *tokenizer.Decoder {
	d := t.NewDecoder(skipSpecial)
	d.DropInvalid()
	return d
}

// render turns a conversation into text with the model's template, or with the
// request's own where that is trusted.
// maxOutput is how many bytes are of use; 0 = as many as the template may make.
func (e *Engine) render(in *infer.ChatInput, maxOutput int) (chat.Rendered, *infer.Error) {
	template, err := e.template(in)
	if err != nil {
		return chat.Rendered{}, err
	}
	rendered, failure := template.Render(chat.Input{
		Chat:          in,
		DefaultKwargs: e.config.DefaultChatTemplateKwargs,
		ControlTokens: e.controlTokens,
		MaxOutput:     maxOutput,
	})
	refused := infer.AsError(failure)
	if refused != nil && refused.Code == infer.CodeContextLength {
		refused.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, %s.", e.Model().MaxModelLen, refused.Message)
	}
	return rendered, refused
}

func (e *Engine) template(in *infer.ChatInput) (*chat.Template, *infer.Error) {
	switch {
	case in.Template != "" && !e.config.TrustRequestChatTemplate:
		return nil, infer.Errorf(infer.CodeInvalid, "chat_template",
			"A chat template came with the request, but --trust-request-chat-template is not set. Untrusted chat templates are refused.")
	case in.Template != "":
		template, err := chat.Parse(in.Template, e.config.TemplateOptions)
		var coded *infer.Error
		if err != nil && !errors.As(err, &coded) {
			coded = infer.Errorf(infer.CodeInvalid, "chat_template", "The request's chat template cannot be parsed: %v", err)
		}
		return template, coded
	case e.config.TemplateErr != nil:
		return nil, infer.Errorf(infer.CodeInvalid, "messages", "The model's chat template cannot be used: %v", e.config.TemplateErr)
	case e.config.Template == nil:
		return nil, infer.Errorf(infer.CodeInvalid, "messages", "The model has no chat template. Start the server with --chat-template, or use completions.")
	default:
		return e.config.Template, nil
	}
}

// resolveParams completes the request's sampling parameters, but for the grammar, with
// what only the engine knows, and checks them against the vocabulary.
func (e *Engine) resolveParams(req *infer.Request) (infer.SamplingParams, *infer.Error) {
	params := req.Sampling
	vocab := e.config.Model.VocabSize
	params.EOSTokenIDs = e.config.EOSTokenIDs
	params.BadWords = e.badWords(req.BadWords)
	for _, err := range []*infer.Error{
		e.checkLogprobs("logprobs", params.NumLogprobs),
		e.checkLogprobs("prompt_logprobs", params.NumPromptLogprobs),
		checkTokenIDs("stop_token_ids", params.StopTokenIDs, vocab),
		checkTokenIDs("allowed_token_ids", params.AllowedTokenIDs, vocab),
		checkBias(params.LogitBias, vocab),
	} {
		if err != nil {
			return params, err
		}
	}
	return params, nil
}

// resolveGrammar compiles the form that the output must have, and returns how long
// that took, in nanoseconds, if anybody asks.
func (e *Engine) resolveGrammar(ctx context.Context, req *infer.Request, params *infer.SamplingParams) (took int64, madeOf form, err *infer.Error) {
	if e.config.MetricsBreakdown && (req.Structured != nil || req.Tools != nil) {
		began := e.config.Clock()
		defer func() { took = e.config.Clock() - began }()
	}
	if params.Grammar, madeOf, err = e.grammar(ctx, req); params.Grammar != nil {
		params.IgnoreEOS = false // a text that is complete can do nothing but end
	}
	return 0, madeOf, err
}

func (e *Engine) checkLogprobs(param string, n int) *infer.Error {
	limit := e.config.MaxLogprobs
	if limit == -1 {
		limit = e.config.Model.VocabSize
	}
	if n > limit {
		return infer.Errorf(infer.CodeInvalid, param, "Requested %s of %d, which is greater than max allowed: %d", param, n, limit)
	}
	return nil
}

func checkBias(biases []infer.TokenBias, vocabSize int) *infer.Error {
	for _, b := range biases {
		if b.TokenID < 0 || int(b.TokenID) >= vocabSize {
			return outOfVocabulary("logit_bias", b.TokenID, vocabSize)
		}
	}
	return nil
}

// badWords tokenizes words that must not be generated, in the form that begins a
// text and in the form that follows a space, since those are different tokens.
func (e *Engine) badWords(words []string) [][]int32 {
	var sequences [][]int32
	for _, word := range words {
		bare := strings.TrimLeft(word, " \t\n\r")
		first := e.config.Tokenizer.Encode(bare, tokenizer.EncodeOptions{})
		if len(first) == 0 {
			continue
		}
		sequences = append(sequences, first)
		// A space that became a token of its own in front of the same tokens adds
		// nothing. Every other form does, also one of another length, which vLLM
		// leaves out and so lets the word through.
		spaced := e.config.Tokenizer.Encode(" "+bare, tokenizer.EncodeOptions{})
		if !slices.Equal(spaced[1:], first) {
			sequences = append(sequences, spaced)
		}
	}
	return sequences
}

func checkTokenIDs(param string, tokenIDs []int32, vocabSize int) *infer.Error {
	for _, id := range tokenIDs {
		if id < 0 || int(id) >= vocabSize {
			return outOfVocabulary(param, id, vocabSize)
		}
	}
	return nil
}

func outOfVocabulary(param string, id int32, vocabSize int) *infer.Error {
	return infer.Errorf(infer.CodeInvalid, param, "Token id %d in %s is out of vocabulary: ids are 0 to %d.", id, param, vocabSize-1)
}
