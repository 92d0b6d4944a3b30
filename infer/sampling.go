package infer

import "slices"

// SamplingParams are resolved and validated: request over the model's
// generation config over neutral values, ranges checked, strings tokenized. One
// value belongs to one sequence and is never changed after submission.
type SamplingParams struct {
	Temperature       float64 // 0 = greedy
	TopP              float64 // (0, 1]; 1 = off
	TopK              int     // <= 0 = off
	MinP              float64 // [0, 1]; 0 = off
	PresencePenalty   float64 // [-2, 2]; 0 = off
	FrequencyPenalty  float64 // [-2, 2]; 0 = off
	RepetitionPenalty float64 // > 0; 1 = off

	// Seed is always set when a sequence is submitted: from the request (mixed
	// with the choice index) or drawn by the engine. Token i of the output is a
	// pure function of (logits, Seed, i).
	Seed uint64

	MaxTokens int // resolved: >= 0; 0 only for prompt scoring (echo)
	MinTokens int // end-of-sequence and stop ids are masked before this many tokens

	Stop                   []string // stop strings, none empty
	StopTokenIDs           []int32  // the request's stop_token_ids
	EOSTokenIDs            []int32  // the model's own end-of-sequence ids
	IgnoreEOS              bool     // EOSTokenIDs do not end the sequence
	IncludeStopStrInOutput bool

	LogitBias       []TokenBias // sorted by id, values in [-100, 100]
	BadWords        [][]int32   // token sequences that must not be completed
	AllowedTokenIDs []int32     // nil = all; else sorted, only these may be drawn

	// Grammar narrows the draws to its texts; nil = none. It goes before
	// MinTokens: a text that is complete and cannot go on ends.
	Grammar Grammar

	// NumLogprobs is the number of alternatives to report beside each sampled
	// token: -1 = no logprobs, 0 = the sampled token only, VocabSize = all.
	NumLogprobs int
	// NumPromptLogprobs is the same for prompt tokens: -1 = off.
	NumPromptLogprobs int

	SkipSpecialTokens bool // special tokens do not appear in text

	// ExtraArgs is vllm_xargs as sent: names to JSON scalars, passed to the
	// runner unread. nil when absent.
	ExtraArgs map[string]string
}

// TokenBias is one entry of logit_bias.
type TokenBias struct {
	TokenID int32
	Bias    float32
}

// IsGreedy reports whether the most likely token is always taken.
func (p *SamplingParams) IsGreedy() bool { return p.Temperature == 0 }

// StopsOn reports whether drawing id ends a sequence with these parameters,
// min_tokens aside. byRequest is true for the request's own stop_token_ids,
// which are reported as stop_reason; the model's are not, even if the request
// lists them too.
func (p *SamplingParams) StopsOn(id int32) (stops, byRequest bool) {
	if !p.IgnoreEOS && slices.Contains(p.EOSTokenIDs, id) {
		return true, false
	}
	if slices.Contains(p.StopTokenIDs, id) {
		return true, true
	}
	return false, false
}

// TokenLogprob is one token with its log-probability (natural log, <= 0, may be
// -Inf for a masked token: writers show that as -9999).
type TokenLogprob struct {
	TokenID int32
	Logprob float32
	Rank    int32  // 1 = most likely; counts ties as better only if their id is lower
	Text    string // the token's raw bytes, possibly a part of a character; filled by the sequence actor
}

// TokenLogprobs is what is reported for one position: the token that stands
// there and the most likely alternatives, most likely first.
type TokenLogprobs struct {
	Token TokenLogprob
	Top   []TokenLogprob
}
