package grammar_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

// requireMasks compares whole masks with what single steps say along a random
// walk.
func requireMasks(t *testing.T, g *grammar.Grammar, v *grammar.Vocabulary, seed uint64, source string) {
	t.Helper()
	mask := make([]uint64, v.MaskWords()+1)
	rng := rand.New(rand.NewPCG(seed, 1))
	m := g.NewMatcher(v)
	for range 25 {
		mask[len(mask)-1] = 1 // must become zero
		m.Mask(mask)
		var ids []int32
		for id := range int32(v.Size()) {
			if m.Allowed(id) {
				ids = append(ids, id)
			}
		}
		require.Equal(t, ids, allowed(mask), "%s", source)
		require.NoError(t, m.Accept(ids[rng.IntN(len(ids))]))
		if m.Done() {
			return
		}
	}
}

// TestMaskAgreesWithSteps proves the caches and the walks, on every schema of
// the corpus and on regular expressions, the ambiguous ones too.
func TestMaskAgreesWithSteps(t *testing.T) {
	v := jsonVocabulary()
	for i, schema := range lines(t, "schemas.jsonl") {
		g, err := grammar.CompileJSONSchema(schema, grammar.Options{})
		require.NoError(t, err)
		for range 2 { // the second walk meets a filled cache
			requireMasks(t, g, v, uint64(i), string(schema))
		}
	}
	for _, p := range patterns {
		g, err := grammar.CompileRegex(p, grammar.Options{})
		require.NoError(t, err)
		for seed := range uint64(20) {
			requireMasks(t, g, v, seed, p)
		}
	}
}

func recursive(t testing.TB) *grammar.Grammar {
	t.Helper()
	g, err := grammar.CompileJSONSchema([]byte(`{"$defs":{"n":{"type":"object","properties":{"v":{"type":"string","minLength":1,"maxLength":9},
		"k":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["v","k"],"additionalProperties":false}},"$ref":"#/$defs/n"}`), grammar.Options{})
	require.NoError(t, err)
	return g
}

// TestRollback undoes random numbers of tokens: the masks must be those that
// were there before.
func TestRollback(t *testing.T) {
	g, v := recursive(t), jsonVocabulary()
	rng := rand.New(rand.NewPCG(3, 3))
	for range 30 {
		m := g.NewMatcher(v)
		var masks [][]uint64
		for len(masks) < 3*grammar.MaxRollback {
			mask := make([]uint64, v.MaskWords())
			m.Mask(mask)
			masks = append(masks, mask)
			if rng.IntN(5) == 0 {
				n := rng.IntN(min(len(masks), grammar.MaxRollback+1))
				m.Rollback(n)
				masks = masks[:len(masks)-n]
				again := make([]uint64, v.MaskWords())
				m.Mask(again)
				require.Equal(t, masks[len(masks)-1], again)
			}
			ids := allowed(masks[len(masks)-1])
			require.NoError(t, m.Accept(ids[rng.IntN(len(ids))]))
			if m.Done() {
				break
			}
		}
	}
	m := g.NewMatcher(v)
	require.Panics(t, func() { m.Rollback(1) })
}

func TestEndAndRollback(t *testing.T) {
	g, err := grammar.CompileChoice([]string{"a", "ab"}, grammar.Options{})
	require.NoError(t, err)
	v := bytesVocabulary()
	eos := int32(v.Size() - 1)
	m := g.NewMatcher(v)
	require.Error(t, m.Accept(eos))
	require.NoError(t, m.Accept('a'))
	require.False(t, m.Done())
	require.Empty(t, m.Forced())
	require.NoError(t, m.Accept(eos))
	require.True(t, m.Done())
	mask := make([]uint64, v.MaskWords())
	m.Mask(mask)
	require.Equal(t, []int32{eos}, allowed(mask))
	require.Error(t, m.Accept('b'))
	require.False(t, m.Allowed('b'))
	require.NoError(t, m.Accept(eos))
	m.Rollback(2)
	require.NoError(t, m.Accept('b'))
	require.True(t, m.Done())
	require.Error(t, m.Accept(-1))
	require.Error(t, m.Accept(eos+1))
}

func TestCloneIsIndependent(t *testing.T) {
	g, v := recursive(t), jsonVocabulary()
	m := g.NewMatcher(v)
	for _, b := range []byte(`{"v":"x`) {
		require.NoError(t, m.Accept(int32(b)))
	}
	c := m.Clone()
	require.NoError(t, c.Accept('"'))
	require.Equal(t, `,`, string(c.Forced()))
	require.NoError(t, m.Accept('y'))
	c.Rollback(2)
	require.NoError(t, c.Accept('z'))
	require.NoError(t, m.Accept('"'))
	require.Equal(t, `,`, string(m.Forced()))
}

func TestForced(t *testing.T) {
	g, v := recursive(t), jsonVocabulary()
	m := g.NewMatcher(v)
	require.Equal(t, `{"v":`, string(m.Forced()))
	for _, b := range []byte(`{"v":"x","k":[`) {
		require.NoError(t, m.Accept(int32(b)))
	}
	require.Empty(t, m.Forced())
	require.NoError(t, m.Accept('{'))
	require.Equal(t, `"v":`, string(m.Forced()))
}

// TestDepthIsBounded goes down as far as it can: the way back must be open.
func TestDepthIsBounded(t *testing.T) {
	g, v := recursive(t), bytesVocabulary()
	m := g.NewMatcher(v)
	text, depth := "", 0
	for {
		before := m.Clone()
		ok := true
		for _, b := range []byte(`{"v":"x","k":[`) {
			ok = ok && m.Accept(int32(b)) == nil
		}
		if !ok {
			m = before
			break
		}
		text += `{"v":"x","k":[`
		depth++
		require.LessOrEqual(t, depth, grammar.MaxDepth)
	}
	require.Greater(t, depth, 50)
	mask := make([]uint64, v.MaskWords())
	m.Mask(mask)
	require.Equal(t, []int32{']'}, allowed(mask))
	for range depth {
		require.NoError(t, m.Accept(']'))
		require.NoError(t, m.Accept('}'))
	}
	require.True(t, m.Done())
}

func TestSpecialTokensAreNeverInside(t *testing.T) {
	tokens := [][]byte{[]byte("a"), []byte("<tool>"), []byte("b"), nil, []byte("</s>"), []byte("<eot>"), []byte("ab")}
	v := grammar.NewVocabulary(tokens, grammar.VocabularyOptions{EOS: []int32{4, 5, 99, 4}, Special: []int32{1, -1, 50}})
	g, err := grammar.CompileRegex(`.*`, grammar.Options{})
	require.NoError(t, err)
	mask := make([]uint64, 1)
	g.NewMatcher(v).Mask(mask)
	require.Equal(t, []int32{0, 2, 4, 5, 6}, allowed(mask))
	require.Error(t, g.NewMatcher(v).Accept(1))
	require.Error(t, g.NewMatcher(v).Accept(3))
	require.Len(t, v.MissingBytes(), 0xf5-2-2)
	require.Empty(t, bytesVocabulary().MissingBytes())
}

// TestConcurrentMatchers shares a grammar with a small cache among goroutines.
func TestConcurrentMatchers(t *testing.T) {
	v := jsonVocabulary()
	g, err := grammar.CompileJSONSchema([]byte(`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string","maxLength":7},"b":{"type":"number"}},"additionalProperties":{}}}`),
		grammar.Options{CacheBytes: 4096})
	require.NoError(t, err)
	want := make([]string, 8)
	for i := range want {
		want[i] = walk(t, g, v, uint64(i))
	}
	var wg sync.WaitGroup
	got := make([]string, len(want))
	for i := range got {
		wg.Go(func() { got[i] = walk(t, g, v, uint64(i)) })
	}
	wg.Wait()
	require.Equal(t, want, got)
}

func TestManyVocabularies(t *testing.T) {
	g, err := grammar.CompileChoice([]string{"yes"}, grammar.Options{})
	require.NoError(t, err)
	for range 10 {
		require.Equal(t, "yes", walk(t, g, bytesVocabulary("es"), 1))
	}
}
