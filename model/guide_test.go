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

// heavyGrammars take long for their masks, as their patterns can be read in many ways.
func heavyGrammars(t *testing.T, v *grammar.Vocabulary) (all []infer.Grammar) {
	for _, pattern := range []string{`.{1,40}, .{1,40}, .{1,40}`, `(\w+ ?){1,30}(a|ab|b?c){0,20}`, `(.{0,30}[aeiou]){1,9}`, `([ -~]{1,3}){5,40}`} {
		g, err := grammar.CompileRegex(pattern, grammar.Options{Param: "regex"})
		require.NoError(t, err)
		all = append(all, g.Over(v))
	}
	return all
}

// TestHeavyGrammarsWaitBesideTheSteps: masks that take long are found beside the steps.
// Their sequences get the same tokens as ever, alone, in company, under speculation and
// when their blocks are taken away; those of others get one in every step.
func TestHeavyGrammarsWaitBesideTheSteps(t *testing.T) {
	words := embeddedTokenizer(t)
	g := readGolden(t)
	v := grammar.VocabularyOf(words, words.VocabSize(), g.EOSTokenIDs)
	var heavy []infer.Grammar
	params := func(i int) *infer.SamplingParams {
		p := greedy(-1)
		p.Temperature, p.Seed, p.MaxTokens, p.EOSTokenIDs = 1, uint64(i), 48, g.EOSTokenIDs
		if i%2 == 0 {
			p.Grammar = heavy[i/2%len(heavy)]
		}
		return p
	}
	prompts := drawPrompts(rand.New(rand.NewPCG(7, 8)), 8, words.VocabSize())
	var want []answer
	for _, shape := range []struct {
		method       string
		seqs, blocks int
	}{{"off", 1, 0}, {"off", 8, 150}, {"ngram", 8, 0}, {"draft", 8, 150}} {
		e := newEngine(t, speculations()[shape.method], func(o *model.Options, c *scheduler.Config) {
			o.MaxNumSeqs, c.MaxNumSeqs = shape.seqs, shape.seqs
			if shape.blocks > 0 {
				o.BlockSize, o.NumBlocksOverride, o.MaxModelLen = 1, shape.blocks, shape.blocks
			}
		})
		heavy = heavyGrammars(t, v) // anew: nothing is known of their masks
		got := e.run(t, prompts, params)
		if want == nil {
			want = got
		}
		for i := range want {
			require.Equal(t, want[i].tokens, got[i].tokens, "%v: prompt %d", shape, i)
			require.Equal(t, want[i].reason, got[i].reason, "%v: prompt %d", shape, i)
		}
		require.Positive(t, e.numDeferred, "%v: no mask was late", shape)
		if shape.blocks > 0 {
			require.Positive(t, e.numPreemptions, "nothing was preempted")
		}
		t.Logf("%v: %d steps for %d tokens, %d rows without one", shape, e.numSteps, e.numTokens, e.numDeferred)
	}
}
