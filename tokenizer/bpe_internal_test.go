package tokenizer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// embedded returns the tokenizer of the embedded model.
func embedded(t testing.TB) *Tokenizer {
	t.Helper()
	b, err := os.ReadFile("../model/understudy/understudy/tokenizer.json")
	require.NoError(t, err)
	tok, err := New(b, Config{})
	require.NoError(t, err)
	return tok
}

// mergeSimply merges as the definition of byte-pair encoding says: the lowest
// rank first, the leftmost of equal rank, until nothing merges.
func mergeSimply(m *bpe, ids []int32) []int32 {
	for {
		best, at := noRank, -1
		for i := 1; i < len(ids); i++ {
			if r := m.merges.rank(ids[i-1], ids[i]); r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return ids
		}
		ids[at-1] = m.merges.merged[best]
		ids = append(ids[:at], ids[at+1:]...)
	}
}

// unbroken draws a word made of few kinds of pieces, so that much merges.
func unbroken(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		alphabet := rapid.SampledFrom([][]string{{"a"}, {"a", "n"}, {"the", "an", "in", "er"}, {"s", "t", "a", "i", "o", "n", "e", "é", "日"}}).Draw(t, "alphabet")
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 1, most).Draw(t, "word"), "")
	})
}

func TestMergingByScanAndByHeapFollowTheDefinition(t *testing.T) {
	m := embedded(t).model
	rapid.Check(t, func(t *rapid.T) {
		word := unbroken(120).Draw(t, "word")
		var s mergeScratch
		m.symbols(word, &s)
		want := mergeSimply(m, append([]int32(nil), s.ids...))
		m.mergeByHeap(&s)
		require.Equal(t, want, s.ids, "heap")
		at := 0
		for k, id := range s.ids {
			require.Equal(t, at, s.offset(k))
			at += len(alphabetText(m, id))
		}
		m.symbols(word, &s)
		m.mergeByScan(&s)
		require.Equal(t, want, s.ids, "scan")
	})
}

func alphabetText(m *bpe, id int32) string {
	raw, _ := alphabet.raw(m.vocab.texts.at(id))
	return raw
}

func TestLongWordsInPartsAreAsIfWhole(t *testing.T) {
	m := embedded(t).model
	m.maxPart, m.partGuard = 96, 32
	rapid.Check(t, func(t *rapid.T) {
		word := unbroken(400).Draw(t, "word")
		var s mergeScratch
		m.symbols(word, &s)
		want := mergeSimply(m, append([]int32(nil), s.ids...))
		require.Equal(t, want, m.appendLong(nil, word, 0, &s))
	})
}

func TestLongWordStopsAtLimit(t *testing.T) {
	m := embedded(t).model
	var s mergeScratch
	word := strings.Repeat("a", 1<<20)
	out := m.appendLong(nil, word, 100, &s)
	require.Greater(t, len(out), 100)
	require.LessOrEqual(t, len(out), maxPart)
	require.LessOrEqual(t, cap(s.ids), 2*maxPart, "scratch memory is bounded by the part, not by the word")
}

func TestWordCacheIsBoundedAndExact(t *testing.T) {
	c := newWordCache(8)
	for round := range 3 {
		for i := range 1000 {
			word := strings.Repeat("w", i%40) + string(rune('a'+i%26))
			c.put(word, []int32{int32(i % 40), int32(i % 26)})
			ids, ok := c.get(word)
			require.True(t, ok, "round %d", round)
			require.Equal(t, []int32{int32(i % 40), int32(i % 26)}, ids)
		}
	}
	require.Len(t, c.slots, 8)
	_, ok := c.get("never put")
	require.False(t, ok)
}
