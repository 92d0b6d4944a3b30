package hf

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/model/gguf"
)

// What a token is, in tokenizer.ggml.token_type.
const (
	typeNormal = iota + 1
	typeUnknown
	typeControl     // special: not part of texts
	typeUserDefined // found in texts before anything else
	typeUnused
	typeByte
)

// object is a JSON object.
type object = map[string]any

// The values of tokenizer.ggml.model.
const (
	kindByteLevel     = "gpt2"
	kindSentencePiece = "llama"
	kindUnigram       = "t5"
)

// Tokenizer returns tokenizer.json.
func Tokenizer(f *gguf.File) ([]byte, error) {
	m := &meta{file: f}
	m.required("tokenizer.ggml.model")
	m.required("tokenizer.ggml.tokens")
	var file object
	switch kind := m.text("tokenizer.ggml.model", ""); kind {
	case kindByteLevel:
		file = byteLevelBPE(m)
	case kindSentencePiece:
		file = sentencePiece(m)
	case kindUnigram:
		file = unigram(m)
	default:
		m.fail("tokenizer.ggml.model", "is %q, which is not supported; supported: gpt2 (byte-level BPE), llama (SentencePiece BPE), t5 (Unigram)", clip(kind))
	}
	if m.err != nil {
		return nil, m.err
	}
	return json.Marshal(file)
}

// byteLevelBPE returns the parts of tokenizer.json for BPE over bytes.
func byteLevelBPE(m *meta) object {
	vocab, added := tokens(m)
	s := splitter(m)
	merges := m.array("tokenizer.ggml.merges", gguf.String)
	if m.err != nil {
		return nil
	}
	pairs := make([]string, 0, merges.Len)
	for _, v := range merges.Elements() {
		pair, _ := v.Text()
		pairs = append(pairs, pair)
	}
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
	return object{
		"added_tokens":  added,
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": append(slices.Clone(s.stages), byteLevel)},
		"decoder":       byteLevel,
		"model":         object{"type": "BPE", "vocab": vocab, "merges": pairs, "ignore_merges": s.ignoreMerges},
	}
}

// tokens returns the model's tokens with their ids, and those that are searched
// for in texts.
func tokens(m *meta) (vocab map[string]int, added []object) {
	forms := m.array("tokenizer.ggml.tokens", gguf.String)
	types := m.array("tokenizer.ggml.token_type", gguf.Int32)
	if types.Len != 0 && types.Len != forms.Len {
		m.fail("tokenizer.ggml.token_type", "has %d elements, but there are %d tokens", types.Len, forms.Len)
		return nil, nil
	}
	kinds := make([]int64, forms.Len)
	for i := range kinds {
		kinds[i] = typeNormal
	}
	for i, v := range types.Elements() {
		kinds[i], _ = v.Int()
	}
	vocab, added = make(map[string]int, forms.Len), []object{}
	for id, v := range forms.Elements() {
		form, _ := v.Text()
		switch kinds[id] {
		case typeControl, typeUserDefined:
			added = append(added, object{"id": id, "content": form, "special": kinds[id] == typeControl, "normalized": false})
		case typeUnused: // room that training left: no text gives it
		default:
			if other, ok := vocab[form]; ok {
				m.fail("tokenizer.ggml.tokens", "has %q twice, as tokens %d and %d", clip(form), other, id)
			}
			vocab[form] = id
		}
	}
	return vocab, added
}

// TokenizerConfig returns tokenizer_config.json.
func TokenizerConfig(f *gguf.File) ([]byte, error) {
	m := &meta{file: f}
	c := object{}
	for member, key := range map[string]string{
		"bos_token": "tokenizer.ggml.bos_token_id", "eos_token": "tokenizer.ggml.eos_token_id",
		"pad_token": "tokenizer.ggml.padding_token_id", "unk_token": "tokenizer.ggml.unknown_token_id",
	} {
		if form := tokenAt(m, key); form != "" {
			c[member] = form
		}
	}
	addBOS := true // what SentencePiece's models expect
	if m.text("tokenizer.ggml.model", kindByteLevel) == kindByteLevel {
		addBOS = splitter(m).addBOS
	}
	if _, ok := c["bos_token"]; ok {
		c["add_bos_token"] = m.bool("tokenizer.ggml.add_bos_token", addBOS)
	}
	if _, ok := c["eos_token"]; ok {
		c["add_eos_token"] = m.bool("tokenizer.ggml.add_eos_token", false)
	}
	if template := m.text("tokenizer.chat_template", ""); strings.TrimSpace(template) != "" {
		c["chat_template"] = template
	}
	if m.err != nil {
		return nil, m.err
	}
	return json.Marshal(c)
}

// tokenAt returns the form of the token whose id a key holds, "" without the key.
func tokenAt(m *meta, key string) string {
	if !m.has(key) {
		return ""
	}
	forms := m.array("tokenizer.ggml.tokens", gguf.String)
	at := m.int(key, 0)
	if m.err == nil && at >= forms.Len {
		m.fail(key, "is %d, but there are only %d tokens", at, forms.Len)
	}
	return formOf(m, at)
}
