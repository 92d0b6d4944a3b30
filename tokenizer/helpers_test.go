package tokenizer_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/tokenizer"
)

// readJSON reads a file into v.
func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

// understudy returns the tokenizer of the embedded model.
func understudy(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	b, err := os.ReadFile("../model/understudy/understudy/tokenizer.json")
	require.NoError(t, err)
	tok, err := tokenizer.New(b, tokenizer.Config{})
	require.NoError(t, err)
	return tok
}

// features is testdata/features.json.
type features struct {
	Bases map[string]struct {
		Vocab  []string `json:"vocab"`
		Merges []string `json:"merges"`
	} `json:"bases"`
	General []string      `json:"general"`
	Cases   []featureCase `json:"cases"`
}

// featureCase is a tokenizer.json without vocabulary, and what the reference
// makes of texts with it.
type featureCase struct {
	Name    string         `json:"name"`
	Base    string         `json:"base"`
	Pairs   bool           `json:"pairs"`
	File    map[string]any `json:"file"`
	Texts   []string       `json:"texts"`
	IDs     [][]int32      `json:"ids"`
	Special [][]int32      `json:"special"`
	Decoded []string       `json:"decoded"`
}

func readFeatures(t testing.TB) *features {
	t.Helper()
	f := &features{}
	readJSON(t, "testdata/features.json", f)
	for i := range f.Cases {
		c := &f.Cases[i]
		if c.Texts == nil {
			c.Texts = f.General
		}
		if c.Special == nil {
			c.Special = c.IDs
		}
	}
	return f
}

// named returns the case of that name.
func (f *features) named(t testing.TB, name string) *featureCase {
	t.Helper()
	for i := range f.Cases {
		if f.Cases[i].Name == name {
			return &f.Cases[i]
		}
	}
	require.FailNow(t, "no such case", name)
	return nil
}

// file returns the whole tokenizer.json of c.
func (f *features) file(t testing.TB, c *featureCase) []byte {
	t.Helper()
	base := f.Bases[c.Base]
	vocab := make(map[string]int, len(base.Vocab))
	for id, form := range base.Vocab {
		vocab[form] = id
	}
	model := map[string]any{"vocab": vocab, "merges": base.Merges}
	if c.Pairs {
		pairs := make([][2]string, len(base.Merges))
		for i, m := range base.Merges {
			for k := range m {
				if m[k] == ' ' {
					pairs[i] = [2]string{m[:k], m[k+1:]}
				}
			}
		}
		model["merges"] = pairs
	}
	for k, v := range c.File["model"].(map[string]any) {
		model[k] = v
	}
	whole := map[string]any{"model": model}
	for k, v := range c.File {
		if k != "model" {
			whole[k] = v
		}
	}
	b, err := json.Marshal(whole)
	require.NoError(t, err)
	return b
}

// load builds the tokenizer of c.
func (f *features) load(t testing.TB, c *featureCase) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(f.file(t, c), tokenizer.Config{})
	require.NoError(t, err)
	return tok
}

// bosOnce takes a second BOS away: the reference puts one before a text that
// begins with one, this package does not.
func bosOnce(withTemplate, ids []int32) []int32 {
	if len(withTemplate) > len(ids) && len(ids) > 0 && withTemplate[0] == ids[0] {
		return withTemplate[1:]
	}
	return withTemplate
}
