package tokenizer

import "slices"

// Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	config          Config
	added           *trie // added tokens searched in the text as it is, nil = none
	normalizers     []normalizer
	addedNormalized *trie // added tokens searched in the normalized text, nil = none
	stages          []stage
	model           *bpe
	post            template
	decode          decoding
	// startMayGo: normalizing may drop the first character of a text, and for a
	// stage what is left then begins elsewhere than the text.
	startMayGo bool

	forms    arena            // by id: vocabulary form
	texts    arena            // by id: the bytes it stands for
	special  []bool           // by id
	addedIDs map[string]int32 // by content
	control  []string         // contents of the special tokens, sorted
	// bytesPerToken bounds the bytes of text behind one token, 0 = no bound.
	bytesPerToken int
}

// TokenBytes returns the raw bytes that the token stands for, possibly a part
// of a character; of a control token its content, nil for an id that does not
// exist. The caller owns them.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	s := t.texts.at(id)
	if s == "" {
		return nil
	}
	return []byte(s)
}

// TokenText is TokenBytes as a string, without a copy. It need not be UTF-8.
func (t *Tokenizer) TokenText(id int32) string { return t.texts.at(id) }

// TokenString returns the vocabulary form of the token ("Ġthe"), "" for an id
// that does not exist.
func (t *Tokenizer) TokenString(id int32) string { return t.forms.at(id) }

// ID returns the id of an added token by its content, or of a token of the
// vocabulary by its form.
func (t *Tokenizer) ID(content string) (int32, bool) {
	if id, ok := t.addedIDs[content]; ok {
		return id, true
	}
	id := t.model.vocab.find(content)
	return id, id >= 0
}

// MaxBytes returns the most bytes of text that numTokens tokens can stand for, 0 if
// there is no bound.
func (t *Tokenizer) MaxBytes(numTokens int) int { return numTokens * t.bytesPerToken }

// VocabSize returns the highest id + 1.
func (t *Tokenizer) VocabSize() int { return len(t.special) }

// IsSpecial reports whether id is a control token: an added token that is
// "special".
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.special) && t.special[id]
}

// ControlTokens returns the contents of the control tokens, sorted.
func (t *Tokenizer) ControlTokens() []string { return slices.Clone(t.control) }

// Config returns the configuration that was given to New.
func (t *Tokenizer) Config() Config { return t.config }
