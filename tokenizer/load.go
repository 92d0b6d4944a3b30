package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/troupe-llm/troupe/infer"
)

const tokenizerName = "tokenizer.json"

// fileJSON is the file as far as it is read. Truncation and padding are
// for training batches and do not apply here.
type fileJSON struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         *modelJSON      `json:"model"`
}

// Types of models.
const (
	typeBPE     = "BPE"
	typeUnigram = "Unigram"
	// typeScoredBPE is a type of our own, for the vocabularies of GGUF files: BPE
	// without merges, but with the score of every token, as SentencePiece has it.
	typeScoredBPE = "SentencePieceBPE"
)

// modelJSON is the model.
type modelJSON struct {
	Type                    string     `json:"type"` // old files have none
	Vocab                   vocabJSON  `json:"vocab"`
	Merges                  mergesJSON `json:"merges"`
	UnkToken                string     `json:"unk_token"`
	ContinuingSubwordPrefix string     `json:"continuing_subword_prefix"`
	EndOfWordSuffix         string     `json:"end_of_word_suffix"`
	Dropout                 float64    `json:"dropout"`
	FuseUnk                 bool       `json:"fuse_unk"`
	ByteFallback            bool       `json:"byte_fallback"`
	IgnoreMerges            bool       `json:"ignore_merges"`
	UnkID                   *int       `json:"unk_id"` // Unigram
	Scores                  []float64  `json:"scores"` // SentencePieceBPE: by id
}

// New builds a tokenizer from the bytes of tokenizer.json, which it does not
// keep. The error is an *infer.Error that names the part of the file and the
// value at fault: CodeMalformed for what is not JSON of the right types,
// CodeInvalid for values that contradict each other, CodeNotImplemented for
// what is not supported and CodeTooLarge for what is over a limit.
func New(tokenizerJSON []byte, cfg Config) (*Tokenizer, error) {
	if n := len(tokenizerJSON); n > maxFileBytes {
		return nil, infer.Errorf(infer.CodeTooLarge, "", "%s: %d bytes, the limit is %d", tokenizerName, n, maxFileBytes)
	}
	if !utf8.Valid(tokenizerJSON) {
		return nil, infer.Errorf(infer.CodeMalformed, "", "%s: is not UTF-8", tokenizerName)
	}
	var f fileJSON
	if err := decodeJSON(tokenizerJSON, tokenizerName, "", &f); err != nil {
		return nil, err
	}
	if f.Model == nil {
		return nil, invalid("model", "is missing")
	}
	l := loader{file: &f, model: f.Model, cfg: cfg, t: &Tokenizer{}}
	for _, step := range []func() error{l.checkModel, l.parseComponents, l.collectTokens, l.buildModel, l.buildAdded, l.buildTemplate} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	l.finish()
	return l.t, nil
}

// loader turns the file into a Tokenizer, step by step. The tokenizer is an
// allocation of its own: a pointer into the loader would keep the file alive.
type loader struct {
	file  *fileJSON
	model *modelJSON
	cfg   Config

	normalizers []normalizer
	pre         preTokenizer
	post        template
	decode      decoding

	forms   []string // by id, "" = no such token
	inVocab []bool   // by id: a token of the model, not only an added one
	t       *Tokenizer
}

// checkModel refuses what the merging cannot do.
func (l *loader) checkModel() error {
	m := l.model
	switch {
	case m.Type != "" && m.Type != typeBPE && m.Type != typeUnigram && m.Type != typeScoredBPE:
		return unsupported("model.type", "%q", clip(m.Type))
	case m.ContinuingSubwordPrefix != "":
		return unsupported("model.continuing_subword_prefix", "%q", clip(m.ContinuingSubwordPrefix))
	case m.EndOfWordSuffix != "":
		return unsupported("model.end_of_word_suffix", "%q", clip(m.EndOfWordSuffix))
	case m.Dropout != 0:
		return unsupported("model.dropout", "%v (encoding must not be random)", m.Dropout)
	case m.Type == typeUnigram && !m.Vocab.list && m.Vocab.err == nil:
		return invalid("model.vocab", "must be a list of [token, score] with type Unigram")
	case m.Type != typeUnigram && m.Vocab.list:
		return invalid("model.vocab", "must be an object of token to id, not a list")
	case m.Vocab.err != nil:
		return m.Vocab.err
	case m.Merges.err != nil:
		return m.Merges.err
	case len(m.Vocab.entries) == 0:
		return invalid("model.vocab", "is missing or empty")
	}
	if err := l.checkScores(); err != nil {
		return err
	}
	return checkAdded(l.file.AddedTokens)
}

// parseComponents reads the parts around the model.
func (l *loader) parseComponents() (err error) {
	if l.normalizers, err = parseNormalizer(nil, l.file.Normalizer, "normalizer", 0); err != nil {
		return err
	}
	if err := checkGrowth("normalizer", l.normalizers); err != nil {
		return err
	}
	if err := l.pre.parse(l.file.PreTokenizer, "pre_tokenizer", 0); err != nil {
		return err
	}
	if err := l.post.parse(l.file.PostProcessor, "post_processor", 0); err != nil {
		return err
	}
	if err := l.decode.parse(l.file.Decoder, "decoder", 0); err != nil {
		return err
	}
	if err := checkGrowth("decoder", l.decode.replaces); err != nil {
		return err
	}
	switch {
	case l.pre.byteLevel != l.decode.byteLevel:
		return unsupported("decoder", "ByteLevel in only one of pre_tokenizer and decoder")
	case l.pre.byteLevel && l.scored():
		return unsupported("pre_tokenizer", "ByteLevel with a model of type %q", l.model.Type)
	}
	return nil
}

// collectTokens puts the model's tokens and the added ones into one table.
func (l *loader) collectTokens() error {
	highest := int32(0)
	for _, e := range l.model.Vocab.entries {
		highest = max(highest, e.id)
	}
	for _, a := range l.file.AddedTokens {
		highest = max(highest, *a.ID)
	}
	l.forms, l.inVocab = make([]string, highest+1), make([]bool, highest+1)
	for _, e := range l.model.Vocab.entries {
		if e.form == "" {
			return invalid("model.vocab", "the token with id %d is empty", e.id)
		}
		if other := l.forms[e.id]; other != "" {
			return invalid("model.vocab", "%q and %q have the same id %d", clip(other), clip(e.form), e.id)
		}
		l.forms[e.id], l.inVocab[e.id] = e.form, true
	}
	for i, a := range l.file.AddedTokens {
		if form := l.forms[*a.ID]; form != "" && form != a.Content {
			return invalid("added_tokens["+strconv.Itoa(i)+"]", "%q has id %d, which is %q in model.vocab", clip(a.Content), *a.ID, clip(form))
		}
		l.forms[*a.ID] = a.Content
	}
	l.t.forms = newArena(len(l.forms), func(id int32) string { return l.forms[id] })
	return nil
}

// buildModel indexes the vocabulary and the merges.
func (l *loader) buildModel() error {
	vocab := newIndex(&l.t.forms, len(l.model.Vocab.entries))
	m := &bpe{
		vocab: vocab, byteLevel: l.pre.byteLevel, byteFallback: l.model.ByteFallback, unk: -1,
		fuseUnk: l.model.FuseUnk, ignoreMerges: l.model.IgnoreMerges,
		cache: newWordCache(cacheSlots), maxPart: maxPart, partGuard: partGuard,
	}
	for id, form := range l.forms {
		if !l.inVocab[id] {
			continue
		}
		if other := vocab.add(int32(id)); other >= 0 {
			return invalid("model.vocab", "%q has two ids, %d and %d", clip(form), other, id)
		}
		m.longest = max(m.longest, len(form))
	}
	for i, a := range l.file.AddedTokens {
		if id := vocab.find(a.Content); id >= 0 && id != *a.ID {
			return invalid("added_tokens["+strconv.Itoa(i)+"]", "%q has id %d, but %d in model.vocab", clip(a.Content), *a.ID, id)
		}
	}
	l.t.model = m
	if err := l.checkCoverage(m); err != nil {
		return err
	}
	return l.buildSegmenter(m)
}

// checkCoverage makes sure that every text has ids: a reference that finds none
// for a character drops it in silence.
func (l *loader) checkCoverage(m *bpe) error {
	switch {
	case l.model.Type == typeUnigram && l.model.UnkID != nil:
		m.unk = int32(*l.model.UnkID)
	case l.model.UnkToken != "":
		m.unk = m.vocab.find(l.model.UnkToken)
	}
	for b := range 256 {
		form := string(alphabet.runeOf[b])
		if !m.byteLevel {
			form = fmt.Sprintf("<0x%02X>", b)
		}
		m.byteID[b] = m.vocab.find(form)
		switch {
		case m.byteID[b] >= 0 || !m.byteLevel && !m.byteFallback:
		case m.byteLevel && m.unk >= 0:
			m.byteID[b] = m.unk
		default:
			return invalid("model.vocab", "has no token %q for the byte %#02x", form, b)
		}
	}
	if !m.byteLevel && !m.byteFallback && m.unk < 0 {
		return invalid("model", "has neither byte_fallback nor an unk_id or unk_token that is in model.vocab (%q): not every text could be encoded", clip(l.model.UnkToken))
	}
	return nil
}

// buildAdded builds the search for added tokens and the tables by id.
func (l *loader) buildAdded() error {
	t := l.t
	t.special, t.addedIDs = make([]bool, len(l.forms)), make(map[string]int32, len(l.file.AddedTokens))
	var raw, normalized []*addedToken
	var rawPatterns, patterns []string
	for i := range l.file.AddedTokens {
		a := &l.file.AddedTokens[i]
		t.addedIDs[a.Content] = *a.ID
		if a.Special {
			t.special[*a.ID] = true
			t.control = append(t.control, a.Content)
		}
		if !a.Normalized {
			raw, rawPatterns = append(raw, a), append(rawPatterns, a.Content)
			continue
		}
		pattern, _ := normalizeAll(l.normalizers, a.Content, nil)
		if pattern == "" {
			return invalid("added_tokens["+strconv.Itoa(i)+"]", "nothing is left of %q by the normalizer", clip(a.Content))
		}
		normalized, patterns = append(normalized, a), append(patterns, pattern)
	}
	t.added, t.addedNormalized = newTrie(raw, rawPatterns), newTrie(normalized, patterns)
	return nil
}

// buildTemplate settles which ids the post-processor adds.
func (l *loader) buildTemplate() error {
	if err := l.post.overrule(&l.cfg, l.t.ID); err != nil {
		return err
	}
	for _, id := range append(l.post.prefix[:len(l.post.prefix):len(l.post.prefix)], l.post.suffix...) {
		if id < 0 || int(id) >= len(l.forms) || l.forms[id] == "" {
			return invalid("post_processor", "adds the id %d, which is no token", id)
		}
	}
	return nil
}

// finish fills in what follows from the rest.
func (l *loader) finish() {
	t := l.t
	t.config, t.normalizers, t.stages, t.post, t.decode = l.cfg, l.normalizers, l.pre.stages, l.post, l.decode
	t.texts = newArena(len(l.forms), l.text)
	t.bytesPerToken = l.bytesPerToken()
	t.startMayGo = l.startMayGo()
	// A Unigram's sums over longer texts are rounded, so that cutting these may
	// turn the scales between ways that are as good as each other.
	if m := t.model; !m.byteLevel && !m.ignoreMerges && l.model.Type != typeUnigram && m.vocab.find(spaceMark) >= 0 {
		m.breaks = l.wordBreaks()
	}
	slices.Sort(t.control)
}

// text returns the bytes that a token stands for.
func (l *loader) text(id int32) string {
	if l.t.special[id] || l.decode.byteLevel && !l.inVocab[id] {
		return l.forms[id]
	}
	return l.decode.text(l.forms[id])
}

// bytesPerToken returns a bound on the bytes of text that one token can cover,
// or 0 if there is none.
func (l *loader) bytesPerToken() int {
	if l.pre.drops || !l.model.ByteFallback && !l.pre.byteLevel {
		return 0
	}
	longest := 1
	for id, form := range l.forms {
		longest = max(longest, len(form), len(l.t.texts.at(int32(id))))
	}
	for _, n := range l.normalizers {
		switch n := n.(type) {
		case unicodeForm:
			longest *= 8 // at most 4 characters of 4 bytes compose to one of 2 bytes
		case replace:
			if len(n.new) < len(n.old) {
				return 0
			}
		case prepend:
		default: // may leave out text
			return 0
		}
	}
	for _, a := range l.file.AddedTokens {
		if a.LStrip || a.RStrip {
			return 0
		}
	}
	return longest
}

// spaceMark is how vocabularies made by SentencePiece write a blank.
const spaceMark = "▁"

// wordBreaks finds the characters that some token has before the mark.
func (l *loader) wordBreaks() *wordBreaks {
	b := &wordBreaks{mark: spaceMark, joins: map[rune]bool{}}
	for id, form := range l.forms {
		if !l.inVocab[id] {
			continue
		}
		before := rune(-1)
		for _, r := range form {
			if string(r) == spaceMark && before >= 0 {
				b.joins[before] = true
			}
			before = r
		}
	}
	return b
}
