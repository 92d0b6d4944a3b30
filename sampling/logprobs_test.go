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

func TestLogprobsAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 5, 40, 700}).Draw(t, "n")
		logits := rapid.SliceOfN(rapid.Map(rapid.IntRange(-30, 30), func(v int) float32 {
			if v == -30 {
				return -inf
			}
			return float32(v) / 4
		}), n, n).Draw(t, "logits")
		logits[n/2] = 1 // something is finite
		token := rapid.Int32Range(0, int32(n)-1).Draw(t, "token")
		numTop := rapid.SampledFrom([]int{0, 1, 3, n / 2, n, n + 3}).Draw(t, "top")

		ids := make([]int32, n)
		var sum float64
		for i, v := range logits {
			ids[i] = int32(i)
			sum += math.Exp(float64(v))
		}
		slices.SortStableFunc(ids, func(a, b int32) int {
			switch {
			case logits[a] > logits[b]:
				return -1
			case logits[a] < logits[b]:
				return 1
			}
			return 0
		})
		got := sampling.NewSampler(n).Logprobs(logits, token, numTop)
		require.Len(t, got.Top, min(numTop, n))
		check := func(lp infer.TokenLogprob, rank int) {
			require.Equal(t, ids[rank], lp.TokenID)
			require.Equal(t, int32(rank)+1, lp.Rank)
			want := float64(logits[lp.TokenID]) - math.Log(sum)
			if math.IsInf(want, -1) {
				require.Equal(t, -inf, lp.Logprob)
			} else {
				require.InDelta(t, want, lp.Logprob, 1e-5)
			}
		}
		check(got.Token, slices.Index(ids, token))
		for i, lp := range got.Top {
			check(lp, i)
		}
	})
}

func TestLogprobsAreOfTheUntouchedRow(t *testing.T) {
	logits := []float32{3, 2, 1, 0}
	p := neutral(0)
	p.AllowedTokenIDs, p.NumLogprobs = []int32{2, 3}, 4
	p.LogitBias = []infer.TokenBias{{TokenID: 3, Bias: 50}}
	s := sampling.NewSampler(4)
	token, lp, err := s.Sample(sampling.Row{Logits: slices.Clone(logits), Params: p})
	require.NoError(t, err)
	require.Equal(t, int32(3), token)
	require.Equal(t, s.Logprobs(logits, 3, 4), lp)
	require.Equal(t, int32(4), lp.Token.Rank)
	require.Equal(t, int32(0), lp.Top[0].TokenID)
	var sum float64
	for _, top := range lp.Top {
		sum += math.Exp(float64(top.Logprob))
	}
	require.InDelta(t, 1, sum, 1e-6)
}

func TestLogprobsOnlyWhenAskedFor(t *testing.T) {
	p := neutral(0)
	_, lp, err := sampling.NewSampler(2).Sample(sampling.Row{Logits: []float32{1, 2}, Params: p})
	require.NoError(t, err)
	require.Zero(t, lp)
	p.NumLogprobs = 0
	_, lp, err = sampling.NewSampler(2).Sample(sampling.Row{Logits: []float32{1, 2}, Params: p})
	require.NoError(t, err)
	require.Equal(t, int32(1), lp.Token.TokenID)
	require.Empty(t, lp.Top)
}

func TestLogprobsOfUnsoundInput(t *testing.T) {
	s := sampling.NewSampler(2)
	for _, logits := range [][]float32{{nan, 1}, {inf, 1}, {-inf, -inf}} {
		lp := s.Logprobs(logits, 0, 2)
		require.Equal(t, -inf, lp.Token.Logprob)
		require.Len(t, lp.Top, 2)
		for _, top := range lp.Top {
			require.Equal(t, -inf, top.Logprob)
		}
	}
	require.Zero(t, s.Logprobs([]float32{1, 2}, 7, 0).Token.Rank)
	require.Zero(t, s.Logprobs([]float32{1, 2}, -1, 0).Token.Rank)
}
