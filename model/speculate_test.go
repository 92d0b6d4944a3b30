package model_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
	"github.com/troupe-llm/troupe/scheduler"
)

const defaultPrompts = 30

// numPrompts is how many random prompts speculation is tried on; more than its
// default adds every golden prompt: go test ./model -run Speculation -args -prompts 500.
var numPrompts = flag.Int("prompts", defaultPrompts, "random prompts in the tests of speculation")

// speculations are the methods with their reach, the first one is none.
func speculations() map[string]*model.Speculation {
	return map[string]*model.Speculation{
		"off":     nil,
		"ngram":   {NumTokens: 4, LookupMin: 1, LookupMax: 4},
		"draft":   {NumTokens: 4, Draft: understudy.EmbeddedDraft()},
		"draft 1": {NumTokens: 1, Draft: understudy.EmbeddedDraft()},
	}
}

// engine is a runner with the real scheduler.
type engine struct {
	runner *model.Runner
	sched  *scheduler.Scheduler
	config scheduler.Config
	nextID infer.SeqID

	numSteps, numTokens                      int
	numDrafts, numDraftTokens, numAccepted   int
	numPreemptions, numCached, longestOutput int
	numDeferred                              int // rows without a token because of their masks
}

func newEngine(t testing.TB, s *model.Speculation, change func(*model.Options, *scheduler.Config)) *engine {
	return newEngineOf(t, understudy.Embedded(), s, change)
}

func newEngineOf(t testing.TB, f *model.Folder, s *model.Speculation, change func(*model.Options, *scheduler.Config)) *engine {
	o := options(t)
	o.Speculation = s
	c := scheduler.Config{
		MaxNumSeqs: o.MaxNumSeqs, MaxNumBatchedTokens: o.MaxNumBatchedTokens,
		EnableChunkedPrefill: true, EnablePrefixCaching: true,
	}
	if change != nil {
		change(&o, &c)
	}
	m := loadFolder(t, f, o)
	e := &engine{runner: newRunner(t, m)}
	spec := e.runner.Spec()
	c.MaxModelLen, c.NumBlocks, c.BlockSize = spec.MaxModelLen, spec.NumBlocks, spec.BlockSize
	c.NumSpecTokens, c.NumLookaheadSlots = spec.NumSpecTokens, spec.NumLookaheadSlots
	var err error
	e.sched, err = scheduler.New(c)
	require.NoError(t, err)
	return e
}

// answer is what a sequence got.
type answer struct {
	tokens   []int32
	logprobs []infer.TokenLogprobs
	reason   infer.FinishReason
}

// run drives sequences to their ends.
func (e *engine) run(t testing.TB, prompts [][]int32, params func(i int) *infer.SamplingParams) []answer {
	answers := make([]answer, len(prompts))
	for i, p := range prompts {
		e.nextID++
		require.NoError(t, e.sched.Add(scheduler.NewSequence(scheduler.SequenceOptions{ID: e.nextID, Prompt: p, Params: params(i), Tag: i})))
	}
	for {
		plan := e.sched.Schedule()
		if plan == nil {
			return answers
		}
		e.numSteps++
		res, err := launch(e.runner, plan)
		require.NoError(t, err)
		for i := range res.Sequences {
			if res.Sequences[i].Deferred {
				e.numDeferred++
			}
		}
		for _, out := range e.sched.Commit(res) {
			a := &answers[out.Seq.Tag.(int)]
			require.NoError(t, out.Err)
			a.tokens = append(a.tokens, out.NewTokenIDs...)
			a.logprobs = append(a.logprobs, out.Logprobs...)
			a.reason = out.FinishReason
			e.numTokens += len(out.NewTokenIDs)
			e.numDraftTokens += out.NumDraftTokens
			e.numAccepted += out.NumAcceptedTokens
			if out.NumDraftTokens > 0 {
				e.numDrafts++
			}
			if out.FinishReason != infer.FinishNone {
				e.numPreemptions += out.Seq.NumPreemptions()
				e.numCached += out.NumCachedTokens
			}
		}
	}
}

// drawPrompts makes prompts of the embedded vocabulary, some that repeat
// themselves and some that share a beginning.
func drawPrompts(r *rand.Rand, n, vocab int) [][]int32 {
	shared := drawTokens(r, 40, vocab)
	prompts := make([][]int32, n)
	for i := range prompts {
		switch i % 3 {
		case 0:
			prompts[i] = drawTokens(r, 1+r.IntN(60), vocab)
		case 1:
			loop := drawTokens(r, 1+r.IntN(6), vocab)
			prompts[i] = slices.Repeat(loop, 3+r.IntN(8))
		default:
			prompts[i] = slices.Concat(shared, drawTokens(r, 1+r.IntN(4), vocab))
		}
	}
	return prompts
}

func drawTokens(r *rand.Rand, n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(r.IntN(vocab))
	}
	return tokens
}

// variedParams returns greedy and sampled parameters in turn, with all that changes
// a row.
func variedParams(stop []int32) func(i int) *infer.SamplingParams {
	return func(i int) *infer.SamplingParams {
		p := greedy(2)
		p.MaxTokens, p.Seed, p.EOSTokenIDs = 1+i*7%40, uint64(i), stop
		switch i % 4 {
		case 1:
			p.Temperature = 0.7
		case 2:
			p.Temperature, p.TopP, p.TopK, p.RepetitionPenalty = 1, 0.9, 40, 1.1
			p.PresencePenalty, p.FrequencyPenalty = 0.4, 0.2
		case 3:
			p.MinTokens, p.LogitBias = min(5, p.MaxTokens), []infer.TokenBias{{TokenID: 11, Bias: 2}}
			p.BadWords = [][]int32{{5, 6}, {9}}
		}
		return p
	}
}

// TestSpeculationChangesNothing: tokens, logprobs to the last bit and finish reasons
// are those of a run without it, alone or in company, with a small cache that
// preempts, from the prefix cache and with prompts in chunks.
func TestSpeculationChangesNothing(t *testing.T) {
	g := readGolden(t)
	r := rand.New(rand.NewPCG(1, 2))
	vocab := loadFolder(t, understudy.Embedded(), options(t)).Config().VocabSize
	prompts := drawPrompts(r, *numPrompts, vocab)
	for i, c := range g.Cases {
		if i%3 == 0 || *numPrompts > defaultPrompts {
			prompts = append(prompts, c.PromptIDs)
		}
	}
	var want []answer
	for _, name := range []string{"off", "ngram", "draft", "draft 1"} {
		for _, shape := range []struct {
			name                       string
			seqs, budget, blocks, size int
		}{
			{"alone", 1, 256, 0, 16},
			{"eight", 8, 256, 0, 16},
			{"together", 32, 512, 0, 16},
			{"chunked and preempted", 8, 40, 300, 1},
		} {
			if name == "off" && want != nil && shape.name == "alone" {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", name, shape.name), func(t *testing.T) {
				e := newEngine(t, speculations()[name], func(o *model.Options, c *scheduler.Config) {
					o.MaxNumSeqs, o.MaxNumBatchedTokens, o.BlockSize, o.NumBlocksOverride = shape.seqs, shape.budget, shape.size, shape.blocks
					c.MaxNumSeqs, c.MaxNumBatchedTokens = shape.seqs, shape.budget
					if shape.blocks > 0 {
						o.MaxModelLen = shape.blocks * shape.size
					}
				})
				got := e.run(t, prompts, variedParams(g.EOSTokenIDs))
				if want == nil {
					want = got
				}
				for i := range want {
					require.Equal(t, want[i].tokens, got[i].tokens, "prompt %d", i)
					require.Equal(t, bitsOf(want[i].logprobs), bitsOf(got[i].logprobs), "prompt %d", i)
					require.Equal(t, want[i].reason, got[i].reason, "prompt %d", i)
				}
				if name != "off" {
					require.Positive(t, e.numAccepted, "no draft was ever accepted")
					require.Greater(t, e.numDraftTokens, e.numAccepted, "no draft was ever rejected")
				}
				if shape.blocks == 0 {
					require.Positive(t, e.numCached, "the prefix cache was of no use")
				}
				if shape.blocks > 0 {
					require.Positive(t, e.numPreemptions, "nothing was preempted")
				}
				t.Logf("%d steps for %d tokens; %d drafts, %d of %d tokens accepted", e.numSteps, e.numTokens, e.numDrafts, e.numAccepted, e.numDraftTokens)
			})
		}
	}
}

// TestDraftModelGuessesWell: on the texts that both embedded models were made for,
// and greedily, a step gives more than one token.
func TestDraftModelGuessesWell(t *testing.T) {
	g := readGolden(t)
	e := newEngine(t, speculations()["draft"], nil)
	var prompts [][]int32
	for _, c := range g.Cases {
		prompts = append(prompts, c.PromptIDs)
	}
	e.run(t, prompts, func(int) *infer.SamplingParams {
		p := greedy(-1)
		p.MaxTokens, p.EOSTokenIDs = 48, g.EOSTokenIDs
		return p
	})
	perStep := 1 + float64(e.numAccepted)/float64(e.numDrafts)
	t.Logf("%.2f tokens per verification", perStep)
	require.Greater(t, perStep, 1.5)
}

// TestSpeculationKeepsTheDistribution draws the same prompt with many seeds, and
// compares the frequencies of what is drawn last, which a draft precedes or
// proposes, with those of a run without speculation. That the test would notice is
// shown by samples of another temperature.
func TestSpeculationKeepsTheDistribution(t *testing.T) {
	const seeds = 800
	prompt := drawTokens(rand.New(rand.NewPCG(3, 4)), 5, 512)
	count := func(s *model.Speculation, from uint64, temperature float64) map[int32]float64 {
		e := newEngine(t, s, nil)
		counts := map[int32]float64{}
		prompts := slices.Repeat([][]int32{prompt}, seeds)
		for _, a := range e.run(t, prompts, func(i int) *infer.SamplingParams {
			p := greedy(-1)
			p.Temperature, p.MaxTokens, p.Seed = temperature, 3, from+uint64(i)
			return p
		}) {
			counts[a.tokens[len(a.tokens)-1]]++
		}
		return counts
	}
	without := count(nil, 0, 1.5)
	// Other seeds: the samples are independent.
	deviation, bins := chiSquared(without, count(speculations()["draft"], seeds, 1.5))
	require.Less(t, deviation, 6.0, "%d bins", bins)
	require.Greater(t, bins, 5, "too few different tokens to tell")
	deviation, _ = chiSquared(without, count(speculations()["draft"], seeds, 1.2))
	require.Greater(t, deviation, 6.0, "another temperature passes for the same")
}

// chiSquared compares two samples of one size: how many standard deviations the
// statistic lies above its mean. Values that are rare in both share a bin.
func chiSquared(a, b map[int32]float64) (deviation float64, bins int) {
	ids := maps.Clone(a)
	maps.Copy(ids, b)
	chi2, restA, restB := 0.0, 0.0, 0.0
	add := func(a, b float64) {
		bins++
		chi2 += (a - b) * (a - b) / (a + b)
	}
	for id := range ids {
		if a[id]+b[id] >= 10 {
			add(a[id], b[id])
		} else {
			restA, restB = restA+a[id], restB+b[id]
		}
	}
	if restA+restB > 0 {
		add(restA, restB)
	}
	df := float64(bins - 1)
	return (chi2 - df) / math.Sqrt(2*df), bins
}
