package tokenizer

import (
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	upperClass   = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lowerClass   = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
)

// scannedPatterns are the patterns that have scanners, as tokenizer.json files
// write them.
var scannedPatterns = map[string]string{
	"gpt2":   `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`,
	"llama3": contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"qwen2":  contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"o200k":  `[^\r\n\p{L}\p{N}]?` + upperClass + `*` + lowerClass + `+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + upperClass + `+` + lowerClass + `*` + contractions + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	"tekken": `[^\r\n\p{L}\p{N}]?` + upperClass + `*` + lowerClass + `+|[^\r\n\p{L}\p{N}]?` + upperClass + `+` + lowerClass + `*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
}

// splitText draws text from the characters and pieces that patterns look at.
func splitText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{
				"a", "b", "s", "S", "B", "ǅ", "ʰ", "あ", "漢", "\u0301", "\u0903", "ä", "Ä", "Σ", "1", "2", "٣", "½", "Ⅷ",
				" ", "  ", "\t", "\n", "\r", "\r\n", "\u00a0", "\u3000", "\u0085", "\u2028", "'", "'s", "'LL", "'re", "'Ve", "'x", "’s",
				".", "/", "!", "_", "-", "🙂", "\u200d", "\u200b", "\x00", "𝕳", "𝒶", "𠜎", "<|", "|>",
			}),
			rapid.Map(rapid.Rune(), func(r rune) string { return string(r) }),
		), 0, 30).Draw(t, "parts")
		// The reference folds the long s to s and the Kelvin sign to k, the
		// engine used as an oracle here does not.
		return strings.NewReplacer("ſ", "", "\u212a", "").Replace(strings.Join(parts, ""))
	})
}

func TestScannersAgreeWithTheirPatterns(t *testing.T) {
	for name, pattern := range scannedPatterns {
		t.Run(name, func(t *testing.T) {
			sc := knownScanner(pattern)
			require.NotNil(t, sc)
			re := regexp2.MustCompile(pattern)
			rapid.Check(t, func(t *rapid.T) {
				text := splitText().Draw(t, "text")
				want := []string{}
				require.NoError(t, re.FindRunesMatches([]rune(text), 0, func(m regexp2.MatchView) bool {
					i, n, _ := m.GroupRange(0)
					want = append(want, string([]rune(text)[i:i+n]))
					return true
				}))
				got := []string{}
				for s := text; s != ""; {
					n := sc.next(s)
					require.Positive(t, n)
					got = append(got, s[:n])
					s = s[n:]
				}
				require.Equal(t, want, got)
			})
		})
	}
}

func TestScannersTakeAnyBytes(t *testing.T) {
	for name, pattern := range scannedPatterns {
		t.Run(name, func(t *testing.T) {
			sc := knownScanner(pattern)
			rapid.Check(t, func(t *rapid.T) {
				s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
				for s != "" {
					n := sc.next(s)
					require.True(t, n > 0 && n <= len(s))
					s = s[n:]
				}
			})
		})
	}
}

func TestContractionFoldsLongS(t *testing.T) {
	for text, want := range map[string]int{
		"'s": 2, "'S": 2, "'ſ": 3, "'ſx": 3, "'ll": 3, "'lL": 3, "'l": 0, "'le": 0, "'re": 3, "'rl": 0, "'VE": 3, "'m": 2, "'": 0, "": 0, "s": 0, "'x": 0, "'\xc5": 0,
	} {
		require.Equal(t, want, contraction(text, 0), "%q", text)
	}
}

func TestPatternWindowsDoNotShow(t *testing.T) {
	for _, pattern := range []string{scannedPatterns["llama3"], `[aeiou]|\d+`, `\p{Lu}\p{Ll}*`} {
		for name, b := range behaviors {
			t.Run(name, func(t *testing.T) {
				whole, err := newRegexStage(pattern, b, false)
				require.NoError(t, err)
				parts, err := newRegexStage(pattern, b, false)
				require.NoError(t, err)
				parts.window, parts.guard = 150, 60
				rapid.Check(t, func(t *rapid.T) {
					text := strings.Join(rapid.SliceOfN(splitText(), 1, 12).Draw(t, "texts"), "e1 ")
					require.Equal(t, pieces(whole, text), pieces(parts, text))
				})
			})
		}
	}
}

// recordStage takes the pieces of another stage.
type recordStage struct{ pieces []string }

func (r *recordStage) split(_ *encoder, _ int, s string) bool {
	r.pieces = append(r.pieces, s)
	return true
}

func pieces(st stage, text string) []string {
	r := &recordStage{}
	st.split(&encoder{t: &Tokenizer{stages: []stage{r}}}, 0, text)
	return r.pieces
}
