package tokenizer

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// template is what the post-processor puts around the ids of a text.
type template struct{ prefix, suffix []int32 }

// maxTemplate bounds the ids of a template.
const maxTemplate = 64

// processorJSON is any member of post_processor.
type processorJSON struct {
	Type          string            `json:"type"`
	Processors    []json.RawMessage `json:"processors"` // Sequence
	Single        []templateItem    `json:"single"`     // TemplateProcessing
	SpecialTokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"` // TemplateProcessing
}

// templateItem is the place of the text or of a special token.
type templateItem struct {
	SpecialToken *struct {
		ID string `json:"id"` // a key of special_tokens
	}
	Sequence *struct {
		ID string `json:"id"` // "A"
	}
}

// parse puts what b adds around the template so far.
func (t *template) parse(b json.RawMessage, part string, depth int) error {
	if isNull(b) {
		return nil
	}
	var j processorJSON
	if err := decodeJSON(b, tokenizerName, part, &j); err != nil {
		return err
	}
	switch j.Type {
	case "Sequence":
		if err := checkSequence(part, len(j.Processors), depth); err != nil {
			return err
		}
		for i, m := range j.Processors {
			if err := t.parse(m, part+".processors["+strconv.Itoa(i)+"]", depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel": // changes offsets only
		return nil
	case "TemplateProcessing":
		return t.parseTemplate(&j, part)
	}
	return unsupported(part, "post-processor type %q", clip(j.Type))
}

func (t *template) parseTemplate(j *processorJSON, part string) error {
	part += ".single"
	var before, after []int32
	texts := 0
	for i, item := range j.Single {
		at := part + "[" + strconv.Itoa(i) + "]"
		switch {
		case (item.SpecialToken == nil) == (item.Sequence == nil):
			return invalid(at, "must be either a SpecialToken or a Sequence")
		case item.Sequence != nil:
			if item.Sequence.ID != "A" {
				return invalid(at, "Sequence %q, a template for one text has only \"A\"", clip(item.Sequence.ID))
			}
			texts++
			continue
		}
		name := item.SpecialToken.ID
		token, ok := j.SpecialTokens[name]
		if !ok {
			return invalid(at, "%q is not in special_tokens", clip(name))
		}
		if texts == 0 {
			before = append(before, token.IDs...)
		} else {
			after = append(after, token.IDs...)
		}
	}
	if texts != 1 {
		return invalid(part, "has the text %d times, it must have it once", texts)
	}
	t.prefix, t.suffix = append(before, t.prefix...), append(t.suffix, after...)
	if n := len(t.prefix) + len(t.suffix); n > maxTemplate {
		return exceeds(part, "number of ids", n, maxTemplate)
	}
	return nil
}

// overrule lets add_bos_token and add_eos_token of tokenizer_config.json, where
// given, decide whether the template has those tokens.
func (t *template) overrule(cfg *Config, id func(string) (int32, bool)) error {
	for _, o := range []struct {
		field, token string
		add          *bool
		ids          *[]int32
		front        bool
	}{
		{"bos_token", cfg.BOSToken, cfg.AddBOSToken, &t.prefix, true},
		{"eos_token", cfg.EOSToken, cfg.AddEOSToken, &t.suffix, false},
	} {
		if o.add == nil {
			continue
		}
		tok, ok := id(o.token)
		switch {
		case *o.add && !ok:
			return infer.Errorf(infer.CodeInvalid, o.field, "%s: add_%s is true, but %s is %q, which is no token", configFile, o.field, o.field, clip(o.token))
		case !ok:
		case !*o.add:
			*o.ids = slices.DeleteFunc(*o.ids, func(x int32) bool { return x == tok })
		case slices.Contains(*o.ids, tok):
		case o.front:
			*o.ids = slices.Insert(*o.ids, 0, tok)
		default:
			*o.ids = append(*o.ids, tok)
		}
	}
	return nil
}
