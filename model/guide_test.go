package model_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/scheduler"
	"github.com/troupe-llm/troupe/tokenizer"
)

func embeddedTokenizer(t *testing.T) *tokenizer.Tokenizer {
	b, err := understudy.Embedded().File("tokenizer.json")
	require.NoError(t, err)
	words, err := tokenizer.New(b, tokenizer.Config{})
	require.NoError(t, err)
	return words
}

const citySchema = `{"type":"object","properties":{"city":{"type":"string","maxLength":8},"sizes":{"type":"array","items":{"type":"integer","minimum":-5,"maximum":120},"minItems":1,"maxItems":3},"kind":{"enum":["big","small"]}},"required":["city","sizes","kind"],"additionalProperties":false}`

// TestGrammarHoldsUnderSpeculation: whatever is guessed, rejected, preempted or
// chunked, what is drawn follows the grammar, and is what is drawn without guesses.
func TestGrammarHoldsUnderSpeculation(t *testing.T) {
	words := embeddedTokenizer(t)
	g := readGolden(t)
	schema, err := grammar.CompileJSONSchema([]byte(citySchema), grammar.Options{Param: "schema"})
	require.NoError(t, err)
	city := schema.Over(grammar.VocabularyOf(words, words.VocabSize(), g.EOSTokenIDs))
	params := func(i int) *infer.SamplingParams {
		p := variedParams(g.EOSTokenIDs)(i)
		p.Grammar, p.MaxTokens, p.BadWords, p.LogitBias = city, 200, nil, nil
		if i%5 == 0 {
			p.MinTokens = 150 // the grammar ends the text long before
		}
		return p
	}
	prompts := drawPrompts(rand.New(rand.NewPCG(5, 6)), 24, words.VocabSize())
	var want []answer
	for _, name := range []string{"off", "ngram", "draft"} {
		for _, tight := range []bool{false, true} {
			e := newEngine(t, speculations()[name], func(o *model.Options, c *scheduler.Config) {
				if tight {
					o.MaxNumSeqs, o.MaxNumBatchedTokens, o.BlockSize, o.NumBlocksOverride, o.MaxModelLen = 8, 40, 1, 280, 280
					c.MaxNumSeqs, c.MaxNumBatchedTokens = 8, 40
				}
			})
			got := e.run(t, prompts, params)
			if want == nil {
				want = got
			}
			for i, a := range got {
				require.Equal(t, want[i].tokens, a.tokens, "%s %d", name, i)
				require.Equal(t, infer.FinishStop, a.reason)
				var v struct {
					City  string `json:"city"`
					Sizes []int  `json:"sizes"`
					Kind  string `json:"kind"`
				}
				text := words.Decode(a.tokens, true)
				require.NoError(t, json.Unmarshal([]byte(text), &v), text)
				require.Contains(t, []string{"big", "small"}, v.Kind)
				require.NotEmpty(t, v.Sizes)
			}
			if name != "off" {
				require.Positive(t, e.numAccepted)
			}
		}
	}
}
