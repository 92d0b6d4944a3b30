package openai

import (
	"fmt"
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// defaultMaxTokens is what the engine gives a completion that names no limit.
const defaultMaxTokens = 16

// ParseCompletion reads the body of POST /v1/completions.
func ParseCompletion(body []byte, p *Profile, e Envelope) (*Call, error) {
	o := p.open(body)
	c := p.common(o, "cmpl-", e)
	r := c.Request
	if suffix := o.str("suffix"); suffix != nil && *suffix != "" {
		o.fail(infer.CodeInvalid, "suffix", "not supported")
	}
	if best := o.count("best_of", math.MinInt32, math.MaxInt32); best != nil && *best > r.N {
		o.fail(infer.CodeInvalid, "best_of", "%d is more than n = %d: choosing among more candidates is not supported", *best, r.N)
	}
	o.refuse("prompt_embeds")
	r.AddSpecialTokens = o.flag("add_special_tokens", true)
	r.Echo = o.flag("echo", false)
	c.Reply.Echo = r.Echo
	p.completionLogprobs(o, c)
	p.completionMaxTokens(o, r)
	limit := or(r.MaxTokens, defaultMaxTokens)
	r.Sampling.MinTokens = p.minTokens(o, &limit)
	r.Prompts = p.prompts(o, p.promptLimits(r))
	c.Reply.NumChoices = len(r.Prompts) * r.N
	if c.Reply.NumChoices > p.MaxNumSequences {
		o.fail(infer.CodeInvalid, "prompt", "%d prompts times n = %d is more than %d", len(r.Prompts), r.N, p.MaxNumSequences)
	}
	if o.err != nil {
		return nil, o.err
	}
	c.Ignored = o.ignored()
	return c, nil
}

// completionLogprobs reads logprobs (a number). With echo the prompt's are reported too.
func (p *Profile) completionLogprobs(o *object, c *Call) {
	n := p.logprobs(o, "logprobs", "sample")
	if n < 0 {
		return
	}
	c.Reply.Logprobs = true
	s := &c.Request.Sampling
	s.NumLogprobs = n
	if c.Reply.Echo && s.NumPromptLogprobs < 0 {
		s.NumPromptLogprobs = n
	}
}

func (p *Profile) completionMaxTokens(o *object, r *infer.Request) {
	r.MaxTokens, r.MaxTokensParam = p.maxTokens(o, "max_tokens")
	switch {
	case r.MaxTokens == nil: // the engine's default of a completion, if the context has room for it
	case *r.MaxTokens < 0:
		o.fail(infer.CodeInvalid, "max_tokens", "must be at least 1, got %d", *r.MaxTokens)
	case *r.MaxTokens == 0 && !r.Echo:
		o.fail(infer.CodeInvalid, "max_tokens", "must be at least 1, got 0; 0 is allowed only with echo: true")
	}
}

// promptLimits says how many ids of a prompt are read. Without truncation one more
// than the context has decides that it is too long, which the engine then says.
func (p *Profile) promptLimits(r *infer.Request) idLimits {
	if r.TruncatePromptTokens != nil {
		return idLimits{vocabSize: p.Model.VocabSize, max: p.Model.MaxListedTokens()}
	}
	return idLimits{vocabSize: p.Model.VocabSize, enough: p.Model.MaxModelLen + 1}
}

// prompts reads prompt: a string, a list of strings, token ids, or a list of
// lists of token ids.
func (p *Profile) prompts(o *object, limits idLimits) []infer.Prompt {
	raw := o.raw("prompt")
	switch {
	case raw == nil:
		o.fail(infer.CodeMalformed, "prompt", "is required")
	case kind(raw) == "a string":
		return o.appendTextPrompt(nil, "prompt", raw)
	case kind(raw) != "an array":
		o.mismatch("prompt", "a string, a list of strings, token ids or a list of lists of token ids", raw)
	case isEmptyArray(raw):
		o.fail(infer.CodeMalformed, "prompt", "must not be empty")
	default:
		return p.promptList(o, raw, limits)
	}
	return nil
}

func (p *Profile) promptList(o *object, raw []byte, limits idLimits) []infer.Prompt {
	var first string
	for _, element := range elements(raw) {
		first = kind(element)
		break
	}
	if first == "a number" {
		return []infer.Prompt{{TokenIDs: o.tokenIDs("prompt", raw, limits)}}
	}
	var list []infer.Prompt
	for i, element := range elements(raw) {
		name := fmt.Sprintf("prompt[%d]", i)
		switch {
		case len(list) == p.MaxNumSequences:
			o.fail(infer.CodeInvalid, "prompt", "has more than %d entries", p.MaxNumSequences)
		case first != "a string" && first != "an array":
			o.mismatch(name, "a string, a token id or a list of token ids", element)
		case kind(element) != first:
			o.mismatch(name, first+" as the entries before it", element)
		case first == "a string":
			list = o.appendTextPrompt(list, "prompt", element)
		case isEmptyArray(element):
			o.fail(infer.CodeMalformed, "prompt", "must not have an empty entry, but entry %d is", i)
		default:
			ids := o.tokenIDs(name, element, limits)
			list = append(list, infer.Prompt{TokenIDs: ids})
			if limits.enough > 0 && len(ids) == limits.enough {
				return list // it refuses the request, whatever comes after it
			}
		}
		if o.err != nil {
			return nil
		}
	}
	return list
}

func (o *object) appendTextPrompt(list []infer.Prompt, name string, raw []byte) []infer.Prompt {
	text := unquote(raw)
	if text == "" {
		o.fail(infer.CodeMalformed, name, "must not be empty")
	}
	return append(list, infer.Prompt{Text: text})
}
