package sampling

import (
	"math"

	"github.com/troupe-llm/troupe/infer"
)

// Row is one sequence's share of a sampling step.
type Row struct {
	Logits []float32 // one per vocabulary entry; overwritten
	Params *infer.SamplingParams
	Prompt []int32 // prompt token ids, read-only
	Output []int32 // token ids sampled so far, read-only; its length is the draw's position
	// Allowed has bit i%64 of word i/64 set for each token i that may be drawn at
	// all; nil = every token.
	Allowed []uint64
}

// Sampler holds the scratch memory of sampling. One goroutine uses it at a time.
// Scratch for a feature is made when the feature is first used and then kept.
type Sampler struct {
	vocabSize int
	raw       []float32   // copy of a row before it is changed, for logprobs
	counts    []int32     // per token: occurrences in the output; all 0 between calls
	cands     []candidate // what may be drawn
}

// NewSampler returns a Sampler for rows of vocabSize logits.
func NewSampler(vocabSize int) *Sampler { return &Sampler{vocabSize: vocabSize} }

// Sample draws the next token of r. lp is filled if r.Params.NumLogprobs >= 0,
// from the row as it came in. The error is an *infer.Error that concerns this
// row alone: CodeInternal if the row has NaN or +Inf or nothing finite,
// CodeInvalid if the request's own masks leave no token.
func (s *Sampler) Sample(r Row) (token int32, lp infer.TokenLogprobs, err error) {
	p := r.Params
	if len(r.Logits) != s.vocabSize || s.vocabSize == 0 {
		return 0, lp, infer.Errorf(infer.CodeInternal, "",
			"a row has %d logits, but the vocabulary has %d tokens", len(r.Logits), s.vocabSize)
	}
	raw := r.Logits
	if r.changes() {
		// The row as the model gave it must be sound: afterwards a mask may hide a NaN.
		if _, err := argmax(r.Logits); err != nil {
			return 0, lp, notFinite(err, len(r.Output))
		}
		if p.NumLogprobs >= 0 {
			s.raw = append(s.raw[:0], r.Logits...)
			raw = s.raw
		}
		s.transform(r)
	}
	best, err := argmax(r.Logits)
	if err != nil {
		return 0, lp, s.explain(err, r)
	}
	token = best
	if !p.IsGreedy() {
		token = s.draw(r, best)
	}
	if p.NumLogprobs >= 0 {
		lp = s.Logprobs(raw, token, p.NumLogprobs)
	}
	return token, lp, nil
}

// rowFault says what is wrong with a row.
type rowFault string

func (f rowFault) Error() string { return string(f) }

const (
	faultNaN  rowFault = "NaN"
	faultInf  rowFault = "+Inf"
	faultNone rowFault = "only -Inf"
)

// argmax returns the token with the highest logit, the lowest id among equals.
// It fails if the row holds NaN or +Inf, or nothing but -Inf.
func argmax(logits []float32) (int32, error) {
	best, at := float32(math.Inf(-1)), -1
	for i, v := range logits {
		if v <= best { // false for NaN too
			continue
		}
		if v != v {
			return 0, faultNaN
		}
		best, at = v, i
	}
	switch {
	case at < 0:
		return 0, faultNone
	case math.IsInf(float64(best), 1):
		return 0, faultInf
	}
	return int32(at), nil
}

// notFinite reports a row that the model itself got wrong.
func notFinite(fault error, pos int) error {
	return &infer.Error{Code: infer.CodeInternal, Err: fault,
		Message: "the model's logits are not finite (" + fault.Error() + ")" + atPosition(pos)}
}

// explain turns a fault of a row that has been through transform into an error.
func (s *Sampler) explain(fault error, r Row) error {
	if fault == faultNone && r.changes() {
		return infer.Errorf(infer.CodeInvalid, "",
			"no token is left to sample%s: structured output, allowed_token_ids, bad_words and min_tokens together exclude the whole vocabulary of %d tokens",
			atPosition(len(r.Output)), s.vocabSize)
	}
	return notFinite(fault, len(r.Output))
}
