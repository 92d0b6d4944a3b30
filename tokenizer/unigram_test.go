package tokenizer_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/tokenizer"
)

// unigrams is testdata/unigram.json.
type unigrams struct {
	Vocab   [][2]any      `json:"vocab"`
	General []string      `json:"general"`
	Cases   []featureCase `json:"cases"`
}

func readUnigrams(t testing.TB) *unigrams {
	t.Helper()
	f := &unigrams{}
	readJSON(t, "testdata/unigram.json", f)
	require.Len(t, f.Cases, 7)
	for i := range f.Cases {
		c := &f.Cases[i]
		c.Texts = f.General
		if c.Special == nil {
			c.Special = c.IDs
		}
		c.File["model"].(map[string]any)["vocab"] = f.Vocab
	}
	return f
}

// load builds the tokenizer of case i.
func (f *unigrams) load(t testing.TB, i int) *tokenizer.Tokenizer {
	t.Helper()
	b, err := json.Marshal(f.Cases[i].File)
	require.NoError(t, err)
	tok, err := tokenizer.New(b, tokenizer.Config{})
	require.NoError(t, err)
	return tok
}

// lossless builds a tokenizer that gives every text back, apart from marks.
func (f *unigrams) lossless(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	i := slices.IndexFunc(f.Cases, func(c featureCase) bool { return c.Name == "bytes, whole texts as words" })
	require.GreaterOrEqual(t, i, 0)
	file, pattern := f.Cases[i].File, map[string]any{"String": "▁"}
	file["normalizer"] = map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"}
	file["decoder"] = map[string]any{"type": "Sequence", "decoders": []any{
		map[string]any{"type": "Replace", "pattern": pattern, "content": " "}, map[string]any{"type": "ByteFallback"},
	}}
	return f.load(t, i)
}

func TestUnigramMatchesReference(t *testing.T) {
	f := readUnigrams(t)
	for i, c := range f.Cases {
		t.Run(c.Name, func(t *testing.T) {
			tok := f.load(t, i)
			for i, text := range c.Texts {
				require.Equal(t, c.IDs[i], tok.Encode(text, tokenizer.EncodeOptions{}), "ids of %q", text)
				require.Equal(t, c.Special[i], tok.Encode(text, tokenizer.EncodeOptions{AddSpecialTokens: true}), "ids of %q with template", text)
				require.Equal(t, c.Decoded[i], tok.Decode(c.IDs[i], true), "text of %q", text)
			}
		})
	}
}

// The spelling of a control token in foreign text is text.
func TestUnigramNeverWritesControlTokensWithPieces(t *testing.T) {
	tok := readUnigrams(t).lossless(t)
	for _, text := range []string{"</s>", "<s>", "a<unk></s>b", "<s></s>"} {
		require.True(t, slices.ContainsFunc(tok.Encode(text, tokenizer.EncodeOptions{}), tok.IsSpecial), text)
		ids := tok.Encode(text, tokenizer.EncodeOptions{NoControl: true})
		require.False(t, slices.ContainsFunc(ids, tok.IsSpecial), text)
		require.Equal(t, text, tok.Decode(ids, true))
	}
	// Not even if none of its characters is a token.
	tok, err := tokenizer.New([]byte(`{"decoder":{"type":"Fuse"},"added_tokens":[{"id":1,"content":"</s>","special":true}],
		"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["</s>",0],["a",-1]]}}`), tokenizer.Config{})
	require.NoError(t, err)
	require.Equal(t, []int32{2, 1}, tok.Encode("a</s>", tokenizer.EncodeOptions{}))
	require.Equal(t, []int32{2, 0}, tok.Encode("a</s>", tokenizer.EncodeOptions{NoControl: true}))
}

// Pushing ids one by one gives whole characters, and the text of all of them at
// once; what was pushed up to any cut is the beginning of it.
func TestScoredModelsDecodeIncrementally(t *testing.T) {
	f := readUnigrams(t)
	for i, c := range f.Cases {
		tok := f.load(t, i)
		for _, ids := range c.IDs {
			want := tok.Decode(ids, false)
			d, so := tok.NewDecoder(false), ""
			for cut, id := range ids {
				so += d.Push(id)
				require.True(t, strings.HasPrefix(want, so))
				require.Equal(t, tok.Decode(ids[:cut+1], false), so)
			}
			require.Equal(t, want, so+d.Flush())
		}
	}
}
