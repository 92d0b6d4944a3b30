package actors

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func TestGrammarsAreRemembered(t *testing.T) {
	g := newGrammars(testkit.Tokenizer(), testkit.NumTokens+7, []int32{testkit.EOS})
	none, err := g.compile(nil)
	require.Nil(t, none)
	require.Nil(t, err)
	for i := range 3 * maxGrammars {
		made, err := g.compile(&infer.StructuredOutput{Regex: fmt.Sprint("a", i%maxGrammars)})
		require.Nil(t, err)
		again, err := g.compile(&infer.StructuredOutput{Regex: fmt.Sprint("a", i%maxGrammars)})
		require.Nil(t, err)
		require.Same(t, made.(*boundGrammar).grammar, again.(*boundGrammar).grammar)
	}
	for i := range 3 * maxGrammars {
		_, err := g.compile(&infer.StructuredOutput{Choice: []string{fmt.Sprint(i)}})
		require.Nil(t, err)
		require.LessOrEqual(t, len(g.byKey), maxGrammars)
		require.Len(t, g.oldest, len(g.byKey))
	}
	_, err = g.compile(&infer.StructuredOutput{Param: "response_format", Path: "response_format.json_schema.schema", JSONSchema: []byte(`{"uniqueItems":true,"type":"array"}`)})
	require.NotNil(t, err)
	require.Equal(t, infer.CodeInvalid, err.Code)
	require.Equal(t, "response_format", err.Param)
	require.Contains(t, err.Message, "response_format.json_schema.schema")
	require.Contains(t, err.Message, "uniqueItems")
}

// Requests that differ in one thing only never share a grammar.
func TestGrammarKeys(t *testing.T) {
	seen := map[grammarKey]int{}
	for i, s := range []infer.StructuredOutput{
		{}, {JSONObject: true}, {JSONSchema: []byte("a")}, {Regex: "a"}, {EBNF: "a"}, {Choice: []string{"a"}}, {Choice: []string{"a", "b"}},
		{Choice: []string{"ab"}}, {Choice: []string{"", "ab"}}, {Choice: []string{"b", "a"}}, {Param: "a"}, {Path: "a"}, {Param: "a", Regex: "a"},
	} {
		key := keyOf(&s)
		_, dup := seen[key]
		require.False(t, dup, "%d and %d", i, seen[key])
		seen[key] = i
	}
}

// The matcher counts what it has accepted, whatever is undone, and allows the
// end of the sequence only where the text is complete.
func TestBoundGrammar(t *testing.T) {
	g := newGrammars(testkit.Tokenizer(), testkit.NumTokens+7, []int32{testkit.EOS})
	made, err := g.compile(&infer.StructuredOutput{Regex: "ab?"})
	require.Nil(t, err)
	m := made.NewMatcher()
	mask := make([]uint64, (testkit.NumTokens+7+63)/64)
	allows := func(id int32) bool { m.Mask(mask); return mask[id/64]>>(id%64)&1 != 0 }
	require.True(t, allows('a'))
	require.False(t, allows('b'))
	require.False(t, allows(testkit.EOS))
	require.Error(t, m.Accept('b'))
	require.Zero(t, m.NumAccepted())
	require.NoError(t, m.Accept('a'))
	require.True(t, allows('b'))
	require.True(t, allows(testkit.EOS))
	require.NoError(t, m.Accept('b'))
	require.False(t, allows('b'))
	require.Equal(t, 2, m.NumAccepted())
	m.Rollback(2)
	require.Zero(t, m.NumAccepted())
	require.False(t, allows(testkit.EOS))
}
