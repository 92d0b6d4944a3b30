package hf

import (
	"encoding/base64"

	"github.com/troupe-llm/troupe/model/gguf"
)

// sentencePiece returns the parts of tokenizer.json for a vocabulary of
// SentencePiece's kind of BPE: scored tokens, blanks written as "▁", bytes in
// place of characters that are no tokens. Beside the marks in
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md:
//   - a blank is put before the text and after every added token in it;
//   - bytes, control tokens and the unknown are never what merging gives.
func sentencePiece(m *meta) object {
	vocab, added := tokens(m)
	scores := scores(m)
	unk := unknownToken(m)
	if m.err != nil {
		return nil
	}
	if _, ok := vocab[unk.form]; !ok && unk.form != "" {
		vocab[unk.form] = unk.id // merging falls back to it even where it is a control token
	}
	_, byteFallback := vocab["<0x00>"]
	file := blanksAsMarks(m)
	file["added_tokens"] = added
	file["model"] = object{
		"type": "SentencePieceBPE", "vocab": vocab, "scores": scores,
		"unk_token": unk.form, "fuse_unk": true, "byte_fallback": byteFallback,
	}
	return file
}

// unigram returns the parts of tokenizer.json for a vocabulary of SentencePiece's
// Unigram, with its charsmap if it has one.
func unigram(m *meta) object {
	vocab, added := tokens(m)
	scores := scores(m)
	unk := unknownToken(m)
	file := blanksAsMarks(m)
	if m.err != nil {
		return nil
	}
	list := make([][2]any, 0, len(scores))
	for id, v := range m.array("tokenizer.ggml.tokens", gguf.String).Elements() {
		form, _ := v.Text()
		list = append(list, [2]any{form, scores[id]})
	}
	_, byteFallback := vocab["<0x00>"]
	model := object{"type": "Unigram", "vocab": list, "byte_fallback": byteFallback}
	if unk.form != "" {
		model["unk_id"] = unk.id
	}
	file["added_tokens"], file["model"] = added, model
	return file
}

// charsmap returns the charsmap in base64, "" if there is none.
func charsmap(m *meta) string {
	const key = "tokenizer.ggml.precompiled_charsmap"
	kind := gguf.Uint8
	if v, ok := m.file.Key(key); ok && v.Elem == gguf.Int8 {
		kind = gguf.Int8
	}
	values := m.array(key, kind)
	b := make([]byte, 0, values.Len)
	for _, v := range values.Elements() {
		n, _ := v.Int()
		b = append(b, byte(n))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// blanksAsMarks returns the normalizer that writes blanks as "▁", and the decoder
// that reads these.
func blanksAsMarks(m *meta) object {
	normalizers, decoders := []any{}, []any{replaceBy("▁", " "), object{"type": "ByteFallback"}, object{"type": "Fuse"}}
	if c := charsmap(m); c != "" {
		normalizers = append(normalizers, object{"type": "Precompiled", "precompiled_charsmap": c})
	}
	noExtra := m.bool("tokenizer.ggml.remove_extra_whitespaces", false)
	if noExtra {
		normalizers = append(normalizers, replaceRegex(`\A +`, ""), replaceRegex(" {2,}", " "))
	}
	if m.bool("tokenizer.ggml.add_space_prefix", true) {
		normalizers = append(normalizers, object{"type": "Prepend", "prepend": "▁"})
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	normalizers = append(normalizers, replaceBy(" ", "▁"))
	if noExtra { // a mark at the end goes as a blank does, even one that was written as such
		normalizers = append(normalizers, replaceRegex(`▁+\z`, ""))
	}
	return object{
		"normalizer": object{"type": "Sequence", "normalizers": normalizers},
		"decoder":    object{"type": "Sequence", "decoders": decoders},
	}
}

func replaceBy(old, content string) object {
	return object{"type": "Replace", "pattern": object{"String": old}, "content": content}
}

func replaceRegex(pattern, content string) object {
	return object{"type": "Replace", "pattern": object{"Regex": pattern}, "content": content}
}

// scores returns the score of every token, by id.
func scores(m *meta) []float64 {
	const key = "tokenizer.ggml.scores"
	m.required(key)
	forms, values := m.array("tokenizer.ggml.tokens", gguf.String), m.array(key, gguf.Float32)
	if m.err == nil && values.Len != forms.Len {
		m.fail(key, "has %d elements, but there are %d tokens", values.Len, forms.Len)
	}
	if m.err != nil {
		return nil
	}
	out := make([]float64, 0, values.Len)
	for id, v := range values.Elements() {
		score, _ := v.Float()
		if score-score != 0 {
			m.fail(key, "has %v for token %d, which is no finite number", score, id)
			return nil
		}
		out = append(out, score)
	}
	return out
}

// token is one token of the vocabulary.
type token struct {
	id   int
	form string
}

// unknownToken returns the token for what is no token, with an empty form if
// there is none.
func unknownToken(m *meta) token {
	const key = "tokenizer.ggml.unknown_token_id"
	if m.has(key) {
		return token{m.int(key, 0), tokenAt(m, key)}
	}
	types := m.array("tokenizer.ggml.token_type", gguf.Int32)
	for id, v := range types.Elements() {
		if kind, _ := v.Int(); kind == typeUnknown {
			return token{id, formOf(m, id)}
		}
	}
	return token{}
}

// formOf returns the form of a token, "" if there is no such token.
func formOf(m *meta, at int) string {
	for id, v := range m.array("tokenizer.ggml.tokens", gguf.String).Elements() {
		if id == at {
			form, _ := v.Text()
			return form
		}
	}
	return ""
}
