package tokenizer_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/tokenizer"
)

// FuzzNew feeds files to New: it must answer with a coded error or with a
// tokenizer that works.
func FuzzNew(f *testing.F) {
	// Small files: the fuzzer spends its time on shortening long ones.
	const small = `"model":{"type":"BPE","vocab":{"a":0,"<unk>":1,"ab":2,"b":3,"▁":4},"merges":["a b"],"unk_token":"<unk>"}`
	for _, rest := range []string{
		`"decoder":{"type":"Fuse"}`,
		`"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
			"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}`,
		`"decoder":{"type":"Fuse"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"Split","pattern":{"Regex":"(a|b)*"},"behavior":"MergedWithNext","invert":true}]}`,
		`"decoder":{"type":"Fuse"},"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Removed"},"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Prepend","prepend":"x"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}`,
		`"decoder":{"type":"Fuse"},"added_tokens":[{"id":5,"content":"é","normalized":true,"special":true,"lstrip":true,"rstrip":true,"single_word":true},{"id":6,"content":"<x>"}],"normalizer":{"type":"NFD"}`,
		`"decoder":{"type":"Fuse"},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s"}},{"Sequence":{"id":"A"}}],"special_tokens":{"s":{"ids":[0]}}}`,
	} {
		f.Add([]byte("{" + small + "," + rest + "}"))
	}
	f.Add([]byte(`{"model":{"vocab":{"\u00e9":0,"\ud83d\ude00":1},"merges":[["",""]],"unk_token":"\u00e9"},"decoder":{"type":"Fuse"}}`))
	const scored = `"vocab":[["<unk>",0],["▁",-2],["a",-3],["ab",-2.5],["▁a",-2]],"type":"Unigram","unk_id":0}`
	f.Add([]byte(`{"decoder":{"type":"Metaspace","replacement":"▁"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁"}]},"model":{` + scored + `}`))
	f.Add([]byte(`{"decoder":{"type":"Fuse"},"normalizer":{"type":"Sequence","normalizers":[{"type":"Strip","strip_left":true},{"type":"Lowercase"},{"type":"StripAccents"},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "},
		{"type":"Precompiled","precompiled_charsmap":"` + charsmap(12, []uint32{0, 1 | 1<<8 | 3<<10, 1 << 31}, "ab\x00") + `"}]},"model":{` + scored + `}`))
	f.Add([]byte(`{"decoder":{"type":"Fuse"},"model":{"type":"SentencePieceBPE","vocab":{"a":0,"b":1,"ab":2,"<unk>":3},"scores":[-1,-1,-2,0],"unk_token":"<unk>","fuse_unk":true}}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel"},"model":{"merges":[],"vocab":{` + byteVocab(f) + `}}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		tok, err := tokenizer.New(file, tokenizer.Config{})
		if err != nil {
			var e *infer.Error
			require.True(t, errors.As(err, &e))
			require.NotEqual(t, infer.CodeInternal, e.Code)
			return
		}
		ids := tok.Encode("a b <x> é😀\n ab", tokenizer.EncodeOptions{AddSpecialTokens: true})
		for _, id := range ids {
			require.True(t, id >= 0 && int(id) < tok.VocabSize())
		}
		require.True(t, utf8.ValidString(tok.Decode(ids, false)))
	})
}

// FuzzParseConfig feeds files to ParseConfig.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"bos_token":{"content":"<s>"},"eos_token":"</s>","add_bos_token":true,"model_max_length":1e30,"chat_template":[{"name":"default","template":"x"}]}`))
	f.Add([]byte(`{"chat_template":"x","model_max_length":-1,"pad_token":null}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := tokenizer.ParseConfig(file)
		if err != nil {
			var e *infer.Error
			require.True(t, errors.As(err, &e))
			require.Equal(t, tokenizer.Config{}, c)
		}
		require.GreaterOrEqual(t, c.ModelMaxLength, 0)
	})
}

// FuzzEncodeDecode checks that text survives encoding and decoding, that pushing
// ids equals decoding them, and that limits and spans do no harm.
func FuzzEncodeDecode(f *testing.F) {
	all := readFeatures(f)
	unigram := readUnigrams(f).lossless(f)
	toks := []*tokenizer.Tokenizer{
		understudy(f), all.load(f, all.named(f, "o200k")), all.load(f, all.named(f, "DeepSeek: a chain of patterns")), all.load(f, all.named(f, "GPT-2")),
		all.load(f, all.named(f, "Gemma")), unigram,
	}
	for i, text := range all.General {
		f.Add(text, i, i*3, i%7)
	}
	f.Add("a\xff\xe2\x82<|im_end|>", 2, 5, 1)
	f.Fuzz(func(t *testing.T, text string, start, end, limit int) {
		for i, tok := range toks {
			ids := tok.Encode(text, tokenizer.EncodeOptions{})
			decoded := tok.Decode(ids, false)
			require.True(t, utf8.ValidString(decoded))
			if utf8.ValidString(text) {
				want := text
				if i >= 4 {
					want = strings.ReplaceAll(text, "▁", " ")
				}
				require.Equal(t, want, decoded)
			}
			var pushed strings.Builder
			d := tok.NewDecoder(false)
			for _, id := range ids {
				pushed.WriteString(d.Push(id))
			}
			require.Equal(t, decoded, pushed.String()+d.Flush())
			literal := tok.Encode(text, tokenizer.EncodeOptions{Literal: []infer.Span{{Start: start, End: end}}})
			require.Equal(t, decoded, tok.Decode(literal, false))
			if limit > 0 {
				limited := tok.Encode(text, tokenizer.EncodeOptions{Limit: limit})
				require.Equal(t, len(ids) > limit, len(limited) > limit)
			}
		}
	})
}
