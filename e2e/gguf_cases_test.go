//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
)

// embeddedAsGGUF returns the embedded model as a GGUF file to be changed.
func embeddedAsGGUF(t *testing.T) *modelkit.GGUF {
	t.Helper()
	source, err := model.OpenDir(folder(t))
	require.NoError(t, err)
	return modelkit.ConvertLlama(t, source, "BF16")
}

func TestO59TruncatedGGUF(t *testing.T) {
	whole := embeddedAsGGUF(t).Bytes(t)
	cut := func(f float64) []byte { return whole[:int(float64(len(whole))*f)] }
	for name, c := range map[string]struct {
		content []byte
		word    string
	}{
		"0.1": {cut(0.1), "it is truncated"}, "0.5": {cut(0.5), "it is truncated"}, "0.9": {cut(0.9), "it is truncated"}, "0.999": {cut(0.999), "it is truncated"},
		"empty": {nil, "ends at byte 0"}, "magic": {[]byte("GGUF"), "ends at byte 4"},
		"version": {[]byte("GGUF\x63\x00\x00\x00" + string(make([]byte, 16))), "of gguf version 99"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, os.WriteFile(path, c.content, 0o644))
			failsToStart(t, path, "m.gguf", c.word)
		})
	}
}

// A model in parts answers as the whole one does; without one of them it is refused by
// the name of what is missing.
func TestGGUFInPartsIsServed(t *testing.T) {
	dir := t.TempDir()
	names := modelkit.WriteParts(t, dir, "m", embeddedAsGGUF(t).Parts(3))
	ask := obj{"messages": user("What is the capital of France?"), "temperature": 0, "max_tokens": 32}
	want, _ := serve(t).chat(ask)
	got, _ := serve(t, filepath.Join(dir, names[0])).chat(ask)
	require.Equal(t, choice(want, 0)["message"], choice(got, 0)["message"])
	require.NoError(t, os.Remove(filepath.Join(dir, names[1])))
	failsToStart(t, dir, "m-00002-of-00003.gguf is missing", "part 2 of 3")
}

// scoredModel is a vocabulary of scores with the ids that SentencePiece gives to texts.
type scoredModel struct {
	Type    string    `json:"model_type"`
	Prefix  bool      `json:"add_dummy_prefix"`
	NoExtra bool      `json:"remove_extra_whitespaces"`
	Tokens  []string  `json:"tokens"`
	Scores  []float32 `json:"scores"`
	Types   []int32   `json:"types"`
	IDs     [][]int32 `json:"ids"`
}

// write writes the embedded model with the vocabulary, and returns its path.
func (m *scoredModel) write(t *testing.T) string {
	t.Helper()
	g := embeddedAsGGUF(t)
	for key, value := range map[string]any{
		"model": map[string]string{"bpe": "llama", "unigram": "t5"}[m.Type], "pre": "default",
		"tokens": m.Tokens, "scores": m.Scores, "token_type": m.Types,
		"unknown_token_id": uint32(0), "bos_token_id": uint32(1), "eos_token_id": uint32(2), "add_bos_token": true, "add_eos_token": false,
		"add_space_prefix": m.Prefix, "remove_extra_whitespaces": m.NoExtra,
	} {
		g.Set("tokenizer.ggml."+key, value)
	}
	g.Set("tokenizer.chat_template", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, g.Bytes(t), 0o644))
	return path
}

// TestO62OfSentencePiece serves vocabularies of scores: ids as SentencePiece has them
// after exactly one BOS, also where the prompt begins with it.
func TestO62OfSentencePiece(t *testing.T) {
	var file struct {
		Texts  []string
		Models []scoredModel
	}
	b, err := os.ReadFile("../model/gguf/hf/testdata/sentencepiece.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &file))
	require.Len(t, file.Models, 4)
	for _, m := range file.Models {
		s := serve(t, m.write(t))
		for i := 1; i < len(file.Texts); i += 3 {
			if strings.Contains(file.Texts[i], "<") {
				continue // may be a control token, which a prompt may have and SentencePiece's text may not
			}
			r, _ := s.post("/tokenize", obj{"prompt": file.Texts[i]})
			require.Equal(t, fmt.Sprint(append([]int32{1}, m.IDs[i]...)), fmt.Sprint(r["tokens"]), "%q", file.Texts[i])
		}
		for _, req := range []obj{{"prompt": m.Tokens[1] + "Hi"}, {"messages": user("Hi")}} {
			r, _ := s.post("/tokenize", req)
			ids := r["tokens"].([]any)
			require.EqualValues(t, 1, ids[0])
			require.NotContains(t, ids[1:], 1.0, "%v", req)
		}
		o, _ := s.chat(obj{"messages": user("Hi"), "max_tokens": 8, "temperature": 0})
		require.Positive(t, usage(o, "completion_tokens"))
	}
}

// The second server maps what the first has kept, and answers the same.
func TestWeightsCacheIsServed(t *testing.T) {
	path, cache := asGGUF(t, "Q8_0"), t.TempDir()
	ask := obj{"messages": user("What is the capital of France?"), "temperature": 0, "max_tokens": 32, "logprobs": true}
	first, _ := serve(t, path, "--weights-cache", cache).chat(ask)
	files, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Len(t, files, 1)
	second, _ := serve(t, path, "--weights-cache", cache).chat(ask)
	require.Equal(t, choice(first, 0), choice(second, 0))

	require.NoError(t, os.WriteFile(filepath.Join(cache, files[0].Name()), []byte("something else"), 0o644))
	s := serve(t, path, "--weights-cache", cache)
	require.Contains(t, s.log.String(), "The kept weights cannot be used and are made anew")
	third, _ := s.chat(ask)
	require.Equal(t, choice(first, 0), choice(third, 0))
}
