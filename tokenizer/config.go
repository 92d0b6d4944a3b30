package tokenizer

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// Config is what tokenizer_config.json says beside the tokenizer itself. Empty
// strings and nil mean "not given".
type Config struct {
	BOSToken, EOSToken, PadToken, UNKToken string
	// AddBOSToken and AddEOSToken overrule the post-processor of tokenizer.json
	// when given.
	AddBOSToken, AddEOSToken *bool
	ChatTemplate             string // Jinja source; the one named "default" if there are several
	ModelMaxLength           int    // tokens; 0 = no bound given
}

const configFile = "tokenizer_config.json"

// maxConfigBytes bounds tokenizer_config.json (Gemma 3's has 1.2 MB).
const maxConfigBytes = 16 << 20

// tokenText is a token written as a string or as an object with its content.
type tokenText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *tokenText) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var o struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(b, &o)
		*t = tokenText(o.Content)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

// ParseConfig reads tokenizer_config.json. Unknown fields are ignored. The
// error is an *infer.Error that names the field.
func ParseConfig(b []byte) (Config, error) {
	if len(b) > maxConfigBytes {
		return Config{}, infer.Errorf(infer.CodeTooLarge, "", "%s: %d bytes, the limit is %d", configFile, len(b), maxConfigBytes)
	}
	var f struct {
		BOS            tokenText       `json:"bos_token"`
		EOS            tokenText       `json:"eos_token"`
		Pad            tokenText       `json:"pad_token"`
		UNK            tokenText       `json:"unk_token"`
		AddBOS         *bool           `json:"add_bos_token"`
		AddEOS         *bool           `json:"add_eos_token"`
		ChatTemplate   json.RawMessage `json:"chat_template"`
		ModelMaxLength float64         `json:"model_max_length"`
	}
	if err := decodeJSON(b, configFile, "", &f); err != nil {
		return Config{}, err
	}
	template, err := pickTemplate(f.ChatTemplate)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		BOSToken: string(f.BOS), EOSToken: string(f.EOS), PadToken: string(f.Pad), UNKToken: string(f.UNK),
		AddBOSToken: f.AddBOS, AddEOSToken: f.AddEOS, ChatTemplate: template,
	}
	// "No bound" is written as 1e30.
	if n := f.ModelMaxLength; n > 0 && n <= math.MaxInt32 {
		c.ModelMaxLength = int(n)
	}
	return c, nil
}

// pickTemplate returns the chat template: a string, or the entry named
// "default" of a list of named templates, or the only entry.
func pickTemplate(b json.RawMessage) (string, error) {
	const part = "chat_template"
	b = bytes.TrimSpace(b)
	if len(b) == 0 || bytes.Equal(b, []byte("null")) {
		return "", nil
	}
	if b[0] != '[' {
		var s string
		err := decodeJSON(b, configFile, part, &s)
		return s, err
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := decodeJSON(b, configFile, part, &list); err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	if len(list) == 1 {
		return list[0].Template, nil
	}
	return "", infer.Errorf(infer.CodeInvalid, part, "%s: %s: %d templates, none of them is named \"default\"", configFile, part, len(list))
}
