package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

const (
	maxDepth  = 100  // nesting of arrays and objects in a body
	maxFields = 4096 // fields of one object, unknown ones included
	maxEcho   = 64   // bytes of a client's value repeated in an error
)

// checkBody accepts what the scanners below may then walk without checks: JSON
// in UTF-8 of bounded depth. Depth is counted first, before anything recurses.
func checkBody(body []byte) *infer.Error {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return infer.Errorf(infer.CodeMalformed, "", "The body is empty; a JSON object is required")
	}
	if !utf8.Valid(body) {
		return infer.Errorf(infer.CodeMalformed, "", "The body is not valid UTF-8")
	}
	if depth(body) > maxDepth {
		return infer.Errorf(infer.CodeMalformed, "", "The body nests deeper than %d levels", maxDepth)
	}
	if json.Valid(body) {
		return nil
	}
	var syntax *json.SyntaxError
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); errors.As(err, &syntax) {
		return infer.Errorf(infer.CodeMalformed, "", "The body is not valid JSON: %s at byte %d", syntax.Error(), syntax.Offset)
	}
	return infer.Errorf(infer.CodeMalformed, "", "The body is not valid JSON")
}

// depth returns the deepest nesting of b, strings skipped. b may be any bytes.
func depth(b []byte) int {
	deepest, now := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		}
	}
	return deepest
}

// skipString returns the index after the string that starts at b[i], or len(b).
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the value that starts at b[i] of valid JSON.
func skipValue(b []byte, i int) int {
	nested := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			nested++
			i++
		case '}', ']':
			nested--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default:
			for i < len(b) && !endsScalar(b[i]) {
				i++
			}
		}
		if nested == 0 {
			return i
		}
	}
	return i
}

// endsScalar: a number, true, false or null stops before c.
func endsScalar(c byte) bool {
	switch c {
	case ',', ':', ']', '}', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// members iterates over the members of a valid JSON object, in order; values
// are slices of raw.
func members(raw []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		i := skipSpace(raw, 0) + 1
		for {
			i = skipSpace(raw, i)
			if i >= len(raw) || raw[i] == '}' {
				return
			}
			end := skipString(raw, i)
			key := unquote(raw[i:end])
			i = skipSpace(raw, skipSpace(raw, end)+1)
			end = skipValue(raw, i)
			if !yield(key, raw[i:end:end]) {
				return
			}
			if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
				i++
			}
		}
	}
}

// elements iterates over the elements of a valid JSON array; values are slices of raw.
func elements(raw []byte) iter.Seq2[int, json.RawMessage] {
	return func(yield func(int, json.RawMessage) bool) {
		i := skipSpace(raw, 0) + 1
		for n := 0; ; n++ {
			i = skipSpace(raw, i)
			if i >= len(raw) || raw[i] == ']' {
				return
			}
			end := skipValue(raw, i)
			if !yield(n, raw[i:end:end]) {
				return
			}
			if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
				i++
			}
		}
	}
}

// unquote decodes a valid JSON string; lone surrogates become U+FFFD.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return ""
	}
	return s
}

// kind names a valid JSON value's type for errors.
func kind(raw []byte) string {
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "an array"
	case raw[0] == '"':
		return "a string"
	case raw[0] == 't', raw[0] == 'f':
		return "a boolean"
	case raw[0] == 'n':
		return "null"
	}
	return "a number"
}

// excerpt cuts a client's value for an error message, at a character's border.
func excerpt(s string) string {
	if len(s) <= maxEcho {
		return s
	}
	end := maxEcho
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
