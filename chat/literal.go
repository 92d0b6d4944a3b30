package chat

import (
	"slices"

	"github.com/troupe-llm/troupe/chat/jinja"
	"github.com/troupe-llm/troupe/infer"
)

// literalSpans returns where text spells a control token with at least one byte
// that came from a client, overlapping finds merged. tokens is sorted. The token may lie within one
// client string, arise where two meet, or be completed by text of the template.
func literalSpans(text jinja.Text, tokens []string) []infer.Span {
	client := text.ClientSpans()
	if len(client) == 0 || len(tokens) == 0 {
		return nil
	}
	longest := 0
	var starts [256]bool // bytes with which a token begins
	for _, t := range tokens {
		if t != "" {
			longest, starts[t[0]] = max(longest, len(t)), true
		}
	}
	var out []infer.Span
	s, next := text.String(), 0
	for _, c := range client {
		// A token that touches this span starts at most longest-1 bytes before it.
		for i := max(next, c.Start-longest+1); i < c.End; i++ {
			if !starts[s[i]] {
				continue
			}
			if end := i + longestAt(s[i:], tokens); end > c.Start && end > i {
				out = mergeSpan(out, infer.Span{Start: i, End: end})
			}
		}
		next = c.End
	}
	return out
}

// mergeSpan appends a span that does not start before the last one does.
func mergeSpan(spans []infer.Span, s infer.Span) []infer.Span {
	if n := len(spans); n > 0 && s.Start < spans[n-1].End {
		spans[n-1].End = max(spans[n-1].End, s.End)
		return spans
	}
	return append(spans, s)
}

// longestAt returns the length of the longest of the sorted tokens that s starts
// with, 0 if none. It narrows the range of tokens byte by byte, so that text which
// only looks like tokens costs no more than its own length.
func longestAt(s string, tokens []string) int {
	best := 0
	for n := 0; n < len(s) && len(tokens) > 0; n++ {
		from, _ := slices.BinarySearchFunc(tokens, s[n], func(t string, c byte) int { return byteAt(t, n) - int(c) })
		tokens = tokens[from:]
		to, _ := slices.BinarySearchFunc(tokens, int(s[n])+1, func(t string, c int) int { return byteAt(t, n) - c })
		tokens = tokens[:to]
		if len(tokens) > 0 && len(tokens[0]) == n+1 {
			best = n + 1
		}
	}
	return best
}

// byteAt returns byte n of a token, -1 past its end: the order of strings.
func byteAt(t string, n int) int {
	if n >= len(t) {
		return -1
	}
	return int(t[n])
}
