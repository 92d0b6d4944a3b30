package sampling_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
	"pgregory.net/rapid"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// neutral returns parameters with everything off.
func neutral(temperature float64) *infer.SamplingParams {
	return &infer.SamplingParams{
		Temperature: temperature, TopP: 1, RepetitionPenalty: 1, NumLogprobs: -1, NumPromptLogprobs: -1,
	}
}

func sample(t require.TestingT, logits []float32, p *infer.SamplingParams, prompt, output []int32) int32 {
	s := sampling.NewSampler(len(logits))
	token, _, err := s.Sample(sampling.Row{Logits: slices.Clone(logits), Params: p, Prompt: prompt, Output: output})
	require.NoError(t, err)
	return token
}

func TestGreedyParameters(t *testing.T) {
	tests := []struct {
		name           string
		logits         []float32
		set            func(p *infer.SamplingParams)
		prompt, output []int32
		want           int32
	}{
		{name: "highest", logits: []float32{1, 3, 2}, want: 1},
		{name: "ties take the lowest id", logits: []float32{1, 3, 3}, want: 1},
		{name: "masked by the model", logits: []float32{-inf, -inf, -5}, want: 2},
		{name: "allowed ids", logits: []float32{9, 8, 7, 6}, want: 2,
			set: func(p *infer.SamplingParams) { p.AllowedTokenIDs = []int32{-1, 2, 2, 3, 99} }},
		{name: "bad word of one token", logits: []float32{9, 8, 7}, want: 1,
			set: func(p *infer.SamplingParams) { p.BadWords = [][]int32{{0}, {}} }},
		{name: "bad word completed", logits: []float32{9, 8, 7}, output: []int32{1, 2}, want: 1,
			set: func(p *infer.SamplingParams) { p.BadWords = [][]int32{{1, 2, 0}} }},
		{name: "bad word not completed", logits: []float32{9, 8, 7}, output: []int32{2, 1}, want: 0,
			set: func(p *infer.SamplingParams) { p.BadWords = [][]int32{{1, 2, 0}} }},
		{name: "bad word does not look into the prompt", logits: []float32{9, 8}, prompt: []int32{1}, want: 0,
			set: func(p *infer.SamplingParams) { p.BadWords = [][]int32{{1, 0}} }},
		{name: "logit bias", logits: []float32{9, 8, 7}, want: 2,
			set: func(p *infer.SamplingParams) {
				p.LogitBias = []infer.TokenBias{{TokenID: 2, Bias: 3}, {TokenID: 77, Bias: 1}}
			}},
		{name: "bias does not lift a mask", logits: []float32{9, 8}, want: 0,
			set: func(p *infer.SamplingParams) {
				p.AllowedTokenIDs = []int32{0}
				p.LogitBias = []infer.TokenBias{{TokenID: 1, Bias: 100}}
			}},
		{name: "min tokens mask the end", logits: []float32{9, 8, 7}, output: []int32{2}, want: 2,
			set: func(p *infer.SamplingParams) { p.MinTokens, p.EOSTokenIDs, p.StopTokenIDs = 2, []int32{0}, []int32{1} }},
		{name: "min tokens reached", logits: []float32{9, 8, 7}, output: []int32{2, 2}, want: 0,
			set: func(p *infer.SamplingParams) { p.MinTokens, p.EOSTokenIDs = 2, []int32{0} }},
		{name: "repetition of the prompt, positive", logits: []float32{9, 8}, prompt: []int32{0, 0, -4, 900}, want: 1,
			set: func(p *infer.SamplingParams) { p.RepetitionPenalty = 1.2 }},
		{name: "repetition of the output, negative", logits: []float32{-8, -9}, output: []int32{0}, want: 1,
			set: func(p *infer.SamplingParams) { p.RepetitionPenalty = 1.2 }},
		{name: "presence counts once", logits: []float32{9, 7.5}, output: []int32{0, 0, 0}, want: 0,
			set: func(p *infer.SamplingParams) { p.PresencePenalty = 1 }},
		{name: "frequency counts each", logits: []float32{9, 7.5}, output: []int32{0, 0, -1, 500}, want: 1,
			set: func(p *infer.SamplingParams) { p.FrequencyPenalty = 1 }},
		{name: "presence ignores the prompt", logits: []float32{9, 8.5}, prompt: []int32{0}, want: 0,
			set: func(p *infer.SamplingParams) { p.PresencePenalty = 2 }},
		{name: "tiny repetition penalty stays finite", logits: []float32{9, 8}, prompt: []int32{1}, want: 1,
			set: func(p *infer.SamplingParams) { p.RepetitionPenalty = 1e-300 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := neutral(0)
			if tt.set != nil {
				tt.set(p)
			}
			require.Equal(t, tt.want, sample(t, tt.logits, p, tt.prompt, tt.output))
		})
	}
}

func TestRowsThatCannotBeSampled(t *testing.T) {
	tests := []struct {
		name   string
		logits []float32
		set    func(p *infer.SamplingParams)
		code   infer.Code
		says   string
	}{
		{"NaN first", []float32{nan, 1}, nil, infer.CodeInternal, "NaN"},
		{"NaN last", []float32{1, nan}, nil, infer.CodeInternal, "NaN"},
		{"infinite", []float32{1, inf}, nil, infer.CodeInternal, "+Inf"},
		{"nothing finite", []float32{-inf, -inf}, nil, infer.CodeInternal, "only -Inf"},
		{"NaN under a mask", []float32{1, nan}, func(p *infer.SamplingParams) { p.AllowedTokenIDs = []int32{0} }, infer.CodeInternal, "NaN"},
		{"wrong size", []float32{1}, nil, infer.CodeInternal, "1 logits"},
		{"nothing allowed", []float32{1, 2}, func(p *infer.SamplingParams) { p.AllowedTokenIDs = []int32{} }, infer.CodeInvalid, "allowed_token_ids"},
		{"all masked", []float32{1, 2}, func(p *infer.SamplingParams) {
			p.AllowedTokenIDs, p.BadWords = []int32{1}, [][]int32{{1}}
		}, infer.CodeInvalid, "output position 0"},
	}
	for _, tt := range tests {
		for _, temperature := range []float64{0, 1} {
			t.Run(tt.name, func(t *testing.T) {
				p := neutral(temperature)
				if tt.set != nil {
					tt.set(p)
				}
				_, _, err := sampling.NewSampler(2).Sample(sampling.Row{Logits: slices.Clone(tt.logits), Params: p})
				var e *infer.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, tt.code, e.Code)
				require.Contains(t, e.Message, tt.says)
			})
		}
	}
}

func TestFiltersOfOneAreGreedy(t *testing.T) {
	logits := []float32{1, 5, 5, 4.9}
	for name, set := range map[string]func(p *infer.SamplingParams){
		"top_k": func(p *infer.SamplingParams) { p.TopK = 1 },
		"top_p": func(p *infer.SamplingParams) { p.TopP = 1e-9 },
		"temperature": func(p *infer.SamplingParams) {
			p.Temperature = 1e-300
			p.TopK = 1
		},
	} {
		for seed := range uint64(50) {
			p := neutral(1)
			p.Seed = seed
			set(p)
			require.Equal(t, int32(1), sample(t, logits, p, nil, nil), name)
		}
	}
}

// drawParams draws parameters and a row that exercise every branch.
func drawParams(t *rapid.T, n int) (*infer.SamplingParams, []float32, []int32, []int32) {
	id := rapid.Int32Range(0, int32(n)-1)
	ids := rapid.SliceOfN(id, 0, 8)
	p := neutral(rapid.SampledFrom([]float64{0, 5e-324, 0.01, 0.7, 1, 2}).Draw(t, "temperature"))
	p.Seed = rapid.Uint64().Draw(t, "seed")
	p.TopK = rapid.SampledFrom([]int{-1, 0, 1, 2, n / 2, n, n + 1}).Draw(t, "top_k")
	p.TopP = rapid.SampledFrom([]float64{1, 1, 0.1, 0.5, 0.93}).Draw(t, "top_p")
	p.MinP = rapid.SampledFrom([]float64{0, 0, 0.05, 0.3, 0.99}).Draw(t, "min_p")
	p.PresencePenalty = rapid.SampledFrom([]float64{0, 1.5, -2}).Draw(t, "presence")
	p.FrequencyPenalty = rapid.SampledFrom([]float64{0, 0.5, -0.5}).Draw(t, "frequency")
	p.RepetitionPenalty = rapid.SampledFrom([]float64{1, 1.3, 0.8}).Draw(t, "repetition")
	p.MinTokens = rapid.IntRange(0, 4).Draw(t, "min_tokens")
	p.EOSTokenIDs, p.StopTokenIDs = []int32{0}, ids.Draw(t, "stop_ids")
	for _, b := range ids.Draw(t, "biased") {
		p.LogitBias = append(p.LogitBias, infer.TokenBias{TokenID: b, Bias: float32(b%7) - 3})
	}
	if rapid.Bool().Draw(t, "bad") {
		p.BadWords = [][]int32{{id.Draw(t, "bad1")}, {id.Draw(t, "bad2"), id.Draw(t, "bad3")}}
	}
	if rapid.IntRange(0, 3).Draw(t, "restricted") == 0 {
		p.AllowedTokenIDs = rapid.SliceOfN(id, n/2, n).Draw(t, "allowed")
		slices.Sort(p.AllowedTokenIDs)
	}
	// Few distinct values, so that ties happen.
	logits := rapid.SliceOfN(rapid.Map(rapid.IntRange(-40, 40), func(v int) float32 { return float32(v) / 8 }), n, n).Draw(t, "logits")
	return p, logits, ids.Draw(t, "prompt"), ids.Draw(t, "output")
}

func TestSampleAgainstReference(t *testing.T) {
	for _, n := range []int{1, 2, 17, 100, 1500} {
		s := sampling.NewSampler(n)
		rapid.Check(t, func(t *rapid.T) {
			p, logits, prompt, output := drawParams(t, n)
			row := refTransform(logits, p, prompt, output)
			token, _, err := s.Sample(sampling.Row{Logits: slices.Clone(logits), Params: p, Prompt: prompt, Output: output})
			if slices.Max(row) == math.Inf(-1) {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			// A border that falls on a sum of probabilities may go either way by rounding.
			var wants []int32
			for _, nudge := range []float64{-1e-9, 0, 1e-9} {
				q := *p
				q.TopP, q.MinP = p.TopP*(1+nudge), p.MinP*(1+nudge)
				if p.TopP == 1 {
					q.TopP = 2
				}
				wants = append(wants, refSample(row, &q, len(output)))
			}
			require.Contains(t, wants, token)
		})
	}
}

func TestScratchLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 30
		shared := sampling.NewSampler(n)
		for range 4 {
			p, logits, prompt, output := drawParams(t, n)
			p.NumLogprobs = 3
			row := sampling.Row{Logits: slices.Clone(logits), Params: p, Prompt: prompt, Output: output}
			token, lp, err := shared.Sample(row)
			row.Logits = logits
			freshToken, freshLP, freshErr := sampling.NewSampler(n).Sample(row)
			require.Equal(t, freshErr, err)
			require.Equal(t, freshToken, token)
			require.Equal(t, freshLP, lp)
		}
	})
}

func TestDrawSeed(t *testing.T) {
	seen := map[uint64]bool{}
	for n := range uint64(1000) {
		seen[sampling.DrawSeed(7, n)] = true
	}
	require.Len(t, seen, 1000)
	require.NotEqual(t, sampling.DrawSeed(7, 1), sampling.DrawSeed(8, 1))
}

func TestDeriveSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		require.Equal(t, seed, sampling.DeriveSeed(seed, 0))
		seen := map[uint64]bool{}
		for choice := range 128 {
			seen[sampling.DeriveSeed(seed, choice)] = true
		}
		require.Len(t, seen, 128)
	})
}
