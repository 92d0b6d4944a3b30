package tokenizer

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

// EncodeOptions say how a text is encoded.
type EncodeOptions struct {
	// AddSpecialTokens puts the post-processor's template (BOS …) around the ids.
	AddSpecialTokens bool
	// Literal are byte ranges of the text that came from somebody who may not
	// write control tokens: one that touches such a range is plain text.
	Literal []infer.Span
	// NoControl makes all of the text Literal.
	NoControl bool
	// Limit, if > 0, stops encoding early once more than Limit ids were
	// produced: the result has more than Limit ids exactly if the whole text
	// has, and begins like the result for the whole text except for the ids
	// of the last word.
	Limit int
	// Done, once closed, stops encoding early: the ids are of no use then.
	Done <-chan struct{}
}

// encoder is the state of one Encode call.
type encoder struct {
	t       *Tokenizer
	out     []int32
	limit   int
	atStart bool // the text at hand begins where the whole text begins
	scratch *mergeScratch

	done  <-chan struct{}
	words int // since the beginning, to look at done now and then

	deadline      time.Time // for patterns without a scanner; zero until one is used
	patternFailed bool      // a pattern ran out of time
}

// Encode returns the ids of text. Bytes that are not UTF-8 are encoded as they are.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	text = t.cut(text, o.Limit)
	e := encoder{t: t, limit: o.Limit, done: o.Done, scratch: t.model.getScratch()}
	defer t.model.scratch.Put(e.scratch)
	// About four bytes make a token; a short guess costs a copy, a long one memory.
	size := len(text)/4 + 8
	if o.Limit > 0 {
		size = min(size, o.Limit+8)
	}
	e.out = make([]int32, 0, size)
	if o.AddSpecialTokens {
		e.out = append(e.out, t.post.prefix...)
		if e.limit > 0 {
			e.limit += len(t.post.prefix) // as it may be taken away again
		}
	}
	e.text(text, controls{none: o.NoControl, literal: cleanSpans(o.Literal, len(text))})
	if !o.AddSpecialTokens {
		return e.out
	}
	// A text that spells the prefix itself does not get a second one.
	if n := len(t.post.prefix); n > 0 && len(e.out) >= 2*n && slices.Equal(e.out[n:2*n], t.post.prefix) {
		e.out = e.out[n:]
	}
	return append(e.out, t.post.suffix...)
}

// cut shortens a text of which the beginning alone has more than limit tokens,
// so that a huge request costs little to refuse.
func (t *Tokenizer) cut(text string, limit int) string {
	if limit <= 0 || t.bytesPerToken == 0 || limit >= len(text)/t.bytesPerToken-1 {
		return text
	}
	return text[:runeStart(text, (limit+2)*t.bytesPerToken)]
}

// cleanSpans returns the spans sorted, joined and within a text of n bytes.
func cleanSpans(spans []infer.Span, n int) []infer.Span {
	if len(spans) == 0 {
		return nil
	}
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b infer.Span) int { return a.Start - b.Start })
	out := spans[:0]
	for _, s := range spans {
		s.Start, s.End = max(s.Start, 0), min(s.End, n)
		if s.Start >= s.End {
			continue
		}
		if last := len(out) - 1; last >= 0 && s.Start <= out[last].End {
			out[last].End = max(out[last].End, s.End)
			continue
		}
		out = append(out, s)
	}
	return out
}

// text cuts the added tokens out of the whole text. Like all of the following
// it reports whether more ids are wanted.
func (e *encoder) text(text string, ctl controls) bool {
	pos := 0
	if e.t.added != nil {
		f := finder{trie: e.t.added, text: text, ctl: &ctl}
		for {
			m, ok := f.next()
			if !ok {
				break
			}
			if !e.gap(text, infer.Span{Start: pos, End: m.start}, &ctl) || !e.id(*m.token.ID) {
				return false
			}
			pos = m.end
		}
	}
	return e.gap(text, infer.Span{Start: pos, End: len(text)}, &ctl)
}

// gap encodes a part of text that has no unnormalized added token.
func (e *encoder) gap(text string, at infer.Span, ctl *controls) bool {
	s := text[at.Start:at.End]
	if s == "" {
		return true
	}
	e.atStart = at.Start == 0
	if e.atStart && e.t.startMayGo {
		_, size := utf8.DecodeRuneInString(s)
		_, first := normalizeAll(e.t.normalizers, s, []infer.Span{{End: size}})
		e.atStart = first[0].End > 0
	}
	if e.t.addedNormalized == nil {
		s, _ = normalizeAll(e.t.normalizers, s, nil)
		return e.piece(0, s)
	}
	inner := controls{none: ctl.none}
	s, inner.literal = normalizeAll(e.t.normalizers, s, ctl.within(at.Start, at.End))
	pos := 0
	f := finder{trie: e.t.addedNormalized, text: s, ctl: &inner}
	for {
		m, ok := f.next()
		if !ok {
			return e.piece(0, s[pos:])
		}
		if !e.piece(0, s[pos:m.start]) || !e.id(*m.token.ID) {
			return false
		}
		pos, e.atStart = m.end, false
	}
}

// id takes one added token.
func (e *encoder) id(id int32) bool {
	e.out = append(e.out, id)
	return e.more()
}

// more reports whether the limit has not been passed.
func (e *encoder) more() bool { return e.limit <= 0 || len(e.out) <= e.limit }

// piece hands s to pre-tokenizer number stage, or to the model after the last.
func (e *encoder) piece(stage int, s string) bool {
	if s == "" {
		return true
	}
	if stage < len(e.t.stages) {
		return e.t.stages[stage].split(e, stage+1, s)
	}
	if e.t.model.breaks == nil {
		return e.word(s)
	}
	for {
		n := e.t.model.breaks.next(s)
		if !e.word(s[:n]) || n == len(s) {
			return e.more()
		}
		s = s[n:]
	}
}

// word merges one word.
func (e *encoder) word(s string) bool {
	e.out = e.t.model.appendLong(e.out, s, e.limit, e.scratch)
	return e.more() && !e.isStopped()
}

// wordsPerLook is how many words are encoded between two looks at done.
const wordsPerLook = 1024

// isStopped reports whether nobody wants the ids any more.
func (e *encoder) isStopped() bool {
	if e.words++; e.done == nil || e.words%wordsPerLook != 0 {
		return false
	}
	select {
	case <-e.done:
		e.limit = 1 // more says no from now on
		return true
	default:
		return false
	}
}

// wordBreaks cuts words further, before marks of white space that no token
// joins to what stands before: there the cut changes no id, and it makes words
// of models that take whole texts as one, short enough to be remembered.
type wordBreaks struct {
	mark  string
	joins map[rune]bool // characters that stand before the mark in some token
}

// next returns the length of the first word of s.
func (b *wordBreaks) next(s string) int {
	for pos := 1; pos < len(s); {
		i := strings.Index(s[pos:], b.mark)
		if i < 0 {
			break
		}
		pos += i
		if r, _ := utf8.DecodeLastRuneInString(s[:pos]); !b.joins[r] {
			return pos
		}
		pos += len(b.mark)
	}
	return len(s)
}
