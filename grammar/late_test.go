package grammar_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
)

// next is Next until it has come to its end. It returns how often that was late.
func next(t *testing.T, m *grammar.Matcher, output []int32, mask []uint64, steps int) (late int, err error) {
	t.Helper()
	for {
		done := make(chan struct{})
		b := infer.MaskBudget{Steps: steps, Late: func() { close(done) }}
		ok, err := m.Next(output, mask, &b)
		if ok || err != nil {
			return late, err
		}
		require.Less(t, b.Steps, 0, "late without having spent the budget")
		require.Greater(t, b.Steps, -1_000, "it went on beyond the budget")
		require.Equal(t, len(output), m.NumAccepted())
		late++
		<-done
	}
}

// Whatever a step may spend, masks are those of a matcher that may spend anything.
func TestMasksWithinABudget(t *testing.T) {
	v := jsonVocabulary()
	for _, source := range []func() (*grammar.Grammar, error){
		func() (*grammar.Grammar, error) {
			return grammar.CompileJSONSchema([]byte(benchSchema), grammar.Options{})
		},
		func() (*grammar.Grammar, error) {
			return grammar.CompileRegex(`(\w{1,8} ?){1,9}(a|ab|b?c){2,20}`, grammar.Options{})
		},
		func() (*grammar.Grammar, error) {
			return grammar.CompileEBNF(`root ::= ((.{0,9}){0,99} "a"? .{0,50}){0,99}`, grammar.Options{})
		},
	} {
		for _, steps := range []int{0, 40, 400, 1 << 30} {
			free, err := source()
			require.NoError(t, err)
			bound, err := source() // cold, too
			require.NoError(t, err)
			want, got := make([]uint64, v.MaskWords()), make([]uint64, v.MaskWords())
			a, b := free.NewMatcher(v), bound.NewMatcher(v)
			rng := rand.New(rand.NewPCG(uint64(steps), 3))
			var output []int32
			numLate := 0
			for range 60 {
				a.Mask(want)
				late, err := next(t, b, output, got, steps)
				require.NoError(t, err)
				require.Equal(t, want, got)
				numLate += late
				ids := allowed(want)
				id := ids[rng.IntN(len(ids))]
				if a.Accept(id) != nil || int(id) == v.Size()-1 {
					break
				}
				output = append(output, id)
				if rng.IntN(4) == 0 { // a guess that comes to nothing
					_, _ = b.Next(append(output[:len(output):len(output)], id), nil, &infer.MaskBudget{Steps: steps})
				}
			}
			switch {
			case steps < 100:
				require.Positive(t, numLate)
			case steps > 1_000_000:
				require.Zero(t, numLate)
			}
		}
	}
}

// What is wrong with a text is said late too.
func TestLateErrors(t *testing.T) {
	v := jsonVocabulary()
	g, err := grammar.CompileRegex("ab", grammar.Options{})
	require.NoError(t, err)
	m := g.NewMatcher(v)
	_, err = next(t, m, []int32{'a', 'c'}, make([]uint64, v.MaskWords()), 0)
	require.ErrorContains(t, err, "not allowed here")
}
