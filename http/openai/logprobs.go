package openai

import (
	"hash/maphash"
	"strconv"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// appendChatLogprobs appends {"content": [one entry per token]}.
func appendChatLogprobs(dst []byte, n *tokenNamer, list []infer.TokenLogprobs) []byte {
	dst = append(dst, `{"content":[`...)
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTokenLogprobs(dst, n, &list[i])
	}
	return append(dst, "]}"...)
}

// appendTokenLogprobs appends the entry of one token, with its alternatives.
func appendTokenLogprobs(dst []byte, n *tokenNamer, p *infer.TokenLogprobs) []byte {
	n.next(&p.Token)
	dst = appendChatToken(dst, n, &p.Token, &p.Token)
	dst = append(dst, `,"top_logprobs":[`...)
	for j := range p.Top {
		if j > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendChatToken(dst, n, &p.Top[j], &p.Token), '}')
	}
	return append(dst, "]}"...)
}

// appendChatToken appends one token's members, the closing brace left out.
func appendChatToken(dst []byte, n *tokenNamer, t, chosen *infer.TokenLogprob) []byte {
	dst = append(n.appendName(append(dst, `{"token":"`...), t, chosen), '"')
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, t.Logprob)
	dst = append(dst, `,"bytes":`...)
	return appendBytes(dst, t.Text)
}

// completionLogprobs collects the four parallel lists of a completion's logprobs.
type completionLogprobs struct {
	names    tokenNamer
	offset   int                 // characters before the next token
	members  map[uint64]struct{} // hashes of the names in the map being written
	offsets  []byte
	logprobs []byte
	strs     []byte
	top      []byte
}

// reset empties the lists and keeps the position in the text.
func (l *completionLogprobs) reset() {
	l.offsets, l.logprobs = l.offsets[:0], l.logprobs[:0]
	l.strs, l.top = l.strs[:0], l.top[:0]
}

// addPrompt adds the tokens of an echoed prompt; nothing precedes the first.
func (l *completionLogprobs) addPrompt(list []infer.TokenLogprobs) {
	for i := range list {
		l.add(&list[i], i > 0)
	}
}

func (l *completionLogprobs) addOutput(list []infer.TokenLogprobs) {
	for i := range list {
		l.add(&list[i], true)
	}
}

func (l *completionLogprobs) add(p *infer.TokenLogprobs, known bool) {
	if len(l.offsets) > 0 {
		l.offsets, l.logprobs = append(l.offsets, ','), append(l.logprobs, ',')
		l.strs, l.top = append(l.strs, ','), append(l.top, ',')
	}
	l.names.next(&p.Token)
	l.offsets = appendInt(l.offsets, l.offset)
	l.offset += utf8.RuneCount(l.names.chosen)
	l.strs = appendString(l.strs, l.names.chosen)
	if !known {
		l.logprobs = append(l.logprobs, "null"...)
		l.top = append(l.top, "null"...)
		return
	}
	l.logprobs = appendLogprob(l.logprobs, p.Token.Logprob)
	l.top = l.appendTop(l.top, p)
}

// appendTop appends the map from token strings to values: the most likely ones
// plus the token itself. Of two tokens with one string, the more likely stays.
func (l *completionLogprobs) appendTop(dst []byte, p *infer.TokenLogprobs) []byte {
	clear(l.members)
	dst = append(dst, '{')
	start := len(dst)
	seen := false
	for i := range p.Top {
		dst = l.appendMember(dst, start, &p.Top[i], &p.Token)
		seen = seen || p.Top[i].TokenID == p.Token.TokenID
	}
	if !seen {
		dst = l.appendMember(dst, start, &p.Token, &p.Token)
	}
	return append(dst, '}')
}

func (l *completionLogprobs) appendMember(dst []byte, start int, t, chosen *infer.TokenLogprob) []byte {
	before := len(dst)
	if before > start {
		dst = append(dst, ',')
	}
	name := len(dst)
	dst = append(l.names.appendName(append(dst, '"'), t, chosen), '"')
	key := maphash.Bytes(nameSeed, dst[name:])
	if _, again := l.members[key]; again {
		return dst[:before]
	}
	if l.members == nil {
		l.members = make(map[uint64]struct{})
	}
	l.members[key] = struct{}{}
	return appendLogprob(append(dst, ':'), t.Logprob)
}

var nameSeed = maphash.MakeSeed()

// appendJSON appends the object of the four lists.
func (l *completionLogprobs) appendJSON(dst []byte) []byte {
	dst = append(append(append(dst, `{"text_offset":[`...), l.offsets...), ']')
	dst = append(append(append(dst, `,"token_logprobs":[`...), l.logprobs...), ']')
	dst = append(append(append(dst, `,"tokens":[`...), l.strs...), ']')
	dst = append(append(append(dst, `,"top_logprobs":[`...), l.top...), ']')
	return append(dst, '}')
}

// appendPromptLogprobs appends vLLM's list for prompt tokens: null for the
// first, then maps from token ids to {logprob, rank, decoded_token}.
func appendPromptLogprobs(dst []byte, list []infer.TokenLogprobs) []byte {
	var names tokenNamer
	dst = append(dst, '[')
	for i := range list {
		p := &list[i]
		names.next(&p.Token)
		if i == 0 {
			dst = append(dst, "null"...)
			continue
		}
		dst = append(dst, ",{"...)
		dst = appendPromptToken(dst, &names, &p.Token, &p.Token)
		for j := range p.Top {
			if p.Top[j].TokenID != p.Token.TokenID {
				dst = appendPromptToken(append(dst, ','), &names, &p.Top[j], &p.Token)
			}
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendPromptToken(dst []byte, n *tokenNamer, t, chosen *infer.TokenLogprob) []byte {
	dst = append(strconv.AppendInt(append(dst, '"'), int64(t.TokenID), 10), `":{"logprob":`...)
	dst = appendLogprob(dst, t.Logprob)
	dst = append(dst, `,"rank":`...)
	dst = strconv.AppendInt(dst, int64(t.Rank), 10)
	dst = append(n.appendName(append(dst, `,"decoded_token":"`...), t, chosen), '"')
	return append(dst, '}')
}
