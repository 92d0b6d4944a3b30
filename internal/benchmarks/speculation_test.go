package benchmarks_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/grammar"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/scheduler"
	"github.com/troupe-llm/troupe/tokenizer"
)

// decoder is the embedded model with its scheduler, and nothing around them.
type decoder struct {
	runner *model.Runner
	config scheduler.Config
	words  *tokenizer.Tokenizer
	eos    []int32
}

func newDecoder(b *testing.B, s *model.Speculation, seats int) *decoder {
	b.Helper()
	backend, err := cpu.New(cpu.Options{})
	require.NoError(b, err)
	folder := understudy.Embedded()
	m, err := model.Load(folder, model.Options{Backend: backend, MaxNumSeqs: seats, MaxNumBatchedTokens: 2048, Speculation: s})
	require.NoError(b, err)
	raw, err := folder.File("tokenizer.json")
	require.NoError(b, err)
	d := &decoder{eos: m.EOSTokenIDs()}
	d.words, err = tokenizer.New(raw, tokenizer.Config{})
	require.NoError(b, err)
	d.runner, err = m.NewRunner()
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, d.runner.Close())
		require.NoError(b, backend.Close())
	})
	spec := d.runner.Spec()
	d.config = scheduler.Config{
		MaxNumSeqs: seats, MaxNumBatchedTokens: 2048, MaxModelLen: spec.MaxModelLen, EnableChunkedPrefill: true,
		NumBlocks: spec.NumBlocks, BlockSize: spec.BlockSize, NumSpecTokens: spec.NumSpecTokens, NumLookaheadSlots: spec.NumLookaheadSlots,
	}
	return d
}

// decoded is what a run gave.
type decoded struct {
	tokens, accepted, steps int
	took                    time.Duration
}

// run drives sequences to their ends.
func (d *decoder) run(b *testing.B, prompts []string, params func(i int) *infer.SamplingParams) (r decoded) {
	sched, err := scheduler.New(d.config)
	require.NoError(b, err)
	for i, text := range prompts {
		ids := d.words.Encode("<|im_start|>user\n"+text+"<|im_end|>\n<|im_start|>assistant\n", tokenizer.EncodeOptions{})
		require.NoError(b, sched.Add(scheduler.NewSequence(scheduler.SequenceOptions{ID: infer.SeqID(i + 1), Prompt: ids, Params: params(i)})))
	}
	done := make(chan *infer.StepResult, 1)
	start := time.Now()
	for plan := sched.Schedule(); plan != nil; plan = sched.Schedule() {
		d.runner.Launch(plan, func(res *infer.StepResult, err error) {
			if err != nil {
				b.Error(err)
			}
			done <- res
		})
		r.steps++
		for _, out := range sched.Commit(<-done) {
			r.tokens += len(out.NewTokenIDs)
			r.accepted += out.NumAcceptedTokens
		}
	}
	r.took = time.Since(start)
	return r
}

func (d *decoder) greedy(maxTokens int) *infer.SamplingParams {
	return &infer.SamplingParams{TopP: 1, RepetitionPenalty: 1, NumLogprobs: -1, NumPromptLogprobs: -1, MaxTokens: maxTokens, EOSTokenIDs: d.eos}
}

// copyPrompts ask for what they hold.
func copyPrompts(n int) []string {
	stock := strings.Fields("apple river stone cloud green yellow table window garden summer winter bread butter letter number orange purple silver mountain ocean")
	r := rand.New(rand.NewPCG(1, 1))
	prompts := make([]string, n)
	for i := range prompts {
		words := make([]string, 8+r.IntN(8))
		for j := range words {
			words[j] = stock[r.IntN(len(stock))]
		}
		prompts[i] = "Repeat: " + strings.Join(words, " ")
	}
	return prompts
}

// askPrompts ask for what both embedded models know.
func askPrompts(n int) []string {
	countries := strings.Fields("France Italy Spain Japan Norway Peru Kenya Egypt Canada Brazil Chile Greece Poland Sweden Austria Ireland")
	prompts := make([]string, n)
	for i := range prompts {
		prompts[i] = fmt.Sprintf("What is the capital of %s?", countries[i%len(countries)])
	}
	return prompts
}

// BenchmarkSpeculation compares decoding with and without drafts: tokens that a
// sequence gets per step it is aboard of, and tokens per second on over off, the
// sides in turns. Goals: 2.5 tokens per step with n-grams on prompts that ask for a
// copy, 2.0 with the draft model where it agrees.
func BenchmarkSpeculation(b *testing.B) {
	for _, c := range []struct {
		name    string
		method  *model.Speculation
		prompts func(int) []string
	}{
		{"ngram", &model.Speculation{NumTokens: 6, LookupMin: 1, LookupMax: 4}, copyPrompts},
		{"draft", &model.Speculation{NumTokens: 4, Draft: understudy.EmbeddedDraft()}, askPrompts},
	} {
		for _, batch := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/batch=%d", c.name, batch), func(b *testing.B) {
				off, on := newDecoder(b, nil, batch), newDecoder(b, c.method, batch)
				prompts := c.prompts(16)
				var ratios, perStep []float64
				for range rounds * b.N {
					without := off.run(b, prompts, func(int) *infer.SamplingParams { return off.greedy(64) })
					with := on.run(b, prompts, func(int) *infer.SamplingParams { return on.greedy(64) })
					require.Equal(b, without.tokens, with.tokens)
					ratios = append(ratios, without.took.Seconds()/with.took.Seconds())
					perStep = append(perStep, float64(with.tokens)/float64(with.tokens-with.accepted))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(perStep), "tokens/step")
				b.ReportMetric(median(ratios), "on/off")
			})
		}
	}
}

// timedGrammar adds up the time that its matchers take of steps.
type timedGrammar struct {
	*grammar.Bound
	masking *time.Duration
}

type timedMatcher struct {
	infer.Matcher
	masking *time.Duration
}

func (g *timedGrammar) NewMatcher() infer.Matcher {
	return &timedMatcher{Matcher: g.Bound.NewMatcher(), masking: g.masking}
}

func (m *timedMatcher) Next(output []int32, dst []uint64, b *infer.MaskBudget) (bool, error) {
	start := time.Now()
	ok, err := m.Matcher.Next(output, dst, b)
	*m.masking += time.Since(start)
	return ok, err
}

// BenchmarkMasks decodes 32 sequences with a schema each, all different: the share of
// the step time that masks take, cold and with the caches filled. Goal: 5 %.
func BenchmarkMasks(b *testing.B) {
	const batch = 32
	d := newDecoder(b, nil, batch)
	vocabulary := grammar.VocabularyOf(d.words, d.words.VocabSize(), d.eos)
	var cold, warm []float64
	for range rounds * b.N {
		var masking time.Duration
		grammars := make([]*timedGrammar, batch)
		for i := range grammars {
			schema := fmt.Sprintf(`{"type":"object","properties":{"name%d":{"type":"string","maxLength":%d},"tags":{"type":"array","items":{"enum":["a%d","b","c"]},"minItems":3,"maxItems":%d},"size":{"type":"number"},"at":{"type":"string","format":"date-time"}},"required":["name%d","tags","size","at"],"additionalProperties":false}`,
				i, 10+i, i, 4+i, i)
			g, err := grammar.CompileJSONSchema([]byte(schema), grammar.Options{})
			require.NoError(b, err)
			grammars[i] = &timedGrammar{g.Over(vocabulary), &masking}
		}
		for _, shares := range []*[]float64{&cold, &warm} {
			masking = 0
			r := d.run(b, askPrompts(batch), func(i int) *infer.SamplingParams {
				p := d.greedy(200)
				p.Temperature, p.Seed, p.Grammar = 1, uint64(i), grammars[i]
				return p
			})
			*shares = append(*shares, 100*masking.Seconds()/r.took.Seconds())
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(cold), "%-of-step-cold")
	b.ReportMetric(median(warm), "%-of-step-warm")
}
