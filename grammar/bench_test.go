package grammar_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

// syntheticVocabulary imitates a byte-level BPE of n tokens: all bytes, JSON
// punctuation, words with and without space, numbers, other scripts, EOS last.
func syntheticVocabulary(n int) *grammar.Vocabulary {
	rng := rand.New(rand.NewPCG(1, 2))
	var tokens [][]byte
	seen := map[string]bool{}
	add := func(s string) {
		if !seen[s] && len(tokens) < n-1 {
			seen[s] = true
			tokens = append(tokens, []byte(s))
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	punctuation := []string{`"`, `",`, `":`, `"}`, `"]`, `{"`, `["`, `: "`, `","`, `":"`, `\"`, `\\`, `\n`, "\n", "  ", "}}", "]]", "[]", "{}", ", ", ": "}
	for _, a := range punctuation {
		add(a)
		for _, b := range punctuation {
			add(a + b)
		}
	}
	for i := 2; i <= 64; i++ {
		add(fmt.Sprintf("%*s", i, ""))
		add(fmt.Sprintf("%0*d", i%4, i))
	}
	for len(tokens) < n-1 {
		word := make([]rune, 1+min(rng.IntN(5)+rng.IntN(7), 14))
		first, span := 'a', int32(26)
		switch rng.IntN(10) {
		case 0:
			first, span = 'а', 32
		case 1:
			first, span = '一', 3000
			word = word[:1+len(word)/5]
		}
		for i := range word {
			word[i] = first + rng.Int32N(span)
		}
		switch s := string(word); rng.IntN(12) {
		case 0:
			add(s + `"`)
		case 1, 2, 3, 4, 5:
			add(" " + s)
		default:
			add(s)
		}
	}
	tokens = append(tokens, []byte("</s>"))
	return grammar.NewVocabulary(tokens, grammar.VocabularyOptions{EOS: []int32{int32(n - 1)}})
}

const benchSchema = `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string","pattern":"^[a-z]{1,40}$"},
	"s":{"type":"string","maxLength":200},"v":{"type":"number"},"e":{"enum":["red","green","blue"]}},"required":["k","s","v","e"],"additionalProperties":false},"maxItems":50}},"required":["a"],"additionalProperties":false}`

// benchText is a text of benchSchema.
func benchText() string {
	text := `{"a":[`
	for i := range 20 {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"k":"abcdefgh","s":"the quick brown fox jumps over the lazy dog %d","v":%d.5,"e":"green"}`, i, i)
	}
	return text + "]}"
}

// tokenize cuts text into the longest tokens.
func tokenize(v *grammar.Vocabulary, text string) []int32 {
	ids := map[string]int32{}
	for id := range int32(v.Size() - 1) {
		ids[string(v.Bytes(id))] = id
	}
	var out []int32
	for len(text) > 0 {
		n := min(len(text), 20)
		for ; n > 1; n-- {
			if _, ok := ids[text[:n]]; ok {
				break
			}
		}
		out = append(out, ids[text[:n]])
		text = text[n:]
	}
	return out
}

// BenchmarkMask measures one Mask and one Accept per token of a text: warm,
// with all masks in the cache, and cold, with a new grammar for every text.
func BenchmarkMask(b *testing.B) {
	for _, size := range []int{4_096, 131_072} {
		v := syntheticVocabulary(size)
		tokens := tokenize(v, benchText())
		mask := make([]uint64, v.MaskWords())
		run := func(b testing.TB, g *grammar.Grammar) {
			m := g.NewMatcher(v)
			for _, id := range tokens {
				m.Mask(mask)
				require.NoError(b, m.Accept(id))
			}
		}
		compile := func() *grammar.Grammar {
			g, err := grammar.CompileJSONSchema([]byte(benchSchema), grammar.Options{})
			require.NoError(b, err)
			return g
		}
		b.Run(fmt.Sprintf("warm/%d", size), func(b *testing.B) {
			g := compile()
			run(b, g)
			b.ReportAllocs()
			for b.Loop() {
				run(b, g)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tokens)), "ns/token")
		})
		b.Run(fmt.Sprintf("cold/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run(b, compile())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tokens)), "ns/token")
		})
		b.Run(fmt.Sprintf("cached/%d", size), func(b *testing.B) {
			g := compile()
			m := g.NewMatcher(v)
			for _, id := range tokens[:12] {
				require.NoError(b, m.Accept(id))
			}
			m.Mask(mask)
			b.ReportAllocs()
			for b.Loop() {
				m.Mask(mask)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, err := grammar.CompileJSONSchema([]byte(benchSchema), grammar.Options{})
		require.NoError(b, err)
	}
}

func BenchmarkNewVocabulary(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		syntheticVocabulary(131_072)
	}
}

// TestCachedMaskAllocatesNothing holds for every kind of state in the text.
func TestCachedMaskAllocatesNothing(t *testing.T) {
	v := syntheticVocabulary(4_096)
	g, err := grammar.CompileJSONSchema([]byte(benchSchema), grammar.Options{})
	require.NoError(t, err)
	m := g.NewMatcher(v)
	mask := make([]uint64, v.MaskWords())
	for _, id := range tokenize(v, benchText()[:400]) {
		m.Mask(mask)
		require.Zero(t, testing.AllocsPerRun(3, func() { m.Mask(mask) }))
		require.NoError(t, m.Accept(id))
	}
}
