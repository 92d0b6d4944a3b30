package grammar_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/scheduler"
	"github.com/troupe-llm/troupe/tokenizer"
)

// corpusSeeds is with how many seeds the embedded model answers the corpus; with one, it
// answers every ninth schema: go test ./grammar -run EmbeddedModel -args -corpus-seeds 4.
var corpusSeeds = flag.Int("corpus-seeds", 1, "seeds with which the embedded model answers the corpus of schemas")

// embeddedModel is the embedded model with what it takes to run it.
type embeddedModel struct {
	runner *model.Runner
	words  *tokenizer.Tokenizer
	eos    []int32
}

func newEmbeddedModel(t *testing.T, s *model.Speculation) *embeddedModel {
	folder := understudy.Embedded()
	raw, err := folder.File("tokenizer.json")
	require.NoError(t, err)
	words, err := tokenizer.New(raw, tokenizer.Config{})
	require.NoError(t, err)
	backend, err := cpu.New(cpu.Options{})
	require.NoError(t, err)
	m, err := model.Load(folder, model.Options{Backend: backend, MaxNumSeqs: 32, MaxNumBatchedTokens: 1024, Speculation: s})
	require.NoError(t, err)
	runner, err := m.NewRunner()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, runner.Close())
		require.NoError(t, backend.Close())
	})
	return &embeddedModel{runner, words, m.EOSTokenIDs()}
}

// answer samples one text for each grammar, several at a time.
func (e *embeddedModel) answer(t *testing.T, grammars []*grammar.Grammar, seed uint64) (texts []string, reasons []infer.FinishReason) {
	spec := e.runner.Spec()
	s, err := scheduler.New(scheduler.Config{
		MaxNumSeqs: 32, MaxNumBatchedTokens: 1024, MaxModelLen: spec.MaxModelLen, EnableChunkedPrefill: true, EnablePrefixCaching: true,
		NumBlocks: spec.NumBlocks, BlockSize: spec.BlockSize, NumSpecTokens: spec.NumSpecTokens, NumLookaheadSlots: spec.NumLookaheadSlots,
	})
	require.NoError(t, err)
	v := grammar.VocabularyOf(e.words, e.words.VocabSize(), e.eos)
	prompt := e.words.Encode("<|im_start|>user\nAnswer in JSON.<|im_end|>\n<|im_start|>assistant\n", tokenizer.EncodeOptions{})
	for i, g := range grammars {
		require.NoError(t, s.Add(scheduler.NewSequence(scheduler.SequenceOptions{ID: infer.SeqID(i + 1), Prompt: prompt, Tag: i, Params: &infer.SamplingParams{
			Temperature: 1, TopP: 1, RepetitionPenalty: 1, NumLogprobs: -1, NumPromptLogprobs: -1, MaxTokens: 300,
			EOSTokenIDs: e.eos, Seed: seed<<32 + uint64(i), Grammar: g.Over(v),
		}})))
	}
	tokens := make([][]int32, len(grammars))
	reasons = make([]infer.FinishReason, len(grammars))
	done := make(chan *infer.StepResult, 1)
	for plan := s.Schedule(); plan != nil; plan = s.Schedule() {
		var failed error
		e.runner.Launch(plan, func(res *infer.StepResult, err error) { failed = err; done <- res })
		res := <-done
		require.NoError(t, failed)
		for _, out := range s.Commit(res) {
			i := out.Seq.Tag.(int)
			require.NoError(t, out.Err)
			tokens[i] = append(tokens[i], out.NewTokenIDs...)
			reasons[i] = out.FinishReason
		}
	}
	for _, ids := range tokens {
		texts = append(texts, e.words.Decode(ids, true))
	}
	return texts, reasons
}

// TestEmbeddedModelKeepsToSchemas: what the embedded model draws, with and without
// speculation, validates unless it was cut.
func TestEmbeddedModelKeepsToSchemas(t *testing.T) {
	var schemas [][]byte
	var grammars []*grammar.Grammar
	for i, schema := range lines(t, "schemas.jsonl") {
		if *corpusSeeds == 1 && i%9 != 0 {
			continue
		}
		g, err := grammar.CompileJSONSchema(schema, grammar.Options{CacheBytes: 1 << 20})
		require.NoError(t, err)
		schemas, grammars = append(schemas, schema), append(grammars, g)
	}
	for name, speculation := range map[string]*model.Speculation{"off": nil, "ngram": {NumTokens: 4, LookupMin: 1, LookupMax: 3}} {
		e := newEmbeddedModel(t, speculation)
		for seed := range uint64(*corpusSeeds) {
			texts, reasons := e.answer(t, grammars, seed)
			complete := 0
			for i, text := range texts {
				if reasons[i] == infer.FinishLength {
					continue
				}
				complete++
				require.Equal(t, infer.FinishStop, reasons[i])
				require.NoError(t, validator(t, schemas[i])(text), "%s, seed %d: %s\n%s", name, seed, schemas[i], text)
			}
			require.Greater(t, complete, len(texts)*3/4)
			t.Logf("%s, seed %d: %d of %d texts came to their end", name, seed, complete, len(texts))
		}
	}
}
