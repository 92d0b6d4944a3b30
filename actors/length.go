package actors

import (
	"fmt"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// defaultCompletionTokens is max_tokens of a completion that gives none; a chat
// gets the rest of the context.
const defaultCompletionTokens = 16

// notGiven is the value of a limit that the request leaves open.
const notGiven = -1

// budget splits the context between prompt and output. All counts are tokens.
type budget struct {
	context   int    // prompt and output together: the model's max_model_len
	requested int    // the request's max_tokens, or notGiven
	param     string // the field that requested came from
	fallback  int    // max_tokens when not given; 0 = the rest of the context
	ceiling   int    // max_new_tokens of the generation config; 0 = none
	truncate  int    // truncate_prompt_tokens, resolved; or notGiven
}

func newBudget(req *infer.Request, model *infer.ModelInfo) (budget, *infer.Error) {
	b := budget{context: model.MaxModelLen, requested: notGiven, param: "max_tokens", truncate: notGiven}
	if req.MaxTokens != nil {
		b.requested = *req.MaxTokens
	}
	if req.MaxTokensParam != "" {
		b.param = req.MaxTokensParam
	}
	if req.Chat == nil {
		b.fallback = defaultCompletionTokens
	}
	if ceiling := model.Defaults.MaxNewTokens; ceiling != nil {
		b.ceiling = *ceiling
	}
	switch {
	case b.requested > b.context:
		return b, infer.Errorf(infer.CodeContextLength, b.param,
			"%s=%d cannot be greater than max_model_len=%d, the model's maximum context length. Please request fewer output tokens. (parameter=%s, value=%d)",
			b.param, b.requested, b.context, b.param, b.requested)
	case b.requested == 0 && !req.Echo:
		return b, infer.Errorf(infer.CodeInvalid, b.param, "%s must be at least 1, got 0.", b.param)
	}
	return b, b.setTruncation(req.TruncatePromptTokens)
}

func (b *budget) setTruncation(given *int) *infer.Error {
	switch {
	case given == nil:
	case *given > b.context:
		return infer.Errorf(infer.CodeInvalid, "truncate_prompt_tokens",
			"truncate_prompt_tokens value (%d) is greater than max_model_len (%d). Please, select a smaller truncation size.", *given, b.context)
	case *given < 0:
		b.truncate = b.maxPrompt()
		if b.requested == notGiven {
			b.truncate-- // leave room for one token
		}
	default:
		b.truncate = *given
	}
	return nil
}

// maxPrompt is the longest prompt that leaves room for what was requested.
func (b *budget) maxPrompt() int { return b.context - max(b.requested, 0) }

// encodeLimit is where tokenizing a prompt may stop: more tokens than that lead
// to the same outcome. 0 = nowhere, since the end of the prompt is kept.
func (b *budget) encodeLimit(truncateRight bool) int {
	switch {
	case b.truncate == notGiven:
		return max(b.maxPrompt(), 1)
	case truncateRight:
		return max(b.truncate, 1)
	default:
		return 0
	}
}

// wasted is how much more memory than it needs a prompt may keep: up to twice as
// much, and what is not worth a copy.
const wasted = 64

// cut applies the request's truncation to a prompt. The result does not keep alive
// what was cut off.
func (b *budget) cut(tokenIDs []int32, truncateRight bool) []int32 {
	kept := tokenIDs
	switch {
	case b.truncate == notGiven || len(tokenIDs) <= b.truncate:
	case truncateRight:
		kept = tokenIDs[:b.truncate]
	default:
		kept = tokenIDs[len(tokenIDs)-b.truncate:]
	}
	if cap(tokenIDs) > 2*len(kept)+wasted {
		return slices.Clone(kept)
	}
	return kept
}

// maxTokens resolves the limit of output tokens for a prompt. numPrompt may be a
// lower bound if it is above maxPrompt.
func (b *budget) maxTokens(numPrompt int) (int, *infer.Error) {
	if numPrompt > b.maxPrompt() {
		return 0, b.overflow(numPrompt, max(b.requested, 0))
	}
	rest := b.context - numPrompt
	limit := b.requested
	if limit == notGiven {
		limit = rest
		if b.fallback > 0 {
			limit = min(rest, b.fallback)
		}
		if limit == 0 {
			return 0, b.overflow(numPrompt, 1) // it fits, but not with a token to answer
		}
	}
	if b.ceiling > 0 {
		limit = min(limit, b.ceiling)
	}
	return limit, nil
}

// overflow has vLLM's shape: clients parse the numbers out of it. The counts are
// lower bounds because tokenizing stops at the limit.
func (b *budget) overflow(numPrompt, requested int) *infer.Error {
	return &infer.Error{Code: infer.CodeContextLength, Param: "input_tokens", Message: fmt.Sprintf(
		"This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, "+
			"for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)",
		b.context, requested, numPrompt, numPrompt+requested, numPrompt)}
}
