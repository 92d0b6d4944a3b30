// Package sampling turns a row of logits into one token, and a run of text into
// text with its stop strings cut off.
//
// It is the reference for every sampler of the project: the draw is a pure
// function of (logits, seed, position), so that a sequence resumed elsewhere
// after a failure goes on with the same tokens. The order of operations is that
// of vLLM's v1 sampler (vllm/v1/sample/sampler.py).
package sampling
