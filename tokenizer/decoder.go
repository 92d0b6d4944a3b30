package tokenizer

import (
	"encoding/json"
	"strconv"
	"strings"
)

// decoding says how the text of a token follows from its vocabulary form.
type decoding struct {
	byteLevel    bool // the form spells bytes in the byte alphabet
	byteFallback bool // <0x41> is the byte 0x41
	replaces     []replace
	dropFirst    string // a mark that the first token of a text is read without, "" = none
	fused        bool   // texts of tokens are joined before what follows
	stripText    string // dropped at most strip times where a text begins
	strip        int
}

// decoderJSON is any member of decoder.
type decoderJSON struct {
	Type     string            `json:"type"`
	Decoders []json.RawMessage `json:"decoders"` // Sequence
	Pattern  *patternJSON      `json:"pattern"`  // Replace
	Content  string            `json:"content"`  // Replace, Strip
	Start    int               `json:"start"`    // Strip
	Stop     int               `json:"stop"`     // Strip

	Replacement    string  `json:"replacement"`      // Metaspace
	PrependScheme  *string `json:"prepend_scheme"`   // Metaspace; nil = always
	AddPrefixSpace *bool   `json:"add_prefix_space"` // Metaspace
}

// maxStrip bounds decoder Strip.
const maxStrip = 1024

func (d *decoding) parse(b json.RawMessage, part string, depth int) error {
	if isNull(b) {
		return unsupported(part, "a tokenizer without decoder")
	}
	var j decoderJSON
	if err := decodeJSON(b, tokenizerName, part, &j); err != nil {
		return err
	}
	if d.byteLevel || d.strip > 0 {
		return unsupported(part, "decoder %q after ByteLevel or Strip", clip(j.Type))
	}
	switch j.Type {
	case "Sequence":
		if err := checkSequence(part, len(j.Decoders), depth); err != nil {
			return err
		}
		for i, m := range j.Decoders {
			if err := d.parse(m, part+".decoders["+strconv.Itoa(i)+"]", depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		if d.byteFallback || d.fused || d.dropFirst != "" || len(d.replaces) > 0 {
			return unsupported(part, "ByteLevel after other decoders")
		}
		d.byteLevel = true
		return nil
	case "Replace":
		return d.parseReplace(&j, part)
	case "Metaspace":
		return d.parseMetaspace(&j, part)
	case "ByteFallback":
		d.byteFallback = true
		return nil
	case "Fuse":
		d.fused = true
		return nil
	case "Strip":
		return d.parseStrip(&j, part)
	}
	return unsupported(part, "decoder type %q", clip(j.Type))
}

func (d *decoding) parseReplace(j *decoderJSON, part string) error {
	if err := j.Pattern.check(part + ".pattern"); err != nil {
		return err
	}
	switch {
	case j.Pattern.Regex != nil:
		return unsupported(part+".pattern", "a Regex (%q)", clip(*j.Pattern.Regex))
	case d.byteFallback || d.fused:
		return unsupported(part, "Replace after ByteFallback or Fuse")
	}
	d.replaces = append(d.replaces, replace{old: *j.Pattern.String, new: j.Content})
	return nil
}

func (d *decoding) parseStrip(j *decoderJSON, part string) error {
	switch {
	case j.Content == "":
		return invalid(part+".content", "is empty")
	case j.Stop != 0 || !d.fused:
		return unsupported(part, "stripping the end (stop %d) or before Fuse", j.Stop)
	case j.Start < 0 || j.Start > maxStrip:
		return invalid(part+".start", "%d, it must be from 0 to %d", j.Start, maxStrip)
	}
	d.stripText, d.strip = j.Content, j.Start
	return nil
}

// parseMetaspace reads marks as blanks, except those in the first token of a
// text if encoding puts a mark before texts.
func (d *decoding) parseMetaspace(j *decoderJSON, part string) error {
	if d.fused {
		return unsupported(part, "Metaspace after Fuse")
	}
	m, err := newMetaspace(j.Replacement, j.PrependScheme, j.AddPrefixSpace, part)
	if err != nil {
		return err
	}
	if m.scheme != "never" {
		d.dropFirst = m.mark
	}
	d.replaces = append(d.replaces, replace{old: m.mark, new: " "})
	return nil
}

// firstText is text for the first token of a text.
func (d *decoding) firstText(form string) string {
	return d.text(strings.ReplaceAll(form, d.dropFirst, ""))
}

// text returns the bytes that a token of the vocabulary stands for.
func (d *decoding) text(form string) string {
	if d.byteLevel {
		if raw, ok := alphabet.raw(form); ok {
			return raw
		}
		return form
	}
	for _, r := range d.replaces {
		form = strings.ReplaceAll(form, r.old, r.new)
	}
	if b, ok := byteToken(form); ok && d.byteFallback {
		return string([]byte{b})
	}
	return form
}

// byteToken returns the byte that a token of the form <0x41> stands for.
func byteToken(form string) (byte, bool) {
	if len(form) != 6 || !strings.HasPrefix(form, "<0x") || form[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(form[3:5], 16, 8)
	return byte(b), err == nil
}
