package model_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/scheduler"
)

// architectures are those that have a tiny model.
var architectures = []string{
	"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM",
	"Gemma2ForCausalLM", "Gemma3ForCausalLM", "Phi3ForCausalLM", "SmolLM3ForCausalLM",
}

// triedArchitectures are those that are tried: under the race detector one of dense
// decoders, one of many differences, and one mixture of experts.
func triedArchitectures() []string {
	if testkit.UnderRace {
		return []string{"LlamaForCausalLM", "Gemma3ForCausalLM", "Qwen3MoeForCausalLM"}
	}
	return architectures
}

func forEachArchitecture(t *testing.T, run func(t *testing.T, tiny *modelkit.Tiny)) {
	for _, a := range triedArchitectures() {
		t.Run(a, func(t *testing.T) { run(t, modelkit.NewTiny(t, a, 5)) })
	}
}

// scoredTiny is a prompt whose every log-probability is reported.
func scoredTiny(n int) *sequence {
	p := greedy(modelkit.TinyVocab)
	p.NumPromptLogprobs = modelkit.TinyVocab
	return &sequence{prompt: prompt(n, modelkit.TinyVocab), params: p, max: 12}
}

// referenceTolerance is absolute, on log-probabilities of the order of 10: sums
// are F32 in the backend.
const referenceTolerance = 5e-4

func requireReference(t *testing.T, o *reference, s *sequence) {
	t.Helper()
	largest, _ := differences(t, o, s)
	require.LessOrEqual(t, largest, referenceTolerance)
}

// differences compares every log-probability that was reported with the
// reference's and returns the largest and the mean difference.
func differences(t *testing.T, o *reference, s *sequence) (largest, mean float64) {
	t.Helper()
	all := append(append([]int32{}, s.prompt...), s.output...)
	reported := append(append([]infer.TokenLogprobs{}, s.promptLogprobs...), s.logprobs...)
	require.Len(t, reported, len(all)-1)
	n := 0
	for i, id := range all[:len(all)-1] {
		want, got := logSoftmax(o.step(id)), reported[i]
		require.Equal(t, all[i+1], got.Token.TokenID)
		require.Len(t, got.Top, o.vocab)
		for _, top := range got.Top {
			d := math.Abs(want[top.TokenID] - float64(top.Logprob))
			require.False(t, math.IsNaN(d))
			largest, mean, n = max(largest, d), mean+d, n+1
		}
	}
	return largest, mean / float64(n)
}

func TestArchitecturesMatchTheReference(t *testing.T) {
	forEachArchitecture(t, func(t *testing.T, tiny *modelkit.Tiny) {
		for dtype, longest := range map[string]int{"F32": 96, "F16": 96, "BF16": 22} {
			o := exactOptions(t)
			o.MaxModelLen = longest
			m := load(t, tiny.Write(t, dtype), o)
			s := scoredTiny(min(40, longest-12))
			(&driver{runner: newRunner(t, m)}).run(t, s)
			requireReference(t, newReference(tiny, longest), s)
		}
	})
}

// A row's bits must not depend on how its sequence was cut into steps nor on who
// was aboard.
func TestArchitecturesAreBitEqualHoweverScheduled(t *testing.T) {
	forEachArchitecture(t, func(t *testing.T, tiny *modelkit.Tiny) {
		o := options(t)
		o.BlockSize = 4
		m := load(t, tiny.Write(t, "BF16"), o)
		alone := scoredTiny(41)
		(&driver{runner: newRunner(t, m)}).run(t, alone)
		want := bitsOf(append(alone.promptLogprobs, alone.logprobs...))
		for _, chunk := range []int{1, 3, 16} {
			s := scoredTiny(41)
			s.chunk = chunk
			mates := []*sequence{s}
			for n := range 6 {
				mates = append(mates, &sequence{prompt: prompt(5+7*n, modelkit.TinyVocab), params: greedy(-1), max: 15, chunk: n})
			}
			(&driver{runner: newRunner(t, m)}).run(t, mates...)
			require.Equal(t, alone.output, s.output)
			require.Equal(t, want, bitsOf(append(s.promptLogprobs, s.logprobs...)), "in chunks of %d, in company", chunk)
		}
		resumed := scoredTiny(41)
		resumed.params = greedy(modelkit.TinyVocab)
		resumed.output = append([]int32{}, alone.output[:5]...)
		(&driver{runner: newRunner(t, m)}).run(t, resumed)
		require.Equal(t, alone.output, resumed.output)
		require.Equal(t, bitsOf(alone.logprobs[5:]), bitsOf(resumed.logprobs))
	})
}

// The same tokens from the prefix cache, after preemption and alone.
func TestArchitecturesUnderTheScheduler(t *testing.T) {
	forEachArchitecture(t, func(t *testing.T, tiny *modelkit.Tiny) {
		dir := tiny.Write(t, "F32")
		prompts := drawPrompts(rand.New(rand.NewPCG(3, 4)), 14, modelkit.TinyVocab)
		params := variedParams([]int32{1})
		engineOf := func(change func(*model.Options, *scheduler.Config)) *engine {
			f, err := model.OpenDir(dir)
			require.NoError(t, err)
			return newEngineOf(t, f, nil, change)
		}
		lonely := engineOf(func(_ *model.Options, c *scheduler.Config) { c.EnablePrefixCaching = false })
		var want []answer
		for i, p := range prompts {
			want = append(want, lonely.run(t, [][]int32{p}, func(int) *infer.SamplingParams { return params(i) })...)
		}
		crowded := engineOf(func(o *model.Options, c *scheduler.Config) {
			o.BlockSize, o.NumBlocksOverride, c.MaxNumSeqs, c.MaxNumBatchedTokens = 8, 14, 9, 24
		})
		for round := range 2 {
			for i, a := range crowded.run(t, prompts, params) {
				require.Equal(t, want[i].tokens, a.tokens, "round %d, prompt %d", round, i)
				require.Equal(t, bitsOf(want[i].logprobs), bitsOf(a.logprobs), "round %d, prompt %d", round, i)
			}
		}
		require.Positive(t, crowded.numPreemptions)
		require.Positive(t, crowded.numCached)
	})
}

func TestUnknownArchitectureNamesTheSupportedOnes(t *testing.T) {
	tiny := modelkit.NewTiny(t, "LlamaForCausalLM", 1)
	tiny.Config["architectures"] = []string{"MambaForCausalLM"}
	err := loadError(t, tiny.Write(t, "F32"), options(t))
	require.ErrorContains(t, err, `architectures ["MambaForCausalLM"] is not supported; supported: `)
	for _, a := range architectures {
		require.ErrorContains(t, err, a)
	}
}

// A tensor of an option that the architecture has must be there; one that it has
// not must not.
func TestTensorsOfArchitectures(t *testing.T) {
	for architecture, name := range map[string]string{
		"Qwen2ForCausalLM": "model.layers.1.self_attn.k_proj.bias", "Qwen3ForCausalLM": "model.layers.3.self_attn.q_norm.weight",
		"Gemma2ForCausalLM": "model.layers.0.post_feedforward_layernorm.weight", "Phi3ForCausalLM": "model.layers.0.mlp.gate_up_proj.weight",
		"Qwen3MoeForCausalLM": "model.layers.2.mlp.experts.4.down_proj.weight",
	} {
		t.Run(architecture, func(t *testing.T) {
			tiny := modelkit.NewTiny(t, architecture, 1)
			tiny.Tensor(name).Name = "surplus"
			require.ErrorContains(t, loadError(t, tiny.Write(t, "F32"), options(t)), fmt.Sprintf("tensor %q is missing", name))
			tiny.Tensor("surplus").Name = name
			tiny.Tensors = append(tiny.Tensors, modelkit.Tensor{Name: "model.layers.0.mlp.gate_proj.bias", Shape: []int{1}, Values: []float32{0}})
			require.ErrorContains(t, loadError(t, tiny.Write(t, "F32"), options(t)), "1 tensors have no place")
		})
	}
}

// The text part of a model with images is the model without them, whatever the
// other part's tensors are.
func TestTextPartOfGemma3(t *testing.T) {
	tiny := modelkit.NewTiny(t, "Gemma3ForCausalLM", 5)
	want := scoredTiny(20)
	(&driver{runner: newRunner(t, load(t, tiny.Write(t, "BF16"), options(t)))}).run(t, want)
	for _, prefix := range []string{"language_model.model.", "model.language_model."} {
		whole := modelkit.NewTiny(t, "Gemma3ForCausalLM", 5)
		text := maps.Clone(whole.Config)
		delete(text, "architectures")
		whole.Config = map[string]any{"architectures": []string{"Gemma3ForConditionalGeneration"}, "text_config": text, "vision_config": map[string]any{}}
		for i := range whole.Tensors {
			whole.Tensors[i].Name = prefix + strings.TrimPrefix(whole.Tensors[i].Name, "model.")
		}
		whole.Tensors = append(whole.Tensors, modelkit.Tensor{Name: "vision_tower.x.bias", Shape: []int{1}, Values: []float32{1}})
		got := scoredTiny(20)
		(&driver{runner: newRunner(t, load(t, whole.Write(t, "BF16"), options(t)))}).run(t, got)
		require.Equal(t, want.output, got.output)
		require.Equal(t, bitsOf(want.logprobs), bitsOf(got.logprobs))

		whole.Tensors[len(whole.Tensors)-1].Name = "model.norm.weight"
		require.ErrorContains(t, loadError(t, whole.Write(t, "BF16"), options(t)), `tensor "model.norm.weight" is there twice, once as`)
	}
}

// Quantised weights give nearly the logits of the reference, and the same bits
// alone and in company.
func TestArchitecturesQuantised(t *testing.T) {
	for _, a := range triedArchitectures() {
		t.Run(a, func(t *testing.T) {
			wide := modelkit.NewWide(t, a, 6)
			dir := wide.Write(t, "F32")
			for quantization, tolerance := range map[string]float64{"": 1e-4, "q8_0": 0.15} { // of the mean
				o := options(t)
				o.Quantization = quantization
				m := load(t, dir, o)
				alone := scoredTiny(30)
				(&driver{runner: newRunner(t, m)}).run(t, alone)
				_, mean := differences(t, newReference(wide, 96), alone)
				require.LessOrEqual(t, mean, tolerance)
				s := scoredTiny(30)
				s.chunk = 7
				(&driver{runner: newRunner(t, m)}).run(t, &sequence{prompt: prompt(23, 99), params: greedy(-1), max: 9}, s)
				require.Equal(t, bitsOf(append(alone.promptLogprobs, alone.logprobs...)), bitsOf(append(s.promptLogprobs, s.logprobs...)))
			}
		})
	}
}
