package actors

import (
	"context"
	"strings"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// maxListedBytes bounds the text that Detokenize, or the names of Tokenize's
// tokens, may come to: a token of many blanks is long, and there may be a million.
const maxListedBytes = 64 << 20

// idsPerLook is how many ids are turned into text between two looks at the context.
const idsPerLook = 4096

// Tokenize implements infer.Generator.
func (e *Engine) Tokenize(ctx context.Context, req *infer.TokenizeRequest) (*infer.TokenizeResult, error) {
	limit := e.config.Model.MaxListedTokens()
	o := tokenizer.EncodeOptions{AddSpecialTokens: req.AddSpecialTokens, Limit: limit, Done: ctx.Done()}
	param, text := "prompt", ""
	if req.Text != nil {
		text = *req.Text
	} else {
		rendered, err := e.render(req.Chat, 0)
		if err != nil {
			return nil, err
		}
		param, text, o.Literal = "messages", rendered.Text, rendered.Literal
	}
	tokenIDs := e.config.Tokenizer.Encode(text, o)
	if err := givenUp(ctx); err != nil {
		return nil, err
	}
	if len(tokenIDs) > limit {
		return nil, infer.Errorf(infer.CodeInvalid, param,
			"%s: at most %d tokens are listed at once, got a text of %d bytes that has more. Send it in parts.", param, limit, len(text))
	}
	result := &infer.TokenizeResult{TokenIDs: tokenIDs}
	if !req.ReturnTokenStrs {
		return result, nil
	}
	var err error
	result.TokenStrs, err = e.tokenStrings(ctx, tokenIDs)
	return result, err
}

// tokenStrings returns the vocabulary's spelling of each id.
func (e *Engine) tokenStrings(ctx context.Context, tokenIDs []int32) ([]string, error) {
	list := make([]string, len(tokenIDs))
	size := 0
	for i, id := range tokenIDs {
		if i%idsPerLook == 0 {
			if err := givenUp(ctx); err != nil {
				return nil, err
			}
		}
		list[i] = e.config.Tokenizer.TokenString(id)
		if size += len(list[i]); size > maxListedBytes {
			return nil, tooLong("return_token_strs", maxListedBytes, len(tokenIDs))
		}
	}
	return list, nil
}

// tooLong refuses an answer whose text would be too large.
func tooLong(param string, limit, numTokens int) *infer.Error {
	return infer.Errorf(infer.CodeInvalid, param,
		"%s: the text of the tokens may have %d bytes, that of these %d tokens has more. Send them in parts.", param, limit, numTokens)
}

// Detokenize implements infer.Generator.
func (e *Engine) Detokenize(ctx context.Context, tokenIDs []int32) (string, error) {
	if limit := e.config.Model.MaxListedTokens(); len(tokenIDs) > limit {
		return "", infer.Errorf(infer.CodeInvalid, "tokens", "tokens: may have at most %d entries, got %d.", limit, len(tokenIDs))
	}
	if err := checkTokenIDs("tokens", tokenIDs, e.config.Model.VocabSize); err != nil {
		return "", err
	}
	size := 0
	for _, id := range tokenIDs {
		if size += len(e.config.Tokenizer.TokenText(id)); size > maxListedBytes {
			return "", tooLong("tokens", maxListedBytes, len(tokenIDs))
		}
	}
	var b strings.Builder
	b.Grow(size)
	d := e.config.Tokenizer.NewDecoder(false)
	for i, id := range tokenIDs {
		if i%idsPerLook == 0 {
			if err := givenUp(ctx); err != nil {
				return "", err
			}
		}
		b.WriteString(d.Push(id))
	}
	b.WriteString(d.Flush())
	return b.String(), nil
}
