package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// scoredFile is a tokenizer with made-up tokens, some of equal score.
func scoredFile(t testing.TB, typ string, tokens map[string]float64) *bpe {
	t.Helper()
	forms := []string{"<unk>"}
	for b := range 256 {
		forms = append(forms, fmt.Sprintf("<0x%02X>", b))
	}
	vocab, list, scores := map[string]int{}, [][2]any{}, []float64{}
	for form := range tokens {
		forms = append(forms, form)
	}
	for id, form := range forms {
		vocab[form] = id
		list, scores = append(list, [2]any{form, tokens[form]}), append(scores, tokens[form])
	}
	m := map[string]any{"type": typ, "byte_fallback": true, "unk_token": "<unk>", "unk_id": 0, "vocab": vocab, "scores": scores}
	if typ == typeUnigram {
		m["vocab"] = list
	}
	b, err := json.Marshal(map[string]any{"model": m, "decoder": map[string]any{"type": "Fuse"}})
	require.NoError(t, err)
	tok, err := New(b, Config{})
	require.NoError(t, err)
	return tok.model
}

// spellings has many ways to write a word, and equal scores among them.
var spellings = map[string]float64{
	"a": -1, "n": -1, "b": -4, "an": -2, "na": -2, "ana": -2, "nan": -2.5, "anan": -2.5, "aa": -1.5, "aaa": -1.5, "aaaa": -1.5, "▁": -3, "▁▁": -2, "▁▁▁": -2, "é": -2, "éa": -1, "日a": -3,
}

func piecesText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "n", "b", "▁", "é", "日", "\xff"}), 1, 60).Draw(t, "word"), "")
	})
}

// mergeByScore is SentencePiece's merging as it is defined.
func mergeByScore(m *bpe, word string) (out []int32) {
	var parts []string
	for _, r := range []rune(word) {
		parts = append(parts, string(r))
	}
	for {
		best, at := math.Inf(-1), -1
		for i := 1; i < len(parts); i++ {
			if score, ok := spellings[parts[i-1]+parts[i]]; ok && score > best {
				best, at = score, i
			}
		}
		if at < 0 {
			break
		}
		parts[at-1] += parts[at]
		parts = append(parts[:at], parts[at+1:]...)
	}
	for _, p := range parts {
		if _, ok := spellings[p]; ok {
			out = append(out, m.vocab.find(p))
			continue
		}
		for i := range len(p) {
			out = append(out, m.byteID[p[i]])
		}
	}
	return out
}

func TestMergingByScoreFollowsTheDefinition(t *testing.T) {
	m := scoredFile(t, typeScoredBPE, spellings)
	rapid.Check(t, func(t *rapid.T) {
		word := strings.ReplaceAll(piecesText().Draw(t, "word"), "\xff", "")
		if word == "" {
			return
		}
		var s mergeScratch
		require.Equal(t, mergeByScore(m, word), m.appendMerged(nil, word, &s))
	})
}

// bestScore is the highest sum of scores of all ways to write word.
func bestScore(word string, unk float64) float64 {
	best := make([]float64, len(word)+1)
	for at := len(word) - 1; at >= 0; at-- {
		_, size := utf8.DecodeRuneInString(word[at:])
		best[at] = unk + best[at+size]
		for end := at + 1; end <= len(word); end++ {
			if score, ok := spellings[word[at:end]]; ok {
				best[at] = max(best[at], score+best[end])
			}
		}
	}
	return best[0]
}

func TestUnigramFindsTheBestWay(t *testing.T) {
	m := scoredFile(t, typeUnigram, spellings)
	u := m.other.(*unigram)
	rapid.Check(t, func(t *rapid.T) {
		word := piecesText().Draw(t, "word")
		var s mergeScratch
		ids := m.appendMerged(nil, word, &s)
		sum, spelled := 0.0, ""
		for k, id := range ids {
			form := m.vocab.texts.at(id)
			require.Equal(t, len(spelled), s.offset(k))
			if b, ok := byteToken(form); ok {
				spelled += string([]byte{b})
				continue
			}
			spelled, sum = spelled+form, sum+spellings[form]
		}
		require.Equal(t, word, spelled)
		unknown := 0
		for _, r := range word {
			if r == '日' || r == utf8.RuneError {
				unknown++
			}
		}
		unknown -= strings.Count(word, "日a") * min(1, max(0, unknown)) // 日a is a token
		require.InDelta(t, bestScore(word, u.unk), sum+float64(unknown)*u.unk, 1e-9)
	})
}

// A long word costs steps in proportion to its length, and memory of one part.
func TestLongWordsOfScoredModelsCostLinearly(t *testing.T) {
	for _, typ := range []string{typeUnigram, typeScoredBPE} {
		m := scoredFile(t, typ, spellings)
		for _, char := range []string{"a", "▁", "日", "\xff"} {
			word := strings.Repeat(char, 1<<20/len(char))
			var s mergeScratch
			ids := m.appendLong(nil, word, 0, &s)
			require.Less(t, len(ids), 1<<20+1)
			require.LessOrEqual(t, s.steps, m.longest*(len(word)+len(word)/8), "%s %q", typ, char)
			require.LessOrEqual(t, cap(s.ids)+cap(s.out)+cap(s.starts)+cap(s.heap)+cap(s.best.starts), 16*maxPart, "%s %q", typ, char)
		}
	}
}

func TestLongWordsOfScoredModelsInPartsAreAsIfWhole(t *testing.T) {
	for _, typ := range []string{typeUnigram, typeScoredBPE} {
		m := scoredFile(t, typ, spellings)
		rapid.Check(t, func(t *rapid.T) {
			word := strings.Join(rapid.SliceOfN(piecesText(), 1, 20).Draw(t, "words"), "b")
			var s mergeScratch
			m.maxPart, m.partGuard = 1<<20, 1
			want := m.appendLong(nil, word, 0, &s)
			m.maxPart, m.partGuard = 192, 96
			require.Equal(t, want, m.appendLong(nil, word, 0, &s))
		})
	}
}

// Clusters by the rules of Unicode, as far as the length matters here.
func TestClusters(t *testing.T) {
	for s, want := range map[string]int{
		"a": 1, "ab": 1, "\r\n": 2, "\n\r": 1, "a\u0301b": 3, "a\u0301\u0302x": 5, "\n\u0301": 1, "x\u200db": 4, "a\u0903": 4, "\u0600a": 3, "\u0600\n": 2,
		"\u1100\u1161\u11a8x": 9, "가\u11a8": 6, "\ufffd": 3, "\xff\u0301": 3, "a🏻": 5, "क्": 6, "\u1038a": 3, "a\u1038": 1, "é": 2, "a\u200b": 1,
	} {
		require.Equal(t, want, clusterLen(s), "%q", s)
	}
}
