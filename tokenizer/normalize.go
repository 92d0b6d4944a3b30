package tokenizer

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/troupe-llm/troupe/infer"
)

// normalizer rewrites text before it is split into words.
type normalizer interface {
	// normalize returns the new text and where the given ranges of s lie in it.
	// The ranges are sorted; a range that does not map exactly grows.
	normalize(s string, spans []infer.Span) (string, []infer.Span)
}

// normalizerJSON is any member of normalizer.
type normalizerJSON struct {
	Type        string            `json:"type"`
	Normalizers []json.RawMessage `json:"normalizers"` // Sequence
	Prepend     string            `json:"prepend"`     // Prepend
	Pattern     *patternJSON      `json:"pattern"`     // Replace
	Content     string            `json:"content"`     // Replace
	StripLeft   bool              `json:"strip_left"`  // Strip
	StripRight  bool              `json:"strip_right"` // Strip
	Charsmap    string            `json:"precompiled_charsmap"`
}

// patternJSON is a literal text or a regular expression.
type patternJSON struct {
	String *string
	Regex  *string
}

// check reports a pattern that is neither or both, or too long.
func (p *patternJSON) check(part string) error {
	if p == nil || (p.String == nil) == (p.Regex == nil) {
		return invalid(part, "must have either String or Regex")
	}
	text := p.String
	if text == nil {
		text = p.Regex
	}
	switch {
	case *text == "":
		return invalid(part, "is empty")
	case len(*text) > maxPatternBytes:
		return exceeds(part, "length in bytes", len(*text), maxPatternBytes)
	}
	return nil
}

// isNull reports whether a component is absent.
func isNull(b json.RawMessage) bool { return len(b) == 0 || string(b) == "null" }

// checkSequence bounds the members and the depth of a Sequence.
func checkSequence(part string, members, depth int) error {
	if members > maxComponents {
		return exceeds(part, "number of members", members, maxComponents)
	}
	if depth >= maxNesting {
		return exceeds(part, "depth of Sequences", depth+1, maxNesting)
	}
	return nil
}

// parseNormalizer appends the normalizers of b in order.
func parseNormalizer(out []normalizer, b json.RawMessage, part string, depth int) ([]normalizer, error) {
	if isNull(b) {
		return out, nil
	}
	var j normalizerJSON
	if err := decodeJSON(b, tokenizerName, part, &j); err != nil {
		return nil, err
	}
	switch j.Type {
	case "Sequence":
		if err := checkSequence(part, len(j.Normalizers), depth); err != nil {
			return nil, err
		}
		for i, m := range j.Normalizers {
			var err error
			if out, err = parseNormalizer(out, m, part+".normalizers["+strconv.Itoa(i)+"]", depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case "NFC":
		return append(out, unicodeForm(norm.NFC)), nil
	case "NFD":
		return append(out, unicodeForm(norm.NFD)), nil
	case "NFKC":
		return append(out, unicodeForm(norm.NFKC)), nil
	case "NFKD":
		return append(out, unicodeForm(norm.NFKD)), nil
	case "Prepend":
		return append(out, prepend(j.Prepend)), nil
	case "Replace":
		if err := j.Pattern.check(part + ".pattern"); err != nil {
			return nil, err
		}
		if j.Pattern.Regex != nil {
			m := knownMatcher(*j.Pattern.Regex)
			if m == nil {
				return nil, unsupported(part+".pattern", "a Regex (%q)", clip(*j.Pattern.Regex))
			}
			return append(out, replaceMatches{m, j.Content}), nil
		}
		return append(out, replace{old: *j.Pattern.String, new: j.Content}), nil
	case "Strip":
		return append(out, strip{left: j.StripLeft, right: j.StripRight}), nil
	case "Lowercase":
		return append(out, charMap(lowercase)), nil
	case "StripAccents":
		return append(out, charMap(stripAccents)), nil
	case "Precompiled":
		p, err := parsePrecompiled(j.Charsmap, part+".precompiled_charsmap")
		if err != nil || p == nil {
			return out, err
		}
		return append(out, p), nil
	}
	return nil, unsupported(part, "normalizer type %q", clip(j.Type))
}

// checkGrowth bounds how many times longer normalizers can make a text: a chain of
// replacements could turn a prompt into more than the memory holds.
func checkGrowth[N normalizer](part string, all []N) *infer.Error {
	growth := 1
	for _, n := range all {
		switch n := normalizer(n).(type) {
		case prepend:
			growth *= 1 + len(n) // of a text of one byte
		case replace:
			growth *= max(1, (len(n.new)+len(n.old)-1)/len(n.old))
		case replaceMatches:
			growth *= max(1, len(n.new)) // of a match of one byte
		case charMap:
			growth *= maxCharGrowth
		case *precompiled:
			growth *= n.growth
		}
		if growth > maxGrowth {
			return exceeds(part, "growth of a text by what is replaced and prepended", growth, maxGrowth)
		}
	}
	return nil
}

// normalizeAll applies the normalizers in order.
func normalizeAll(all []normalizer, s string, spans []infer.Span) (string, []infer.Span) {
	for _, n := range all {
		s, spans = n.normalize(s, spans)
	}
	return s, spans
}

// prepend puts a text before every text that is not empty.
type prepend string

func (p prepend) normalize(s string, spans []infer.Span) (string, []infer.Span) {
	if s == "" {
		return s, spans
	}
	moved := slices.Clone(spans)
	for i := range moved {
		moved[i].Start += len(p)
		moved[i].End += len(p)
	}
	return string(p) + s, moved
}

// replace replaces one text by another.
type replace struct{ old, new string }

func (r replace) normalize(s string, spans []infer.Span) (string, []infer.Span) {
	if len(spans) == 0 {
		return strings.ReplaceAll(s, r.old, r.new), spans
	}
	return rewrite(s, spans, func(from int) (start, end int, text string) {
		start, end = literalMatcher(r.old).find(s, from)
		return start, end, r.new
	})
}

// rewrite replaces what next finds: the next s[start:end] at or after from, and
// the text in its place; start < 0 = there is none.
func rewrite(s string, spans []infer.Span, next func(from int) (start, end int, text string)) (string, []infer.Span) {
	start, end, text := next(0)
	if start < 0 {
		return s, spans
	}
	var b strings.Builder
	moved := make([]infer.Span, len(spans))
	edges := spanEdges{spans: spans, moved: moved}
	pos := 0
	for ; start >= 0; start, end, text = next(pos) {
		edges.copied(pos, start, b.Len())
		b.WriteString(s[pos:start])
		edges.replaced(start, end, b.Len(), len(text))
		b.WriteString(text)
		pos = end
	}
	edges.copied(pos, len(s), b.Len())
	b.WriteString(s[pos:])
	return b.String(), moved
}

// spanEdges maps the edges of sorted ranges while a text is rewritten from left
// to right.
type spanEdges struct {
	spans, moved []infer.Span
	start, end   int // edges mapped so far
}

// copied maps the edges within s[from:to], which is written unchanged at out.
func (e *spanEdges) copied(from, to, out int) {
	for ; e.start < len(e.spans) && e.spans[e.start].Start < to; e.start++ {
		e.moved[e.start].Start = out + e.spans[e.start].Start - from
	}
	for ; e.end < len(e.spans) && e.spans[e.end].End <= to; e.end++ {
		e.moved[e.end].End = out + e.spans[e.end].End - from
	}
}

// replaced maps the edges within s[from:to], which becomes size bytes at out:
// to the outer edges of those.
func (e *spanEdges) replaced(from, to, out, size int) {
	for ; e.start < len(e.spans) && e.spans[e.start].Start < to; e.start++ {
		e.moved[e.start].Start = out
	}
	for ; e.end < len(e.spans) && e.spans[e.end].End <= to; e.end++ {
		e.moved[e.end].End = out + size
	}
}
