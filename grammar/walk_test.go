package grammar_test

import (
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
)

// walkLimit is after how many tokens a walk prefers to end.
const walkLimit = 60

// walk draws tokens from the masks until EOS. After walkLimit tokens it takes
// EOS when allowed, and among the others prefers those that close something.
func walk(t require.TestingT, g *grammar.Grammar, v *grammar.Vocabulary, seed uint64) string {
	if h, ok := t.(*testing.T); ok {
		h.Helper()
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	m := g.NewMatcher(v)
	mask := make([]uint64, v.MaskWords())
	eos := int32(v.Size() - 1)
	text := ""
	for n := 0; ; n++ {
		m.Mask(mask)
		ids := allowed(mask)
		require.NotEmpty(t, ids, "dead end after %q", text)
		require.Equal(t, m.Done(), len(ids) == 1 && ids[0] == eos, "%q", text)
		require.Less(t, n, 20_000, "no end in sight")
		token := ids[rng.IntN(len(ids))]
		if n > walkLimit && rng.IntN(4) > 0 {
			token = closing(v, ids, rng)
		}
		require.NoError(t, m.Accept(token))
		if token == eos {
			require.True(t, m.Done())
			return text
		}
		text += string(v.Bytes(token))
	}
}

// closing draws among the tokens that look most like an end.
func closing(v *grammar.Vocabulary, ids []int32, rng *rand.Rand) int32 {
	var best []int32
	rank := 9
	for _, id := range ids {
		r := 8
		switch b := v.Bytes(id); {
		case int(id) == v.Size()-1:
			r = 0
		case len(b) == 1 && strings.ContainsRune("}])\"", rune(b[0])):
			r = 1
		case len(b) == 1 && (b[0] == 'n' || b[0] == '0'):
			r = 2
		}
		if r < rank {
			best, rank = best[:0], r
		}
		if r == rank {
			best = append(best, id)
		}
	}
	return best[rng.IntN(len(best))]
}

func allowed(mask []uint64) []int32 {
	var ids []int32
	for i, w := range mask {
		for ; w != 0; w &= w - 1 {
			ids = append(ids, int32(64*i+bits.TrailingZeros64(w)))
		}
	}
	return ids
}
