package openai

import (
	"math"
	"slices"

	"github.com/troupe-llm/troupe/infer"
)

const (
	greedyBelow    = 1e-5 // temperatures below are greedy, as in vLLM
	minTemperature = 0.01 // positive temperatures below are raised to it
)

// sampling reads every sampling field but those of logprobs, in order of
// precedence: request, the model's generation config, neutral.
func (p *Profile) sampling(o *object) infer.SamplingParams {
	d := p.Model.Defaults
	s := infer.SamplingParams{
		Temperature:            temperature(o.inRange("temperature", 0, 2, or(d.Temperature, 1))),
		TopP:                   o.aboveZero("top_p", 1, or(d.TopP, 1)),
		MinP:                   o.inRange("min_p", 0, 1, or(d.MinP, 0)),
		PresencePenalty:        o.inRange("presence_penalty", -2, 2, 0),
		FrequencyPenalty:       o.inRange("frequency_penalty", -2, 2, 0),
		RepetitionPenalty:      o.aboveZero("repetition_penalty", math.MaxFloat64, or(d.RepetitionPenalty, 1)),
		TopK:                   p.topK(o),
		Stop:                   o.stringList("stop", p.MaxStopStrings),
		StopTokenIDs:           o.tokenIDList("stop_token_ids", p.Model.VocabSize, maxListedTokenIDs),
		IgnoreEOS:              o.flag("ignore_eos", false),
		IncludeStopStrInOutput: o.flag("include_stop_str_in_output", false),
		LogitBias:              o.logitBias("logit_bias", p.Model.VocabSize),
		AllowedTokenIDs:        p.allowedTokenIDs(o),
		NumLogprobs:            -1,
		NumPromptLogprobs:      -1,
		SkipSpecialTokens:      o.flag("skip_special_tokens", true),
		ExtraArgs:              o.extraArgs("vllm_xargs"),
	}
	if seed := o.seed(); seed != nil {
		s.Seed = *seed
	}
	// Checked and without effect: tokens are joined as they are.
	_ = o.boolean("spaces_between_special_tokens")
	return s
}

// seed returns the request's seed; nil if there is none. -1 means none, as in vLLM.
func (o *object) seed() *uint64 {
	seed := o.integer("seed", math.MinInt64, math.MaxInt64)
	if seed == nil || *seed == -1 {
		return nil
	}
	u := uint64(*seed)
	return &u
}

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

func temperature(t float64) float64 {
	switch {
	case t < greedyBelow:
		return 0
	case t < minTemperature:
		return minTemperature
	}
	return t
}

// inRange reads a float in [lo, hi].
func (o *object) inRange(name string, lo, hi, otherwise float64) float64 {
	f := o.float(name)
	if f == nil {
		return otherwise
	}
	if *f < lo || *f > hi {
		o.fail(infer.CodeInvalid, name, "must be in [%v, %v], got %v", lo, hi, *f)
	}
	return *f
}

// aboveZero reads a float in (0, hi].
func (o *object) aboveZero(name string, hi, otherwise float64) float64 {
	f := o.float(name)
	switch {
	case f == nil:
		return otherwise
	case *f <= 0:
		o.fail(infer.CodeInvalid, name, "must be greater than 0, got %v", *f)
	case *f > hi:
		o.fail(infer.CodeInvalid, name, "must be in (0, %v], got %v", hi, *f)
	}
	return *f
}

func (p *Profile) topK(o *object) int {
	k := o.count("top_k", math.MinInt32, math.MaxInt32)
	if k == nil {
		return or(p.Model.Defaults.TopK, 0)
	}
	if *k < -1 {
		o.fail(infer.CodeInvalid, "top_k", "must be -1 or 0 (off) or at least 1, got %d", *k)
	}
	return *k
}

func (p *Profile) allowedTokenIDs(o *object) []int32 {
	ids := o.tokenIDList("allowed_token_ids", p.Model.VocabSize, p.Model.VocabSize)
	if ids == nil {
		return nil
	}
	if len(ids) == 0 {
		o.fail(infer.CodeInvalid, "allowed_token_ids", "must not be empty")
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// choices reads n; several choices of a greedy request would all be equal.
func (p *Profile) choices(o *object, s *infer.SamplingParams) int {
	n := o.count("n", math.MinInt32, math.MaxInt32)
	if n == nil {
		return 1
	}
	switch {
	case *n < 1 || *n > p.MaxNumSequences:
		o.fail(infer.CodeInvalid, "n", "must be between 1 and %d, got %d", p.MaxNumSequences, *n)
	case *n > 1 && s.IsGreedy():
		o.fail(infer.CodeInvalid, "n", "must be 1 when using greedy sampling, got %d", *n)
	}
	return *n
}

// logprobs checks a number of alternatives against the cap; -1 asks for the
// whole vocabulary.
func (p *Profile) logprobs(o *object, name, what string) int {
	k := o.count(name, math.MinInt32, math.MaxInt32)
	if k == nil {
		return -1
	}
	n := *k
	if n < -1 {
		o.fail(infer.CodeInvalid, name, "must be at least 0, or -1 for the whole vocabulary, got %d", n)
	}
	if n == -1 {
		n = p.Model.VocabSize
	}
	if p.MaxLogprobs >= 0 && n > p.MaxLogprobs {
		o.fail(infer.CodeInvalid, name, "Requested %s logprobs of %d, which is greater than max allowed: %d", what, n, p.MaxLogprobs)
	}
	return min(n, p.Model.VocabSize)
}

// promptLogprobs reads prompt_logprobs; it has no form in streams.
func (p *Profile) promptLogprobs(o *object, r *Reply) int {
	n := p.logprobs(o, "prompt_logprobs", "prompt")
	if n < 0 {
		return -1
	}
	if r.Stream {
		o.fail(infer.CodeMalformed, "prompt_logprobs", "not available with stream: true")
	}
	r.PromptLogprobs = true
	return n
}

// maxTokens reads the first of names that is given and caps it by the model's
// own limit. The engine checks it against the context.
func (p *Profile) maxTokens(o *object, names ...string) (limit *int, param string) {
	for _, name := range names {
		limit, param = o.count(name, math.MinInt64, math.MaxInt64), name
		if limit != nil {
			break
		}
	}
	switch own := p.Model.Defaults.MaxNewTokens; {
	case limit == nil:
	case *limit > math.MaxInt32:
		o.fail(infer.CodeContextLength, param, "%d is greater than the model's maximum context length of %d tokens", *limit, p.Model.MaxModelLen)
	case own != nil && *limit > *own:
		limit = own
	}
	return limit, param
}

// minTokens reads min_tokens, which may not pass the limit.
func (p *Profile) minTokens(o *object, maxTokens *int) int {
	n := o.count("min_tokens", math.MinInt32, math.MaxInt32)
	switch {
	case n == nil:
		return 0
	case *n < 0:
		o.fail(infer.CodeInvalid, "min_tokens", "must be at least 0, got %d", *n)
	case maxTokens != nil && *n > *maxTokens:
		o.fail(infer.CodeInvalid, "min_tokens", "must be less than or equal to max_tokens=%d, got %d", *maxTokens, *n)
	case *n > p.Model.MaxModelLen:
		o.fail(infer.CodeInvalid, "min_tokens", "%d is greater than the context length of %d tokens", *n, p.Model.MaxModelLen)
	}
	return *n
}
