package sampling_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/sampling"
)

// bell fills a row with a fixed, roughly normal shape, as a model's logits have.
func bell(n int) []float32 {
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(4 * math.Sqrt(-2*math.Log(refUniform(1, i, 0))) * math.Cos(2*math.Pi*refUniform(2, i, 0)))
	}
	return logits
}

var settings = []struct {
	name string
	set  func(p *infer.SamplingParams)
}{
	{"greedy", func(p *infer.SamplingParams) { p.Temperature = 0 }},
	{"plain", func(*infer.SamplingParams) {}},
	{"top_k=50", func(p *infer.SamplingParams) { p.TopK = 50 }},
	{"top_p=0.95", func(p *infer.SamplingParams) { p.TopP = 0.95 }},
	{"top_k=1000,top_p=0.95", func(p *infer.SamplingParams) { p.TopK, p.TopP = 1000, 0.95 }},
	{"penalties", func(p *infer.SamplingParams) { p.FrequencyPenalty, p.RepetitionPenalty = 1, 1.1 }},
	{"logprobs=0", func(p *infer.SamplingParams) { p.Temperature, p.NumLogprobs = 0, 0 }},
	{"logprobs=20", func(p *infer.SamplingParams) { p.Temperature, p.NumLogprobs = 0, 20 }},
}

func TestAllocations(t *testing.T) {
	logits := bell(2048)
	row := make([]float32, len(logits))
	history := make([]int32, 100)
	for _, tt := range settings {
		p := neutral(0.8)
		tt.set(p)
		p.BadWords, p.AllowedTokenIDs = [][]int32{{3, 4}}, []int32{1, 2, 3, 4, 5}
		s := sampling.NewSampler(len(logits))
		allocs := testing.AllocsPerRun(20, func() {
			copy(row, logits)
			_, _, err := s.Sample(sampling.Row{Logits: row, Params: p, Prompt: history, Output: history})
			require.NoError(t, err)
		})
		want := 0.0
		if p.NumLogprobs > 0 {
			want = 1 // the list of alternatives, which the receiver keeps
		}
		require.Equal(t, want, allocs, tt.name)
	}
}

func BenchmarkSample(b *testing.B) {
	for _, n := range []int{2048, 131072} {
		logits := bell(n)
		row := make([]float32, n)
		history := make([]int32, 1000)
		for _, tt := range settings {
			b.Run(fmt.Sprintf("vocab=%d/%s", n, tt.name), func(b *testing.B) {
				p := neutral(0.8)
				tt.set(p)
				s := sampling.NewSampler(n)
				b.ReportAllocs()
				for i := range b.N {
					copy(row, logits)
					p.Seed = uint64(i)
					if _, _, err := s.Sample(sampling.Row{Logits: row, Params: p, Prompt: history, Output: history}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkStopMatcher(b *testing.B) {
	m := sampling.NewStops([]string{"</answer>", "\n\nUser:"}).NewMatcher(false)
	b.ReportAllocs()
	for range b.N {
		m.Push(" token")
	}
}
