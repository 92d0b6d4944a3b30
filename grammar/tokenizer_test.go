package grammar_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/tokenizer"
)

// TestEmbeddedTokenizer walks the corpus over the vocabulary of the embedded
// model; its EOS is moved to the end, where walk looks for it.
func TestEmbeddedTokenizer(t *testing.T) {
	file, err := os.ReadFile("../model/understudy/understudy/tokenizer.json")
	require.NoError(t, err)
	tok, err := tokenizer.New(file, tokenizer.Config{})
	require.NoError(t, err)
	v := grammar.VocabularyOf(tok, tok.VocabSize()+1, []int32{int32(tok.VocabSize())})
	require.Equal(t, tok.VocabSize()+1, v.Size())
	require.Empty(t, v.MissingBytes())
	special := int32(0)
	for !tok.IsSpecial(special) {
		special++
	}
	free, err := grammar.CompileRegex(`(?s).*`, grammar.Options{})
	require.NoError(t, err)
	require.False(t, free.NewMatcher(v).Allowed(special), "a special token is no text")
	for i, schema := range lines(t, "schemas.jsonl") {
		if i%4 != 0 {
			continue
		}
		g, err := grammar.CompileJSONSchema(schema, grammar.Options{})
		require.NoError(t, err)
		text := walk(t, g, v, uint64(i))
		require.NoError(t, validator(t, schema)(text), "%s\n%s", schema, text)
	}
}
