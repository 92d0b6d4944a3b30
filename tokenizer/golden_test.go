package tokenizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/tokenizer"
)

func TestUnderstudyGolden(t *testing.T) {
	var golden struct {
		Strings []struct {
			Text    string  `json:"text"`
			IDs     []int32 `json:"ids"`
			Decoded string  `json:"decoded"`
		} `json:"strings"`
	}
	readJSON(t, "../model/understudy/testdata/tokenizer_golden.json", &golden)
	require.Len(t, golden.Strings, 70)
	tok := understudy(t)
	for _, g := range golden.Strings {
		ids := tok.Encode(g.Text, tokenizer.EncodeOptions{})
		require.Equal(t, g.IDs, ids, "%q", g.Text)
		require.Equal(t, g.Decoded, tok.Decode(ids, false), "%q", g.Text)
	}
}

func TestFeaturesMatchReference(t *testing.T) {
	f := readFeatures(t)
	require.Greater(t, len(f.Cases), 60)
	for i := range f.Cases {
		c := &f.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			tok := f.load(t, c)
			for i, text := range c.Texts {
				require.Equal(t, c.IDs[i], tok.Encode(text, tokenizer.EncodeOptions{}), "ids of %q", text)
				require.Equal(t, bosOnce(c.Special[i], c.IDs[i]), tok.Encode(text, tokenizer.EncodeOptions{AddSpecialTokens: true}), "ids of %q with template", text)
				require.Equal(t, c.Decoded[i], tok.Decode(c.IDs[i], true), "text of %q", text)
			}
		})
	}
}
