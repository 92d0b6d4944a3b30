package model_test

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	kernels "github.com/troupe-llm/troupe/kernels/cpu"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
)

// triedTypes are the types that are tried: one of each kind under the race detector.
var triedTypes = func() []string {
	if testkit.UnderRace {
		return []string{"Q8_0", "Q4_K"}
	}
	return []string{"Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K"}
}()

// triedTiers are the tiers that are tried: plain Go takes long under the race detector.
func triedTiers() []kernels.Tier {
	tiers := kernels.Tiers()
	if testkit.UnderRace {
		return tiers[len(tiers)-1:]
	}
	return tiers
}

// onTier returns options over a backend of one tier.
func onTier(tb testing.TB, tier kernels.Tier) model.Options {
	tb.Helper()
	o := options(tb)
	b, err := cpu.New(cpu.Options{Threads: 2, Tier: tier})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, b.Close()) })
	o.Backend = b
	return o
}

// wide is a Llama of whose rows every type has whole blocks.
func wide(tb testing.TB) *model.Folder {
	tb.Helper()
	m := &modelkit.Llama{Hidden: 256, Intermediate: 512, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 64, Vocab: 300, Context: 128, RMSEps: 1e-5, RopeTheta: 10000}
	m.Randomize(7)
	f, err := model.OpenDir(m.Write(tb, "BF16", 1))
	require.NoError(tb, err)
	return f
}

// logprobs runs a prompt and returns every log-probability of every position.
func logprobs(tb testing.TB, m *model.Model, ids []int32) (all []float64) {
	tb.Helper()
	p := greedy(m.Config().VocabSize)
	p.NumPromptLogprobs = m.Config().VocabSize
	s := &sequence{prompt: ids, params: p, max: 1}
	(&driver{runner: newRunner(tb, m)}).run(tb, s)
	for _, position := range append(s.promptLogprobs, s.logprobs...) {
		row := make([]float64, m.Config().VocabSize)
		for _, top := range position.Top {
			row[top.TokenID] = float64(top.Logprob)
		}
		all = append(all, row...)
	}
	return all
}

// Quantised weights give what the numbers that they stand for give, but for the
// rounding of activations to 8 bits, which is the same whatever the weights' type:
// the error of log-probabilities, as a root of the mean of squares, is below 6 % of
// their spread for a random model and 4 % for a trained one, with a prompt of noise.
func TestQuantisedMatchesDequantised(t *testing.T) {
	tolerance := map[string]float64{"random": 0.06, understudy.Name: 0.04}
	for name, folder := range map[string]*model.Folder{"random": wide(t), understudy.Name: understudy.Embedded()} {
		for _, dtype := range triedTypes {
			t.Run(name+"/"+dtype, func(t *testing.T) {
				g := modelkit.ConvertLlama(t, folder, dtype)
				plain := load(t, writeGGUF(t, g.Dequantised()), options(t))
				ids := prompt(50, plain.Config().VocabSize)
				want := logprobs(t, plain, ids)
				got := logprobs(t, load(t, writeGGUF(t, g), options(t)), ids)
				require.Len(t, got, len(want))
				mean, spread, wrong := 0.0, 0.0, 0.0
				for _, v := range want {
					mean += v / float64(len(want))
				}
				for i, v := range want {
					spread += (v - mean) * (v - mean)
					wrong += (v - got[i]) * (v - got[i])
				}
				relative := math.Sqrt(wrong / spread)
				t.Logf("error %.2g of the spread", relative)
				require.Less(t, relative, tolerance[name])
				require.Greater(t, relative, 0.0, "the integers were used")
			})
		}
	}
}

// A sequence has the same tokens and log-probabilities, to the last bit, alone and
// in company, whole and in chunks, on every tier.
func TestQuantisedBitsAreTheSequencesOwn(t *testing.T) {
	folder := wide(t)
	for _, dtype := range triedTypes {
		t.Run(dtype, func(t *testing.T) {
			path := writeGGUF(t, modelkit.ConvertLlama(t, folder, dtype))
			var want []uint32
			for _, tier := range triedTiers() {
				m := load(t, path, onTier(t, tier))
				one := func(chunk int) *sequence {
					return &sequence{prompt: prompt(21, 300), params: greedy(5), max: 6, chunk: chunk}
				}
				alone := one(0)
				(&driver{runner: newRunner(t, m)}).run(t, alone)
				if want == nil {
					want = bitsOf(alone.logprobs)
				}
				require.Equal(t, want, bitsOf(alone.logprobs), "%v", tier)
				company := []*sequence{one(0), one(1), one(5)}
				for i := range 7 {
					company = append(company, &sequence{prompt: prompt(3+5*i, 300), params: greedy(0), max: 9, chunk: i})
				}
				(&driver{runner: newRunner(t, m)}).run(t, company...)
				for i, s := range company[:3] {
					require.Equal(t, want, bitsOf(s.logprobs), "%v in company, %d", tier, i)
				}
			}
		})
	}
}

// matching counts the golden cases whose continuation a model gives whole.
func matching(t *testing.T, m *model.Model) (n int) {
	t.Helper()
	g := readGolden(t)
	seqs := make([]*sequence, len(g.Cases))
	for i, c := range g.Cases {
		seqs[i] = &sequence{prompt: c.PromptIDs, params: greedy(-1), max: goldenMaxTokens, stop: g.EOSTokenIDs, chunk: 24}
	}
	(&driver{runner: newRunner(t, m)}).run(t, seqs...)
	for i, c := range g.Cases {
		if fmt.Sprint(c.GreedyIDs) == fmt.Sprint(seqs[i].output) {
			n++
		}
	}
	return n
}

// The built-in model still says most of what it says in 16 bits.
func TestQuantisedGoldenContinuations(t *testing.T) {
	least := map[string]int{"Q8_0": 32, "Q6_K": 32, "Q5_K": 32, "Q4_K": 30, "Q4_0": 28}
	for _, dtype := range triedTypes {
		t.Run(dtype, func(t *testing.T) {
			m := load(t, writeGGUF(t, modelkit.ConvertLlama(t, understudy.Embedded(), dtype)), options(t))
			n := matching(t, m)
			t.Logf("%d of 41 continuations", n)
			require.GreaterOrEqual(t, n, least[dtype])
		})
	}
}

func TestQuantisedAtLoad(t *testing.T) {
	ids := prompt(30, 2048)
	o := options(t)
	o.Quantization = "q8_0"
	m := loadFolder(t, understudy.Embedded(), o)
	require.Equal(t, "q8_0", m.Spec().DType)
	require.True(t, m.Quantized())
	file := load(t, writeGGUF(t, modelkit.ConvertLlama(t, understudy.Embedded(), "Q8_0")), options(t))
	require.Equal(t, "q8_0", file.Spec().DType)
	require.False(t, file.Quantized())
	require.Equal(t, logprobs(t, file, ids), logprobs(t, m, ids), "the same blocks")

	o = options(t)
	o.Quantization = "q4_0"
	m = loadFolder(t, understudy.Embedded(), o)
	require.Equal(t, "q4_0 and q8_0", m.Spec().DType, "the embedding table has eight bits")
	n := matching(t, m)
	t.Logf("%d of 41 continuations", n)
	require.GreaterOrEqual(t, n, 28)

	o = options(t)
	o.Quantization = "q4_0"
	again := load(t, writeGGUF(t, modelkit.ConvertLlama(t, understudy.Embedded(), "Q8_0")), o)
	require.Equal(t, logprobs(t, file, ids), logprobs(t, again, ids), "what is quantised stays")
	require.Equal(t, "q8_0", again.Spec().DType)
	require.False(t, again.Quantized())

	o.Quantization = "q5_1"
	_, err := model.Load(understudy.Embedded(), o)
	require.ErrorContains(t, err, `--quantization is "q5_1"; it must be none, q8_0 or q4_0`)
}

func TestQuantisedVectorIsRefused(t *testing.T) {
	g := modelkit.ConvertLlama(t, wide(t), "Q8_0")
	norm := g.Tensor("blk.1.ffn_norm.weight")
	norm.Type, norm.Data = 8, make([]byte, 256/32*34)
	require.ErrorContains(t, loadError(t, writeGGUF(t, g), options(t)),
		`model.gguf: tensor "model.layers.1.post_attention_layernorm.weight" has element type Q8_0; supported: F32, F16, BF16, and of matrices`)
}

// Weights that the memory cannot hold are refused before any is read.
func TestWeightsLargerThanTheMemory(t *testing.T) {
	small := &modelkit.Llama{Hidden: 1 << 16, Intermediate: 1, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 2, Vocab: 2, Context: 16, Tied: true, RMSEps: 1e-5, RopeTheta: 10000}
	small.Randomize(1)
	folder, err := model.OpenDir(small.Write(t, "F16", 1))
	require.NoError(t, err)
	g := modelkit.ConvertLlama(t, folder, "F16")
	embed := g.Tensors[0]
	require.Equal(t, "token_embd.weight", embed.Name)
	embed.Dims, embed.Data = []uint64{1 << 16, 1 << 22}, nil
	g.Tensors = append(g.Tensors[1:], embed)
	path := writeGGUF(t, g)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()+1<<39+64)) // a hole
	require.ErrorContains(t, loadError(t, path, options(t)), "the weights take 549")
	o := options(t)
	o.Quantization = "q4_0" // of the embedding table, eight bits
	require.ErrorContains(t, loadError(t, path, o), "the weights take 292")
}
