//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/tokenizer"
)

// symbols are the tokens of the tiny models: all bytes and three more.
func symbols() (list []string) {
	for b := range 256 {
		if r := rune(b); r >= '!' && r <= '~' || r >= 0xa1 && r != 0xad {
			list = append(list, string(r))
		}
	}
	for r := rune(0x100); len(list) < 256; r++ {
		list = append(list, string(r)) // those of bytes that cannot be printed
	}
	return append(list, "ab", "bc", "cd")
}

var merges = []string{"a b", "b c", "c d"}

// byteTokenizer is a tokenizer.json of the symbols, and what it gives.
func byteTokenizer(t *testing.T) ([]byte, *tokenizer.Tokenizer) {
	vocab := obj{}
	for id, s := range symbols() {
		vocab[s] = id
	}
	byteLevel := obj{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	file, err := json.Marshal(obj{
		"version": "1.0", "added_tokens": []obj{}, "normalizer": nil, "pre_tokenizer": byteLevel, "post_processor": nil, "decoder": byteLevel,
		"model": obj{"type": "BPE", "vocab": vocab, "merges": merges},
	})
	require.NoError(t, err)
	tok, err := tokenizer.New(file, tokenizer.Config{})
	require.NoError(t, err)
	return file, tok
}

// architectureGoldens is ../model/testdata/architectures.json.
type architectureGoldens struct {
	Prompt        []int
	Architectures map[string]struct{ Greedy []int32 }
}

func readGoldens(t *testing.T) (g architectureGoldens) {
	b, err := os.ReadFile("../model/testdata/architectures.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.NotEmpty(t, g.Architectures)
	return g
}

// requireServed asks twice, the second time from the prefix cache, and expects the
// text that another implementation gives.
func (g *architectureGoldens) requireServed(t *testing.T, path, name string) {
	_, tok := byteTokenizer(t)
	want, s := g.Architectures[name].Greedy, serve(t, path)
	for range 2 {
		got, _ := s.complete(obj{"prompt": g.Prompt, "temperature": 0, "max_tokens": len(want), "ignore_eos": true})
		require.Equal(t, decode(tok, want), choice(got, 0)["text"])
	}
}

func TestEveryArchitectureIsServed(t *testing.T) {
	goldens := readGoldens(t)
	for name := range goldens.Architectures {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			modelkit.NewTiny(t, name, 5).WriteTo(t, dir, "F32")
			file, _ := byteTokenizer(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o600))
			goldens.requireServed(t, dir, name)
		})
	}
}

// Those whose tiny models a GGUF file can say whole.
func TestArchitecturesAreServedFromGGUF(t *testing.T) {
	goldens := readGoldens(t)
	for _, name := range []string{"MixtralForCausalLM", "Qwen3ForCausalLM", "Phi3ForCausalLM"} {
		t.Run(name, func(t *testing.T) {
			g := modelkit.NewTiny(t, name, 5).GGUF(t)
			g.Set("tokenizer.ggml.model", "gpt2")
			g.Set("tokenizer.ggml.pre", "gpt-2")
			g.Set("tokenizer.ggml.tokens", symbols())
			g.Set("tokenizer.ggml.merges", merges)
			path := filepath.Join(t.TempDir(), "tiny.gguf")
			require.NoError(t, os.WriteFile(path, g.Bytes(t), 0o600))
			goldens.requireServed(t, path, name)
		})
	}
}

// A control token that the model has no row for is no text; any other shows that the
// tokenizer is another model's.
func TestTokensBeyondTheModel(t *testing.T) {
	more := func(special bool) string {
		dir := folder(t)
		edit(t, dir, "tokenizer.json", func(o obj) {
			o["added_tokens"] = append(o["added_tokens"].([]any), obj{"id": 2048, "content": "<image>", "special": special,
				"single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
		})
		return dir
	}
	failsToStart(t, more(false), "the tokenizer has 2049 tokens, the model only 2048")
	s := serve(t, more(true))
	s.complete(obj{"prompt": "The capital of France is", "max_tokens": 4})
	r := s.do("POST", "/v1/completions", body(obj{"prompt": "An <image> of", "max_tokens": 4}))
	require.Equal(t, 400, r.Status, "%s", r.Body)
	require.Contains(t, string(r.Body), "token id 2048")
	s.complete(obj{"prompt": "The capital of France is", "max_tokens": 4})
}

// decode is what a stream of tokens gives: bytes that are no characters are left out.
func decode(tok *tokenizer.Tokenizer, ids []int32) (text string) {
	d := tok.NewDecoder(true)
	d.DropInvalid()
	for _, id := range ids {
		text += d.Push(id)
	}
	return text + d.Flush()
}
