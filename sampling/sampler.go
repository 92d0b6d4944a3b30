package sampling

import "github.com/troupe-llm/troupe/infer"

// Row is one sequence's share of a sampling step.
type Row struct {
	Logits []float32 // one per vocabulary entry; overwritten
	Params *infer.SamplingParams
	Prompt []int32 // prompt token ids, read-only
	Output []int32 // token ids sampled so far, read-only; its length is the draw's position
}

// Sampler holds the scratch memory of sampling. One goroutine uses it at a time.
type Sampler struct {
	vocabSize int
}

// NewSampler returns a Sampler for rows of vocabSize logits.
func NewSampler(vocabSize int) *Sampler { return &Sampler{vocabSize: vocabSize} }

// Sample draws the next token of r.
func (s *Sampler) Sample(r Row) (token int32, lp infer.TokenLogprobs, err error) {
	return 0, infer.TokenLogprobs{}, infer.Errorf(infer.CodeNotImplemented, "", "sampling is not available")
}

// Logprobs describes token and the numTop most likely tokens under logits.
func (s *Sampler) Logprobs(logits []float32, token int32, numTop int) infer.TokenLogprobs {
	return infer.TokenLogprobs{}
}
