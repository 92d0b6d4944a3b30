package model_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
)

func layerPrefix(l int) string { return fmt.Sprintf("model.layers.%d.", l) }

// logSoftmax turns an oracle's logits into log-probabilities.
func logSoftmax(logits []float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range logits {
		top = max(top, v)
	}
	for _, v := range logits {
		sum += math.Exp(v - top)
	}
	out := make([]float64, len(logits))
	for i, v := range logits {
		out[i] = v - top - math.Log(sum)
	}
	return out
}

func prompt(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*7 + 3*i + 5) % vocab)
	}
	return ids
}

// requireOracle compares every log-probability of a scored and continued
// prompt with the oracle's. Sums are F32 in the backend, so the tolerance is
// absolute 2e-4 on values of the order of 10.
func requireOracle(t *testing.T, small *modelkit.Llama, s *sequence, tolerance float64) {
	t.Helper()
	o := newOracle(small)
	all := append(append([]int32{}, s.prompt...), s.output...)
	reported := append(append([]infer.TokenLogprobs{}, s.promptLogprobs...), s.logprobs...)
	require.Len(t, reported, len(all)-1)
	for i, id := range all[:len(all)-1] {
		want := logSoftmax(o.step(id))
		got := reported[i]
		require.Equal(t, all[i+1], got.Token.TokenID)
		require.InDelta(t, want[all[i+1]], got.Token.Logprob, tolerance, "position %d", i+1)
		require.Len(t, got.Top, small.Vocab)
		for _, top := range got.Top {
			require.InDelta(t, want[top.TokenID], top.Logprob, tolerance, "position %d, token %d", i+1, top.TokenID)
		}
	}
}

func scored(small *modelkit.Llama, n int) *sequence {
	p := greedy(small.Vocab)
	p.NumPromptLogprobs = small.Vocab
	return &sequence{prompt: prompt(n, small.Vocab), params: p, max: 12}
}

func TestForwardMatchesFloat64Oracle(t *testing.T) {
	cases := []struct {
		name, dtype string
		shards      int
		change      func(*modelkit.Llama, *model.Options)
	}{
		{"F32", "F32", 1, nil},
		{"F16 in three shards", "F16", 3, nil},
		{"BF16 in two shards", "BF16", 2, nil},
		{"tied embeddings", "F32", 1, func(m *modelkit.Llama, _ *model.Options) { m.Tied = true }},
		{"no grouping, derived head size", "F32", 1, func(m *modelkit.Llama, _ *model.Options) {
			m.Heads, m.KVHeads, m.HeadDim = 4, 4, 10
			m.Config = map[string]any{"head_dim": nil, "num_key_value_heads": nil}
		}},
		{"one kv head, hidden below heads*head_dim", "F16", 1, func(m *modelkit.Llama, _ *model.Options) {
			m.Heads, m.KVHeads, m.HeadDim = 5, 1, 14
		}},
		{"Mistral", "F32", 1, func(m *modelkit.Llama, _ *model.Options) {
			m.Config = map[string]any{"architectures": []string{"MistralForCausalLM"}, "sliding_window": nil}
		}},
		{"loaded as float32", "BF16", 1, func(_ *modelkit.Llama, o *model.Options) { o.DType = "float32" }},
		{"loaded as bfloat16", "F32", 1, func(_ *modelkit.Llama, o *model.Options) { o.DType = "bfloat16" }},
		{"loaded as float16", "F32", 2, func(_ *modelkit.Llama, o *model.Options) { o.DType = "float16" }},
		{"blocks of one token", "F32", 1, func(_ *modelkit.Llama, o *model.Options) { o.BlockSize = 1 }},
		{"blocks of seven tokens", "F32", 1, func(_ *modelkit.Llama, o *model.Options) { o.BlockSize = 7 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			small, o := modelkit.Small(7), exactOptions(t)
			if c.change != nil {
				c.change(small, &o)
				small.Randomize(7)
			}
			m := load(t, small.Write(t, c.dtype, c.shards), o)
			s := scored(small, 33)
			(&driver{runner: newRunner(t, m)}).run(t, s)
			requireOracle(t, small, s, 2e-4)
		})
	}
}

func TestNarrowKVCacheStaysClose(t *testing.T) {
	for dtype, tolerance := range map[string]float64{"float16": 0.02, "bfloat16": 0.15, "int8": 0.15} {
		t.Run(dtype, func(t *testing.T) {
			small, o := modelkit.Small(3), options(t)
			o.KVCacheDType = dtype
			m := load(t, small.Write(t, "F32", 1), o)
			s := scored(small, 20)
			(&driver{runner: newRunner(t, m)}).run(t, s)
			requireOracle(t, small, s, tolerance)
		})
	}
}

// A row's bits must not depend on how its sequence was cut into steps nor on
// who was aboard.
func TestRowsAreBitEqualHoweverScheduled(t *testing.T) {
	small, o := modelkit.Small(11), options(t)
	o.BlockSize = 4
	m := load(t, small.Write(t, "BF16", 1), o)
	alone := scored(small, 41)
	(&driver{runner: newRunner(t, m)}).run(t, alone)
	want := bitsOf(append(alone.promptLogprobs, alone.logprobs...))

	for _, chunk := range []int{1, 3, 16, 40} {
		t.Run(fmt.Sprintf("chunks of %d", chunk), func(t *testing.T) {
			s := scored(small, 41)
			s.chunk = chunk
			(&driver{runner: newRunner(t, m)}).run(t, s)
			require.Equal(t, alone.output, s.output)
			require.Equal(t, want, bitsOf(append(s.promptLogprobs, s.logprobs...)))
		})
	}
	t.Run("among others", func(t *testing.T) {
		s := scored(small, 41)
		mates := []*sequence{}
		for n := range 9 {
			mates = append(mates, &sequence{prompt: prompt(5+7*n, small.Vocab), params: greedy(-1), max: 15, chunk: n})
		}
		(&driver{runner: newRunner(t, m)}).run(t, append(append([]*sequence{}, mates[:4]...), append([]*sequence{s}, mates[4:]...)...)...)
		require.Equal(t, alone.output, s.output)
		require.Equal(t, want, bitsOf(append(s.promptLogprobs, s.logprobs...)))
	})
	t.Run("resumed after its tokens were lost", func(t *testing.T) {
		s := scored(small, 41)
		s.params = greedy(small.Vocab)
		s.output = append([]int32{}, alone.output[:5]...)
		(&driver{runner: newRunner(t, m)}).run(t, s)
		require.Equal(t, alone.output, s.output)
		require.Equal(t, bitsOf(alone.logprobs[5:]), bitsOf(s.logprobs))
	})
}

// The logits buffer holds fewer rows than a step may ask for.
func TestPromptLogprobsInPieces(t *testing.T) {
	small, o := modelkit.Small(5), options(t)
	small.Vocab = 1 << 20 // 4 MiB of logits per row: 16 rows at a time
	small.Hidden, small.Heads, small.KVHeads, small.HeadDim, small.Layers = 2, 1, 1, 2, 1
	small.Intermediate, small.Tied = 3, true
	small.Randomize(5)
	m := load(t, small.Write(t, "BF16", 1), o)
	whole := &sequence{prompt: prompt(39, 97), params: greedy(0), max: 1}
	whole.params.NumPromptLogprobs = 0
	pieces := &sequence{prompt: whole.prompt, params: whole.params, max: 1, chunk: 5}
	(&driver{runner: newRunner(t, m)}).run(t, whole)
	(&driver{runner: newRunner(t, m)}).run(t, pieces)
	require.Len(t, whole.promptLogprobs, 38)
	require.Equal(t, bitsOf(whole.promptLogprobs), bitsOf(pieces.promptLogprobs))
	require.Equal(t, bitsOf(whole.logprobs), bitsOf(pieces.logprobs))
}
