package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids. Ids that do not exist have no text, nor have
// control tokens if skipSpecial. Invalid bytes become U+FFFD; an incomplete
// character at the end is dropped.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	d := t.NewDecoder(skipSpecial)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(d.Push(id))
	}
	b.WriteString(d.Flush())
	return b.String()
}

// Decoder turns ids into text one by one. It belongs to one goroutine.
type Decoder struct {
	t           *Tokenizer
	skipSpecial bool
	dropInvalid bool
	strip       int    // leading stripText still to be dropped
	first       bool   // the next token is the first one, and read without marks
	pending     []byte // the beginning of a character, at most 3 bytes
	buf         []byte // scratch
}

// NewDecoder returns a decoder at the beginning of a text.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	return &Decoder{t: t, skipSpecial: skipSpecial, strip: t.decode.strip, first: t.decode.dropFirst != ""}
}

// Continue tells the decoder, before the first Push, that its ids continue a
// text: a model that marks words by the blank before them (Llama 2) drops that
// blank only where a text begins.
func (d *Decoder) Continue() { d.strip, d.first = 0, false }

// DropInvalid tells the decoder to leave out bytes that form no character, where
// it would write U+FFFD: a client that reads generated text then never meets a
// replacement mark that the model did not write.
func (d *Decoder) DropInvalid() { d.dropInvalid = true }

// Push takes the next id and returns the text that is complete by now: whole
// characters, "" if there is none yet.
func (d *Decoder) Push(id int32) string {
	s := d.t.TokenText(id)
	if s == "" || d.skipSpecial && d.t.IsSpecial(id) {
		return ""
	}
	if d.first {
		d.first = false
		s = d.t.decode.firstText(d.t.TokenString(id))
	}
	if len(d.pending) > 0 || !utf8.ValidString(s) {
		s = d.assemble(s)
	}
	for d.strip > 0 && s != "" {
		rest, ok := strings.CutPrefix(s, d.t.decode.stripText)
		if !ok {
			d.strip = 0
			break
		}
		s = rest
		d.strip--
	}
	return s
}

// Flush ends the text and returns what is still pending of it: nothing, as only
// an incomplete character can be, which is dropped. The decoder is then at the
// beginning of a new text.
func (d *Decoder) Flush() string {
	d.pending, d.strip, d.first = d.pending[:0], d.t.decode.strip, d.t.decode.dropFirst != ""
	return ""
}

// assemble appends s to the pending bytes and returns the text up to the last
// character that is complete or known to be invalid.
func (d *Decoder) assemble(s string) string {
	in := append(d.pending, s...)
	out := d.buf[:0]
	for len(in) > 0 {
		n, state := subpart(in)
		if state == incomplete {
			break
		}
		switch {
		case state == valid:
			out = append(out, in[:n]...)
		case !d.dropInvalid:
			out = utf8.AppendRune(out, utf8.RuneError)
		}
		in = in[n:]
	}
	d.pending = append(d.pending[:0], in...)
	d.buf = out[:0]
	return string(out)
}

// charState says what the first bytes of a text are.
type charState uint8

const (
	valid      charState = iota // a character
	invalidSeq                  // not the beginning of any character
	incomplete                  // the beginning of a character
)

// subpart returns the length of the first character of b, or of its maximal
// subpart of one: what Unicode (section 3.9, "U+FFFD Substitution of Maximal
// Subparts") replaces by one U+FFFD. b is not empty.
func subpart(b []byte) (n int, state charState) {
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch c := b[0]; {
	case c < utf8.RuneSelf:
		return 1, valid
	case c >= 0xC2 && c <= 0xDF:
		need = 2
	case c >= 0xE0 && c <= 0xEF:
		need = 3
	case c >= 0xF0 && c <= 0xF4:
		need = 4
	default:
		return 1, invalidSeq
	}
	switch b[0] { // the second byte excludes overlong forms, surrogates and what is over U+10FFFF
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	for n = 1; n < need; n++ {
		if n == len(b) {
			return n, incomplete
		}
		if b[n] < low || b[n] > high {
			return n, invalidSeq
		}
		low, high = 0x80, 0xBF
	}
	return n, valid
}
