//go:build reference

package tokenizer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/tokenizer"
)

// TestReference compares with what tools/tokenizer/reference.mjs recorded of the
// Rust tokenizers for real models.
func TestReference(t *testing.T) {
	dir := os.Getenv("TROUPE_TOKENIZER_REFERENCE")
	require.NotEmpty(t, dir, "TROUPE_TOKENIZER_REFERENCE must name the folder given to reference.mjs")
	var ref struct {
		Texts  []string `json:"texts"`
		Models map[string]struct {
			IDs         [][]int32 `json:"ids"`
			Special     [][]int32 `json:"special"`
			Decoded     []string  `json:"decoded"`
			DecodedSkip []string  `json:"decodedSkip"`
		} `json:"models"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &ref))
	require.NotEmpty(t, ref.Models)
	for folder, m := range ref.Models {
		t.Run(filepath.Base(filepath.Dir(folder)), func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join(dir, folder, "tokenizer.json"))
			require.NoError(t, err)
			start := time.Now()
			tok, err := tokenizer.New(file, tokenizer.Config{})
			require.NoError(t, err)
			loading := time.Since(start)
			bad := [4]int{}
			check := func(kind, i int, got, want any, equal bool) {
				if !equal {
					if bad[kind]++; bad[kind] <= 3 {
						t.Errorf("%s of %q:\n got %v\nwant %v", []string{"ids", "ids with template", "text", "text without control tokens"}[kind], ref.Texts[i], got, want)
					}
				}
			}
			for i, text := range ref.Texts {
				ids := tok.Encode(text, tokenizer.EncodeOptions{})
				check(0, i, ids, m.IDs[i], slices.Equal(ids, m.IDs[i]))
				special := tok.Encode(text, tokenizer.EncodeOptions{AddSpecialTokens: true})
				check(1, i, special, m.Special[i], slices.Equal(special, bosOnce(m.Special[i], m.IDs[i])))
				all, skip := tok.Decode(m.IDs[i], false), tok.Decode(m.IDs[i], true)
				check(2, i, all, m.Decoded[i], all == m.Decoded[i])
				check(3, i, skip, m.DecodedSkip[i], skip == m.DecodedSkip[i])
			}
			t.Logf("%d texts, loaded in %v, mismatches: ids %d, with template %d, text %d, text without control tokens %d",
				len(ref.Texts), loading.Round(time.Millisecond), bad[0], bad[1], bad[2], bad[3])
		})
	}
}
