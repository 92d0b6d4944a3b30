package tokenizer

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stage is one pre-tokenizer. It cuts a text into pieces and hands each, in
// order, to the stages from number next on, as long as those want more.
type stage interface {
	split(e *encoder, next int, s string) (more bool)
}

// preTokenizerJSON is any member of pre_tokenizer.
type preTokenizerJSON struct {
	Type             string            `json:"type"`
	Pretokenizers    []json.RawMessage `json:"pretokenizers"`     // Sequence
	AddPrefixSpace   *bool             `json:"add_prefix_space"`  // ByteLevel
	UseRegex         *bool             `json:"use_regex"`         // ByteLevel; nil = true
	Pattern          *patternJSON      `json:"pattern"`           // Split
	Behavior         string            `json:"behavior"`          // Split
	Invert           bool              `json:"invert"`            // Split
	IndividualDigits bool              `json:"individual_digits"` // Digits
	Replacement      string            `json:"replacement"`       // Metaspace
	PrependScheme    *string           `json:"prepend_scheme"`    // Metaspace; nil = always
	MetaspaceSplit   *bool             `json:"split"`             // Metaspace; nil = true
}

// preTokenizer is the whole chain.
type preTokenizer struct {
	stages    []stage
	byteLevel bool // the last stage turns text into bytes
	drops     bool // a stage may drop text
}

// parse appends the stages of b in order.
func (p *preTokenizer) parse(b json.RawMessage, part string, depth int) error {
	if isNull(b) {
		return nil
	}
	var j preTokenizerJSON
	if err := decodeJSON(b, tokenizerName, part, &j); err != nil {
		return err
	}
	if p.byteLevel {
		return unsupported(part, "a pre-tokenizer after ByteLevel")
	}
	switch j.Type {
	case "Sequence":
		if err := checkSequence(part, len(j.Pretokenizers), depth); err != nil {
			return err
		}
		for i, m := range j.Pretokenizers {
			if err := p.parse(m, part+".pretokenizers["+strconv.Itoa(i)+"]", depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		p.byteLevel = true
		if j.AddPrefixSpace == nil || *j.AddPrefixSpace {
			p.stages = append(p.stages, prefixSpace{})
		}
		if j.UseRegex == nil || *j.UseRegex {
			p.stages = append(p.stages, scanStage{gpt2Scanner{newClasses()}})
		}
		return nil
	case "Split":
		return p.parseSplit(&j, part)
	case "Digits":
		behavior := contiguous
		if j.IndividualDigits {
			behavior = isolated
		}
		p.stages = append(p.stages, matchStage{digitMatcher{newClasses()}, behavior, false})
		return nil
	case "WhitespaceSplit":
		p.drops = true
		p.stages = append(p.stages, matchStage{spaceMatcher{}, removed, false})
		return nil
	case "Metaspace":
		return p.parseMetaspace(&j, part)
	}
	return unsupported(part, "pre-tokenizer type %q", clip(j.Type))
}

func (p *preTokenizer) parseSplit(j *preTokenizerJSON, part string) error {
	if err := j.Pattern.check(part + ".pattern"); err != nil {
		return err
	}
	behavior, ok := behaviors[j.Behavior]
	if !ok {
		return invalid(part+".behavior", "%q is not one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous", clip(j.Behavior))
	}
	p.drops = p.drops || behavior == removed
	if j.Pattern.String != nil {
		p.stages = append(p.stages, matchStage{literalMatcher(*j.Pattern.String), behavior, j.Invert})
		return nil
	}
	if sc := knownScanner(*j.Pattern.Regex); sc != nil && behavior == isolated {
		p.stages = append(p.stages, scanStage{sc})
		return nil
	}
	st, err := newRegexStage(*j.Pattern.Regex, behavior, j.Invert)
	if err != nil {
		return invalid(part+".pattern.Regex", "%q cannot be compiled: %v", clip(*j.Pattern.Regex), err)
	}
	p.stages = append(p.stages, st)
	return nil
}

func (p *preTokenizer) parseMetaspace(j *preTokenizerJSON, part string) error {
	m, err := newMetaspace(j.Replacement, j.PrependScheme, j.AddPrefixSpace, part)
	if err != nil {
		return err
	}
	p.stages = append(p.stages, m)
	if j.MetaspaceSplit == nil || *j.MetaspaceSplit {
		p.stages = append(p.stages, matchStage{literalMatcher(j.Replacement), mergedWithNext, false})
	}
	return nil
}

// newMetaspace checks the fields that pre-tokenizer and decoder share.
func newMetaspace(mark string, scheme *string, addPrefixSpace *bool, part string) (metaspace, error) {
	if utf8.RuneCountInString(mark) != 1 {
		return metaspace{}, invalid(part+".replacement", "%q must be one character", clip(mark))
	}
	m := metaspace{mark: mark, scheme: "always"}
	switch {
	case scheme != nil:
		m.scheme = *scheme
	case addPrefixSpace != nil && !*addPrefixSpace: // the older form of the same field
		m.scheme = "never"
	}
	switch m.scheme {
	case "always", "first", "never":
		return m, nil
	}
	return metaspace{}, invalid(part+".prepend_scheme", "%q is not one of always, first, never", clip(m.scheme))
}

// scanner finds the end of the first piece of a text that is not empty.
type scanner interface {
	next(s string) int
}

// scanStage cuts text with a scanner of a known pattern that covers all text.
type scanStage struct{ scanner scanner }

func (st scanStage) split(e *encoder, next int, s string) bool {
	for len(s) > 0 {
		n := st.scanner.next(s)
		if !e.piece(next, s[:n]) {
			return false
		}
		e.atStart = false
		s = s[n:]
	}
	return true
}

// prefixSpace puts a blank before a text that does not begin with one.
type prefixSpace struct{}

func (prefixSpace) split(e *encoder, next int, s string) bool {
	if !strings.HasPrefix(s, " ") {
		s = " " + s
	}
	return e.piece(next, s)
}

// metaspace writes blanks as a mark and puts one before the text.
type metaspace struct{ mark, scheme string }

func (m metaspace) split(e *encoder, next int, s string) bool {
	s = strings.ReplaceAll(s, " ", m.mark)
	prepend := m.scheme == "always" || m.scheme == "first" && e.atStart
	if prepend && !strings.HasPrefix(s, m.mark) {
		s = m.mark + s
	}
	return e.piece(next, s)
}

// matcher finds the first match in s at or after from; start < 0 = none.
type matcher interface {
	find(s string, from int) (start, end int)
}

type literalMatcher string

func (m literalMatcher) find(s string, from int) (start, end int) {
	i := strings.Index(s[from:], string(m))
	if i < 0 {
		return -1, -1
	}
	return from + i, from + i + len(m)
}

// spaceMatcher finds single characters of white space.
type spaceMatcher struct{}

func (spaceMatcher) find(s string, from int) (start, end int) {
	i := strings.IndexFunc(s[from:], unicode.IsSpace)
	if i < 0 {
		return -1, -1
	}
	_, n := utf8.DecodeRuneInString(s[from+i:])
	return from + i, from + i + n
}

// digitMatcher finds single characters of category N.
type digitMatcher struct{ classes *classes }

func (m digitMatcher) find(s string, from int) (start, end int) {
	for i := from; i < len(s); {
		c, n := m.classes.at(s, i)
		if c&classN != 0 {
			return i, i + n
		}
		i += n
	}
	return -1, -1
}

// matchStage cuts text around the matches of a matcher.
type matchStage struct {
	matcher  matcher
	behavior behavior
	invert   bool
}

func (st matchStage) split(e *encoder, next int, s string) bool {
	c := cutter{e: e, next: next, s: s, behavior: st.behavior, invert: st.invert}
	for {
		start, end := st.matcher.find(s, c.pos)
		if start < 0 {
			return c.finish()
		}
		if !c.match(start, end) {
			return false
		}
	}
}

// knownScanner returns the hand-written scanner for a pattern, or nil.
func knownScanner(pattern string) scanner {
	const (
		contraction = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
		cl100kTail  = ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		cl100kHead  = contraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|`
		upper       = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
		lower       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
		o200kTail   = ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		prefix      = `[^\r\n\p{L}\p{N}]?`
	)
	switch pattern {
	case `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:
		return gpt2Scanner{newClasses()}
	case cl100kHead + `\p{N}{1,3}|` + cl100kTail: // Llama 3, cl100k
		return cl100kScanner{newClasses(), 3}
	case cl100kHead + `\p{N}|` + cl100kTail: // Qwen 2 to 3
		return cl100kScanner{newClasses(), 1}
	case prefix + upper + `*` + lower + `+` + contraction + `?|` + prefix + upper + `+` + lower + `*` + contraction + `?|\p{N}{1,3}|` + o200kTail: // o200k, gpt-oss, Llama 4
		return o200kScanner{newClasses(), 3, true}
	case prefix + upper + `*` + lower + `+|` + prefix + upper + `+` + lower + `*|\p{N}|` + o200kTail: // Mistral's Tekken
		return o200kScanner{newClasses(), 1, false}
	}
	return nil
}
