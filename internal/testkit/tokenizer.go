package testkit

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/troupe-llm/troupe/tokenizer"
)

// The tokens of [Tokenizer]: one per byte value, whose id is the byte, and two
// control tokens.
const (
	EOS       int32 = 256 // <|end|>
	BOS       int32 = 257 // <|begin|>
	NumTokens       = 258
)

// Tokenizer returns a byte tokenizer: "a" is token 97, "é" is tokens 195 and 169.
// It panics if the tokenizer package refuses it.
func Tokenizer() *tokenizer.Tokenizer { return byteTokenizer() }

var byteTokenizer = sync.OnceValue(func() *tokenizer.Tokenizer {
	t, err := tokenizer.New(byteTokenizerJSON(), tokenizer.Config{BOSToken: "<|begin|>", EOSToken: "<|end|>"})
	if err != nil {
		panic(fmt.Sprintf("testkit: %v", err))
	}
	return t
})

func byteTokenizerJSON() []byte {
	type object = map[string]any
	vocab := object{}
	for b := range 256 {
		vocab[string(byteSymbol(b))] = b
	}
	control := func(id int32, content string) object {
		return object{"id": id, "content": content, "special": true, "normalized": false,
			"single_word": false, "lstrip": false, "rstrip": false}
	}
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	out, err := json.Marshal(object{
		"version":        "1.0",
		"truncation":     nil,
		"padding":        nil,
		"added_tokens":   []object{control(EOS, "<|end|>"), control(BOS, "<|begin|>")},
		"normalizer":     nil,
		"pre_tokenizer":  byteLevel,
		"post_processor": nil,
		"decoder":        byteLevel,
		"model":          object{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		panic(fmt.Sprintf("testkit: %v", err))
	}
	return out
}

// byteSymbol is GPT-2's printable stand-in for a byte: itself where it is
// printable, else the next free character from U+0100 on.
func byteSymbol(b int) rune {
	printable := func(b int) bool {
		return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae && b <= 0xff
	}
	if printable(b) {
		return rune(b)
	}
	next := rune(0x100)
	for other := range b {
		if !printable(other) {
			next++
		}
	}
	return next
}
