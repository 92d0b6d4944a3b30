package sampling_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// chiSquare returns the chi-square statistic of counts against probabilities. A
// count where the probability is 0 makes it infinite.
func chiSquare(counts []int, probs []float64, draws int) (stat float64, freedom int) {
	for i, p := range probs {
		if p == 0 {
			if counts[i] > 0 {
				return math.Inf(1), 0
			}
			continue
		}
		expected := p * float64(draws)
		stat += (float64(counts[i]) - expected) * (float64(counts[i]) - expected) / expected
		freedom++
	}
	return stat, freedom - 1
}

// softmax of logits/temperature over the kept tokens.
func softmax(logits []float32, temperature float64, kept ...int) []float64 {
	probs := make([]float64, len(logits))
	var sum float64
	for _, i := range kept {
		probs[i] = math.Exp(float64(logits[i]) / temperature)
		sum += probs[i]
	}
	for i := range probs {
		probs[i] /= sum
	}
	return probs
}

// The draws are fixed by their seeds, so these tests have one outcome; the bound is
// the 0.999 quantile of the distribution (Wilson and Hilferty's approximation).
func TestDrawsFollowTheDistribution(t *testing.T) {
	logits := []float32{2, 1, 0, -1, 1.5, -3}
	tests := []struct {
		name  string
		set   func(p *infer.SamplingParams)
		probs []float64
	}{
		{"plain", func(*infer.SamplingParams) {}, softmax(logits, 1, 0, 1, 2, 3, 4, 5)},
		{"hot", func(p *infer.SamplingParams) { p.Temperature = 2 }, softmax(logits, 2, 0, 1, 2, 3, 4, 5)},
		{"cold", func(p *infer.SamplingParams) { p.Temperature = 0.5 }, softmax(logits, 0.5, 0, 1, 2, 3, 4, 5)},
		{"top_k", func(p *infer.SamplingParams) { p.TopK = 3 }, softmax(logits, 1, 0, 4, 1)},
		{"top_p", func(p *infer.SamplingParams) { p.TopP = 0.7 }, softmax(logits, 1, 0, 4)},
		{"min_p", func(p *infer.SamplingParams) { p.MinP = 0.13 }, softmax(logits, 1, 0, 4, 1, 2)},
		{"all three", func(p *infer.SamplingParams) { p.TopK, p.TopP, p.MinP = 4, 0.9, 0.1 }, softmax(logits, 1, 0, 4, 1)},
	}
	const draws = 20_000
	for _, tt := range tests {
		for _, along := range []string{"seeds", "positions"} {
			t.Run(tt.name+" along "+along, func(t *testing.T) {
				p := neutral(1)
				tt.set(p)
				stat, freedom := chiSquare(drawMany(t, logits, p, along), tt.probs, draws)
				k := float64(freedom)
				bound := k * math.Pow(1-2/(9*k)+3.09*math.Sqrt(2/(9*k)), 3)
				require.Less(t, stat, bound)
			})
		}
	}
}

// drawMany counts tokens over 20,000 seeds at one position, or positions under one seed.
func drawMany(t *testing.T, logits []float32, p *infer.SamplingParams, along string) []int {
	const draws = 20_000
	s := sampling.NewSampler(len(logits))
	counts := make([]int, len(logits))
	row := make([]float32, len(logits))
	output := make([]int32, draws)
	for i := range draws {
		q := *p
		n := 0
		if q.Seed = uint64(i); along == "positions" {
			q.Seed, n = 42, i
		}
		copy(row, logits)
		token, _, err := s.Sample(sampling.Row{Logits: row, Params: &q, Output: output[:n]})
		require.NoError(t, err)
		counts[token]++
	}
	return counts
}

// TestDrawsArePinned keeps the generator as it is: a change would give every
// client with a seed other tokens.
func TestDrawsArePinned(t *testing.T) {
	logits := make([]float32, 1000)
	s := sampling.NewSampler(len(logits))
	var got []int32
	for range 8 {
		p := neutral(1)
		p.Seed = 1234
		token, _, err := s.Sample(sampling.Row{Logits: logits, Params: p, Output: got})
		require.NoError(t, err)
		got = append(got, token)
	}
	require.Equal(t, []int32{838, 364, 545, 19, 400, 112, 616, 786}, got)
}
