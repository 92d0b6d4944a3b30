package tokenizer

import "github.com/troupe-llm/troupe/infer"

// Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct{ config Config }

// Config is what tokenizer_config.json says beside the tokenizer itself.
type Config struct {
	BOSToken, EOSToken, PadToken, UNKToken string
	AddBOSToken, AddEOSToken               *bool
	ChatTemplate                           string
	ModelMaxLength                         int
}

// EncodeOptions say how a text is encoded.
type EncodeOptions struct {
	AddSpecialTokens bool         // post-processor template (BOS …)
	Literal          []infer.Span // byte ranges where control tokens are not recognised
	NoControl        bool         // control tokens are nowhere recognised
	Limit            int          // > 0: stop early once more than Limit tokens were produced
}

// ParseConfig reads tokenizer_config.json.
func ParseConfig(b []byte) (Config, error) {
	return Config{}, infer.Errorf(infer.CodeNotImplemented, "", "tokenizer_config.json cannot be read yet")
}

// New builds a tokenizer from tokenizer.json.
func New(tokenizerJSON []byte, cfg Config) (*Tokenizer, error) {
	return nil, infer.Errorf(infer.CodeNotImplemented, "", "tokenizer.json cannot be read yet")
}

// Encode returns the token ids of text.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 { return nil }

// Decode returns the text of ids.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string { return "" }

// NewDecoder returns an incremental decoder.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder { return &Decoder{} }

// Decoder turns ids into text one by one.
type Decoder struct{}

// Push adds an id and returns the text that became complete.
func (d *Decoder) Push(id int32) string { return "" }

// Flush ends the text.
func (d *Decoder) Flush() string { return "" }

// TokenBytes returns the raw bytes that the token stands for.
func (t *Tokenizer) TokenBytes(id int32) []byte { return nil }

// TokenString returns the vocabulary form of the token.
func (t *Tokenizer) TokenString(id int32) string { return "" }

// ID returns the id of a token by its vocabulary form.
func (t *Tokenizer) ID(content string) (int32, bool) { return 0, false }

// VocabSize returns the highest id + 1.
func (t *Tokenizer) VocabSize() int { return 0 }

// IsSpecial reports whether id is a control token.
func (t *Tokenizer) IsSpecial(id int32) bool { return false }

// ControlTokens returns the contents of the control tokens.
func (t *Tokenizer) ControlTokens() []string { return nil }

// Config returns the configuration given to New.
func (t *Tokenizer) Config() Config { return t.config }
