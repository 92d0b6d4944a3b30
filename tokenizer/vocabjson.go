package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The vocabulary and the merges are nearly all of a tokenizer.json. They are
// read by hand, as encoding/json takes seconds and a map of garbage for them.
// encoding/json has checked the syntax before it hands the bytes over.

// vocabEntry is one "form": id.
type vocabEntry struct {
	form string
	id   int32
}

// vocabJSON is model.vocab. What is wrong with it is kept for later: model.type
// comes first, as other types of models have other vocabularies.
type vocabJSON struct {
	entries []vocabEntry
	list    bool      // the file has a list of [token, score]
	scores  []float64 // by id, if list
	err     error
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *vocabJSON) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		v.list = true
		v.entries, v.scores, v.err = parseScored(string(b))
		return nil
	}
	v.entries, v.err = parseVocab(string(b))
	return nil
}

// parseScored reads the vocabulary of a Unigram: [["a", -1.5], …], by id.
func parseScored(text string) ([]vocabEntry, []float64, error) {
	r := jsonReader{text: text, part: "model.vocab"}
	r.take('[')
	var entries []vocabEntry
	var scores []float64
	for n := 0; !r.take(']'); n++ {
		if n >= maxTokens {
			return nil, nil, exceeds(r.part, "number of tokens", n+1, maxTokens)
		}
		r.number = n
		if !r.take('[') {
			return nil, nil, invalid(r.at(), "must be a token and its score, not %s", r.rest())
		}
		form, err := r.str()
		if err != nil {
			return nil, nil, err
		}
		r.take(',')
		score, err := r.score(form)
		if err != nil {
			return nil, nil, err
		}
		entries, scores = append(entries, vocabEntry{form, int32(n)}), append(scores, score)
		r.take(',')
	}
	return entries, scores, nil
}

// score reads the score of the token form and the end of its entry.
func (r *jsonReader) score(form string) (float64, error) {
	number := r.digits()
	score, err := strconv.ParseFloat(number, 64)
	switch {
	case number == "":
		return 0, invalid(r.at(), "the score of %q must be a number, not %s", clip(form), r.rest())
	case err != nil:
		return 0, invalid(r.at(), "the score of %q is %s, which is beyond all numbers", clip(form), clip(number))
	case !r.take(']'):
		return 0, invalid(r.at(), "must be a token and its score, and nothing more: %s", r.rest())
	}
	return score, nil
}

// digits reads the characters of a number, "" if there is none.
func (r *jsonReader) digits() string {
	r.take(0)
	start := r.pos
	for r.pos < len(r.text) && strings.IndexByte("+-.eE0123456789", r.text[r.pos]) >= 0 {
		r.pos++
	}
	return r.text[start:r.pos]
}

func parseVocab(text string) ([]vocabEntry, error) {
	r := jsonReader{text: text, part: "model.vocab", number: -1}
	if !r.take('{') {
		return nil, invalid(r.part, "must be an object of token to id, not %s", clip(text))
	}
	entries := make([]vocabEntry, 0, min(len(text)/16, maxTokens))
	for !r.take('}') {
		form, err := r.str()
		if err != nil {
			return nil, err
		}
		r.take(':')
		id, err := r.id(form)
		if err != nil {
			return nil, err
		}
		if entries = append(entries, vocabEntry{form, id}); len(entries) > maxTokens {
			return nil, exceeds(r.part, "number of tokens", len(entries), maxTokens)
		}
		r.take(',')
	}
	return entries, nil
}

// mergesJSON is model.merges, in order of rank.
type mergesJSON struct {
	pairs [][2]string
	err   error
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *mergesJSON) UnmarshalJSON(b []byte) error {
	m.pairs, m.err = parseMerges(string(b))
	return nil
}

func parseMerges(text string) ([][2]string, error) {
	const part = "model.merges"
	r := jsonReader{text: text, part: part}
	if !r.take('[') {
		return nil, invalid(part, "must be a list, not %s", clip(text))
	}
	pairs := make([][2]string, 0, min(len(text)/12, maxMerges))
	for n := 0; !r.take(']'); n++ {
		if n >= maxMerges {
			return nil, exceeds(part, "number of merges", n+1, maxMerges)
		}
		r.number = n
		pair, skip, err := r.merge()
		if err != nil {
			return nil, err
		}
		if !skip {
			pairs = append(pairs, pair)
		}
		r.take(',')
	}
	return pairs, nil
}

// merge reads one merge: "a b" or ["a", "b"]. skip is true for the "#version"
// line that old files copied from merges.txt.
func (r *jsonReader) merge() (pair [2]string, skip bool, err error) {
	if r.take('[') {
		k := 0
		for ; !r.take(']'); k++ {
			s, err := r.str()
			if err != nil {
				return pair, false, err
			}
			if k < 2 {
				pair[k] = s
			}
			r.take(',')
		}
		if k != 2 {
			return pair, false, invalid(r.at(), "must have 2 parts, has %d", k)
		}
		return pair, false, nil
	}
	s, err := r.str()
	if err != nil {
		return pair, false, err
	}
	if strings.HasPrefix(s, "#version") {
		return pair, true, nil
	}
	a, b, ok := strings.Cut(s, " ")
	if !ok || strings.Contains(b, " ") {
		return pair, false, invalid(r.at(), "%q must be two tokens with one blank between them", clip(s))
	}
	return [2]string{a, b}, false, nil
}

// jsonReader walks over JSON whose syntax is known to be right.
type jsonReader struct {
	text string
	pos  int
	// For errors: what is read, and the number of its member or -1.
	part   string
	number int
}

// at returns the path of what is being read.
func (r *jsonReader) at() string {
	if r.number < 0 {
		return r.part
	}
	return r.part + "[" + strconv.Itoa(r.number) + "]"
}

// take steps over white space and, if it comes next, over c.
func (r *jsonReader) take(c byte) bool {
	for r.pos < len(r.text) {
		switch b := r.text[r.pos]; b {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			if b == c {
				r.pos++
			}
			return b == c
		}
	}
	return false
}

// rest returns the beginning of what was not read, for errors.
func (r *jsonReader) rest() string { return clip(r.text[r.pos:]) }

// id reads the id of the token form.
func (r *jsonReader) id(form string) (int32, error) {
	number := r.digits()
	if number == "" {
		return 0, invalid(r.at(), "the id of %q must be a number, not %s", clip(form), r.rest())
	}
	id, err := strconv.ParseUint(number, 10, 31)
	if err != nil || id >= maxTokens {
		return 0, invalid(r.at(), "the id of %q is %s, it must be a whole number from 0 to %d", clip(form), clip(number), maxTokens-1)
	}
	return int32(id), nil
}

// str reads a string.
func (r *jsonReader) str() (string, error) {
	if !r.take('"') {
		return "", invalid(r.at(), "must hold strings, not %s", r.rest())
	}
	start, escaped := r.pos, false
	for r.text[r.pos] != '"' {
		if r.text[r.pos] == '\\' {
			escaped = true
			r.pos++
		}
		r.pos++
	}
	s := r.text[start:r.pos]
	r.pos++
	if escaped {
		var ok bool
		if s, ok = unescape(s); !ok {
			return "", invalid(r.at(), "%s has half of a surrogate pair", clip(r.text[start:r.pos]))
		}
	}
	if len(s) > maxTokenBytes {
		return "", exceeds(r.at(), "length in bytes of "+strconv.Quote(clip(s)), len(s), maxTokenBytes)
	}
	return s, nil
}

// unescape resolves the escapes of a JSON string; ok is false for a lone
// surrogate, which no text can contain.
func unescape(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if at := strings.IndexByte(`"\/bfnrt`, s[i]); at >= 0 {
			out = append(out, "\"\\/\b\f\n\r\t"[at])
			continue
		}
		r := hex4(s[i+1:])
		i += 4
		if utf16.IsSurrogate(r) {
			if len(s) < i+7 || s[i+1:i+3] != `\u` {
				return "", false
			}
			if r = utf16.DecodeRune(r, hex4(s[i+3:])); r == utf8.RuneError {
				return "", false
			}
			i += 6
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), true
}

// hex4 reads the four digits of a \u escape.
func hex4(s string) rune {
	n, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
