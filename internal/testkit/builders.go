package testkit

import (
	"sync/atomic"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler"
)

// Params returns neutral sampling parameters: no limit on tokens but maxTokens,
// no logprobs, end-of-sequence token EOS.
func Params(maxTokens int) infer.SamplingParams {
	return infer.SamplingParams{
		Temperature: 1, TopP: 1, RepetitionPenalty: 1, MaxTokens: maxTokens, EOSTokenIDs: []int32{EOS},
		NumLogprobs: -1, NumPromptLogprobs: -1, SkipSpecialTokens: true,
	}
}

// Completion returns a request for one completion of a text, with seed 1.
func Completion(text string, maxTokens int) *infer.Request {
	params := Params(maxTokens)
	params.Seed = 1
	return &infer.Request{
		ID: "cmpl-test", Arrival: infer.Now(), Prompts: []infer.Prompt{{Text: text}}, N: 1,
		Sampling: params, MaxTokens: &maxTokens, SeedGiven: true,
	}
}

// SchedulerConfig returns a small scheduler's limits for a device's defaults.
func SchedulerConfig() scheduler.Config {
	return scheduler.Config{
		MaxNumSeqs: 8, MaxNumBatchedTokens: 32, MaxModelLen: 128,
		EnableChunkedPrefill: true, EnablePrefixCaching: true,
	}
}

// Model describes what the scripted device serves.
func Model() infer.ModelInfo {
	return infer.ModelInfo{ServedNames: []string{"scripted"}, Root: "scripted", MaxModelLen: 128, VocabSize: NumTokens}
}

// Clock is a clock that stands still until it is moved. The zero value reads 1.
type Clock struct{ now atomic.Int64 }

// Now returns nanoseconds.
func (c *Clock) Now() int64 { return c.now.Load() + 1 }

// Advance moves the clock by ns nanoseconds.
func (c *Clock) Advance(ns int64) { c.now.Add(ns) }
