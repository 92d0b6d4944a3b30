package sampling

import (
	"math"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

// Logprobs describes token and the numTop most likely tokens under logits: the
// log-softmax taken in float64, most likely first. A token outside the
// vocabulary, and every token of a row without a finite maximum, has -Inf; such
// a token's Rank is 0.
func (s *Sampler) Logprobs(logits []float32, token int32, numTop int) infer.TokenLogprobs {
	norm := logSumExp(logits)
	lp := infer.TokenLogprobs{Token: infer.TokenLogprob{TokenID: token, Logprob: negInf}}
	if uint32(token) < uint32(len(logits)) {
		lp.Token = infer.TokenLogprob{
			TokenID: token,
			Logprob: logprob(logits[token], norm),
			Rank:    rank(logits, token),
		}
	}
	numTop = min(numTop, len(logits))
	if numTop <= 0 {
		return lp
	}
	c := s.selectTop(logits, numTop, negInf)
	slices.SortFunc(c, compare)
	lp.Top = make([]infer.TokenLogprob, len(c), numTop)
	for i := range c {
		lp.Top[i] = infer.TokenLogprob{TokenID: c[i].id, Logprob: logprob(c[i].logit, norm), Rank: int32(i) + 1}
	}
	if len(c) < numTop {
		lp.Top = appendMasked(lp.Top, logits)
	}
	return lp
}

// appendMasked fills top up to its capacity with the tokens that selectTop leaves
// out: those at -Inf, by id.
func appendMasked(top []infer.TokenLogprob, logits []float32) []infer.TokenLogprob {
	for i, v := range logits {
		if len(top) == cap(top) {
			break
		}
		if !(v >= -math.MaxFloat32) {
			top = append(top, infer.TokenLogprob{TokenID: int32(i), Logprob: negInf, Rank: int32(len(top)) + 1})
		}
	}
	return top
}

// logSumExp returns the logarithm of the sum of exponentials, summed in order of
// ids; NaN if that has no finite value.
func logSumExp(logits []float32) float64 {
	best, err := argmax(logits)
	if err != nil {
		return math.NaN()
	}
	top := float64(logits[best])
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// logprob is <= 0 whatever the rounding, and -Inf in place of NaN.
func logprob(logit float32, norm float64) float32 {
	v := float64(logit) - norm
	if math.IsNaN(v) {
		return negInf
	}
	return float32(min(v, 0))
}

// rank counts the tokens that are more likely than token, plus 1.
func rank(logits []float32, token int32) int32 {
	at := logits[token]
	n := int32(1)
	for _, v := range logits[:token] {
		if v >= at {
			n++
		}
	}
	for _, v := range logits[token+1:] {
		if v > at {
			n++
		}
	}
	return n
}
