package openai

import (
	"bytes"

	"github.com/troupe-llm/troupe/infer"
)

// ParseTokenize reads the body of POST /tokenize: a prompt or a conversation.
func ParseTokenize(body []byte, p *Profile) (*infer.TokenizeRequest, error) {
	o := parseBody(body)
	p.checkModel(o)
	r := &infer.TokenizeRequest{ReturnTokenStrs: o.flag("return_token_strs", false)}
	switch {
	case o.err != nil:
	case o.has("prompt") && o.has("messages"):
		o.fail(infer.CodeMalformed, "messages", "cannot be given together with prompt")
	case o.has("messages"):
		r.Chat = o.chatInput()
		r.Chat.Tools = bytes.Clone(o.typed("tools", "an array"))
		r.AddSpecialTokens = o.flag("add_special_tokens", false)
	case o.has("prompt"):
		r.Text = o.str("prompt")
		r.AddSpecialTokens = o.flag("add_special_tokens", true)
	default:
		o.fail(infer.CodeMalformed, "prompt", "is required, or messages")
	}
	if o.err != nil {
		return nil, o.err
	}
	return r, nil
}

// TokenizedSize returns how many bytes AppendTokenized may append.
func TokenizedSize(res *infer.TokenizeResult) int {
	const frame, perToken = 128, 8 // digits and a comma; ids are below ten million
	size := frame + perToken*len(res.TokenIDs)
	for _, s := range res.TokenStrs {
		size += escapedSize(s) + 3
	}
	return size
}

// AppendTokenized appends the answer to POST /tokenize.
func AppendTokenized(dst []byte, res *infer.TokenizeResult, m *infer.ModelInfo) []byte {
	dst = append(dst, `{"count":`...)
	dst = appendInt(dst, len(res.TokenIDs))
	dst = append(dst, `,"max_model_len":`...)
	dst = appendInt(dst, m.MaxModelLen)
	dst = append(dst, `,"tokens":`...)
	dst = appendTokenIDs(dst, res.TokenIDs)
	dst = append(dst, `,"token_strs":`...)
	if res.TokenStrs == nil {
		return append(dst, "null}"...)
	}
	dst = append(dst, '[')
	for i, s := range res.TokenStrs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, "]}"...)
}

// ParseDetokenize reads the body of POST /detokenize: ids of the vocabulary.
func ParseDetokenize(body []byte, p *Profile) ([]int32, error) {
	o := parseBody(body)
	p.checkModel(o)
	ids := o.tokenIDList("tokens", p.Model.VocabSize, p.Model.MaxListedTokens())
	if ids == nil {
		o.fail(infer.CodeMalformed, "tokens", "is required: a list of token ids")
	}
	if o.err != nil {
		return nil, o.err
	}
	return ids, nil
}

// DetokenizedSize returns how many bytes AppendDetokenized may append.
func DetokenizedSize(text string) int { return len(`{"prompt":""}`) + escapedSize(text) }

// AppendDetokenized appends the answer to POST /detokenize.
func AppendDetokenized(dst []byte, text string) []byte {
	dst = append(dst, `{"prompt":`...)
	return append(appendString(dst, text), '}')
}
