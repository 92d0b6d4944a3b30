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
	tokens := make([][]byte, tok.VocabSize()+1)
	o := grammar.VocabularyOptions{EOS: []int32{int32(tok.VocabSize())}}
	for id := range int32(tok.VocabSize()) {
		tokens[id] = tok.TokenBytes(id)
		if tok.IsSpecial(id) {
			o.Special = append(o.Special, id)
		}
	}
	v := grammar.NewVocabulary(tokens, o)
	require.NotEmpty(t, o.Special)
	require.Empty(t, v.MissingBytes())
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
