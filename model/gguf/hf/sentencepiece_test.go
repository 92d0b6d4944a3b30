package hf_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model/gguf/hf"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/tokenizer"
)

// scoredModel is a vocabulary of testdata/sentencepiece.json, and SentencePiece's ids.
type scoredModel struct {
	Name     string    `json:"name"`
	Type     string    `json:"model_type"`
	Prefix   bool      `json:"add_dummy_prefix"`
	NoExtra  bool      `json:"remove_extra_whitespaces"`
	Fallback bool      `json:"byte_fallback"`
	Tokens   []string  `json:"tokens"`
	Scores   []float32 `json:"scores"`
	Types    []int32   `json:"types"`
	IDs      [][]int32 `json:"ids"`
}

func readScored(tb testing.TB) (texts []string, models []scoredModel) {
	tb.Helper()
	b, err := os.ReadFile("testdata/sentencepiece.json")
	require.NoError(tb, err)
	var file struct {
		Texts  []string      `json:"texts"`
		Models []scoredModel `json:"models"`
	}
	require.NoError(tb, json.Unmarshal(b, &file))
	require.Len(tb, file.Models, 4)
	return file.Texts, file.Models
}

// gguf returns a file with the vocabulary.
func (m *scoredModel) gguf(tb testing.TB) *modelkit.GGUF {
	tb.Helper()
	g := modelkit.ConvertLlama(tb, understudy.Embedded(), "BF16")
	g.Set("tokenizer.ggml.model", map[string]string{"bpe": "llama", "unigram": "t5"}[m.Type])
	g.Set("tokenizer.ggml.pre", "default")
	g.Set("tokenizer.ggml.tokens", m.Tokens)
	g.Set("tokenizer.ggml.scores", m.Scores)
	g.Set("tokenizer.ggml.token_type", m.Types)
	g.Set("tokenizer.ggml.unknown_token_id", uint32(0))
	g.Set("tokenizer.ggml.bos_token_id", uint32(1))
	g.Set("tokenizer.ggml.eos_token_id", uint32(2))
	g.Set("tokenizer.ggml.add_space_prefix", m.Prefix)
	g.Set("tokenizer.ggml.remove_extra_whitespaces", m.NoExtra)
	return g
}

// load builds the tokenizer of a file.
func load(tb testing.TB, g *modelkit.GGUF) *tokenizer.Tokenizer {
	tb.Helper()
	f := parse(tb, g)
	file, err := hf.Tokenizer(f)
	require.NoError(tb, err)
	config, err := hf.TokenizerConfig(f)
	require.NoError(tb, err)
	return newTokenizer(tb, file, config)
}

func TestSentencePieceIDs(t *testing.T) {
	texts, models := readScored(t)
	for _, m := range models {
		t.Run(m.Name, func(t *testing.T) {
			tok, reordered := load(t, m.gguf(t)), 0
			for i, text := range texts {
				ids := tok.Encode(text, tokenizer.EncodeOptions{NoControl: true})
				want := append([]int32{}, m.IDs[i]...)
				if m.Type == "unigram" && !slices.Equal(want, ids) {
					// SentencePiece adds up in float32, which decides between ways that are as
					// good as each other: pieces in another order.
					slices.Sort(want)
					slices.Sort(ids)
					reordered++
				}
				require.Equal(t, want, ids, "%q", text)
				if m.Fallback && !m.NoExtra {
					require.Equal(t, strings.ReplaceAll(text, "▁", " "), tok.Decode(ids, false))
				}
			}
			require.LessOrEqual(t, reordered, 3)
		})
	}
}

func TestSentencePieceSettings(t *testing.T) {
	_, models := readScored(t)
	g := models[0].gguf(t)
	g.Set("tokenizer.ggml.tokens", append(models[0].Tokens[:len(models[0].Tokens):len(models[0].Tokens)], "<|user|>", "<tool>"))
	g.Set("tokenizer.ggml.scores", append(models[0].Scores[:len(models[0].Scores):len(models[0].Scores)], 0, 0))
	g.Set("tokenizer.ggml.token_type", append(models[0].Types[:len(models[0].Types):len(models[0].Types)], 3, 4))
	tok := load(t, g)
	user, tool := int32(len(models[0].Tokens)), int32(len(models[0].Tokens)+1)
	encode := func(s string) []int32 { return tok.Encode(s, tokenizer.EncodeOptions{}) }

	// Tokens that are searched for stand by themselves; each text between begins with a blank.
	the := encode("the")
	want := append(append([]int32{user}, the...), tool)
	require.Equal(t, append(want, the...), encode("<|user|>the<tool>the"))
	require.Equal(t, "<|user|> the<tool> the", tok.Decode(encode("<|user|>the<tool>the"), false))
	require.Equal(t, "the<tool> the", tok.Decode(append(the, append([]int32{tool}, the...)...), true))

	// A control token is never merged to, nor the unknown, nor a byte.
	for _, form := range []string{"<|user|>", "<s>", "<unk>", "<0x0A>"} {
		ids := tok.Encode(form, tokenizer.EncodeOptions{NoControl: true})
		require.Greater(t, len(ids), 1, form)
		require.Equal(t, form, tok.Decode(ids, true), form)
	}

	// Texts begin with <s> if the file says so.
	g.Set("tokenizer.ggml.add_bos_token", true)
	tok = load(t, g)
	require.Equal(t, append([]int32{1}, the...), tok.Encode("the", tokenizer.EncodeOptions{AddSpecialTokens: true}))
	g.Set("tokenizer.ggml.add_bos_token", false)
	require.Equal(t, the, load(t, g).Encode("the", tokenizer.EncodeOptions{AddSpecialTokens: true}))
}

func TestUnigramCharsmap(t *testing.T) {
	_, models := readScored(t)
	m := models[2]
	require.Equal(t, "unigram", m.Type)
	g := m.gguf(t)
	// Its size, a trie of one key, "\x01", and the text for it, "the".
	le := binary.LittleEndian
	var charsmap []byte
	for _, unit := range []uint32{12, 0, 1 | 1<<8 | 3<<10, 1 << 31} {
		charsmap = le.AppendUint32(charsmap, unit)
	}
	charsmap = append(charsmap, "the\x00"...)
	for elem := range uint32(2) { // bytes without and with a sign
		array := le.AppendUint64(le.AppendUint32(nil, elem), uint64(len(charsmap)))
		g.Set("tokenizer.ggml.precompiled_charsmap", modelkit.GGUFRaw{Kind: 9, Bytes: append(array, charsmap...)})
		tok := load(t, g)
		want := tok.Encode("of the a", tokenizer.EncodeOptions{})
		require.Equal(t, want, tok.Encode(" of  \x01 a", tokenizer.EncodeOptions{}))
		require.Equal(t, "of the a", tok.Decode(want, true))
	}
}

func TestSentencePieceRefuses(t *testing.T) {
	_, models := readScored(t)
	m := models[0]
	for _, c := range []struct {
		name  string
		key   string
		value any
		want  string
	}{
		{"few scores", "tokenizer.ggml.scores", m.Scores[1:], `"tokenizer.ggml.scores" has 999 elements, but there are 1000 tokens`},
		{"scores of another kind", "tokenizer.ggml.scores", []int32{1}, `"tokenizer.ggml.scores" is no array of float32`},
		{"scores that are none", "tokenizer.ggml.scores", append([]float32{float32(math.NaN())}, m.Scores[1:]...), "NaN for token 0"},
		{"types for others", "tokenizer.ggml.token_type", m.Types[1:], "has 999 elements"},
		{"unknown beyond", "tokenizer.ggml.unknown_token_id", uint32(1000), "is 1000, but there are only 1000 tokens"},
		{"charsmap of another kind", "tokenizer.ggml.precompiled_charsmap", []string{"a"}, `"tokenizer.ggml.precompiled_charsmap" is no array of uint8`},
		{"prefix of another kind", "tokenizer.ggml.add_space_prefix", uint32(1), `"tokenizer.ggml.add_space_prefix" is no truth value`},
	} {
		g := m.gguf(t)
		g.Set(c.key, c.value)
		_, err := hf.Tokenizer(parse(t, g))
		require.ErrorContains(t, err, c.want, c.name)
	}
}
