package tokenizer_test

import (
	"errors"
	"os"
	"path/filepath"
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
	all := readFeatures(f)
	for _, name := range []string{"GPT-2", "Llama 2", "Metaspace first, split true", "added tokens: normalized", "DeepSeek: a chain of patterns"} {
		f.Add(all.file(f, all.named(f, name)))
	}
	for _, file := range []string{
		``, `{}`, `null`, `{"model":{"type":"BPE","vocab":{"a":0,"<unk>":1,"ab":2,"b":3},"merges":["a b"],"unk_token":"<unk>"},"decoder":{"type":"Fuse"}}`,
		`{"added_tokens":[{"id":4,"content":"é","normalized":true,"special":true,"lstrip":true,"rstrip":true,"single_word":true}],"normalizer":{"type":"NFD"},"model":{"vocab":{"a":0,"<unk>":1},"merges":[],"unk_token":"<unk>"},"decoder":{"type":"Fuse"}}`,
		`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a|b)*"},"behavior":"Removed"},"model":{"vocab":{"\u00e9":0,"\ud83d\ude00":1},"merges":[["",""]],"unk_token":"\u00e9"},"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}}`,
	} {
		f.Add([]byte(file))
	}
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
	b, err := os.ReadFile(filepath.Join("testdata", "understudy.json"))
	require.NoError(f, err)
	embedded, err := tokenizer.New(b, tokenizer.Config{})
	require.NoError(f, err)
	toks := []*tokenizer.Tokenizer{
		embedded, all.load(f, all.named(f, "o200k")), all.load(f, all.named(f, "DeepSeek: a chain of patterns")), all.load(f, all.named(f, "GPT-2")),
		all.load(f, all.named(f, "Gemma")),
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
				if i == 4 {
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
