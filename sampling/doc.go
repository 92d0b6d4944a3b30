// Package sampling turns a row of logits into one token, and a run of text into
// text with its stop strings cut off.
//
// It is the reference for every sampler of the project. The draw is a pure
// function of (logits, seed, position), so that a sequence resumed elsewhere
// after a failure goes on with the same tokens.
//
// The order of operations is that of vLLM's v1 sampler
// (vllm/v1/sample/sampler.py): log-probabilities of the untouched row;
// allowed_token_ids; bad_words; logit_bias; min_tokens; repetition, frequency
// and presence penalties; then either the argmax, or temperature, min_p, top_k,
// top_p and a draw.
//
// Where several tokens have the same logit, the one with the lower id counts as
// the more likely: top_k = k keeps exactly k tokens, and top_k = 1 is greedy.
package sampling
