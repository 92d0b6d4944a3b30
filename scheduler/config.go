package scheduler

import (
	"fmt"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/scheduler/kvcache"
)

// Policy is the order in which waiting sequences are admitted and running ones
// are preempted.
type Policy uint8

// The policies.
const (
	FCFS     Policy = iota // first come, first served; keys take turns by weight
	Priority               // lower Sequence.Priority first, then earlier Arrival
)

// String returns the word of vLLM's --scheduling-policy.
func (p Policy) String() string {
	if p == Priority {
		return "priority"
	}
	return "fcfs"
}

// ParsePolicy is the inverse of Policy.String.
func ParsePolicy(s string) (Policy, error) {
	switch s {
	case "fcfs":
		return FCFS, nil
	case "priority":
		return Priority, nil
	}
	return FCFS, infer.Errorf(infer.CodeInvalid, "scheduling_policy",
		"scheduling_policy must be fcfs or priority, got %q", s)
}

// Config holds a scheduler's limits. They do not change while it lives.
type Config struct {
	MaxNumSeqs           int // sequences that may hold blocks at the same time, >= 1
	MaxNumBatchedTokens  int // tokens computed in one step, >= MaxNumSeqs
	MaxModelLen          int // tokens of prompt and output of one sequence, >= 1
	EnableChunkedPrefill bool
	EnablePrefixCaching  bool
	Policy               Policy
	NumBlocks            int // KV blocks of the runner
	BlockSize            int // tokens per block
	// LongPrefillTokenThreshold bounds the tokens that one prefill gets in one
	// step; 0 = no bound beside the package's own rule. Used with chunked
	// prefill only.
	LongPrefillTokenThreshold int
	// ITLTarget is how long a step may take in which sequences decode, and so the gap
	// between two tokens of theirs, in nanoseconds; 0 = as long as it takes. Prefills
	// get as many tokens of such steps as fit: see pace. With chunked prefill only.
	ITLTarget int64
	// NumSpecTokens and NumLookaheadSlots are those of the runner.
	NumSpecTokens, NumLookaheadSlots int
}

func (c *Config) validate() error {
	for _, v := range []struct {
		name       string
		value, min int
	}{
		{"max_num_seqs", c.MaxNumSeqs, 1},
		{"max_num_batched_tokens", c.MaxNumBatchedTokens, 1},
		{"max_model_len", c.MaxModelLen, 1},
		{"long_prefill_token_threshold", c.LongPrefillTokenThreshold, 0},
		{"num_speculative_tokens", c.NumSpecTokens, 0},
		{"num_lookahead_slots", c.NumLookaheadSlots, 0},
	} {
		if v.value < v.min {
			return infer.Errorf(infer.CodeInvalid, v.name, "%s must be at least %d, got %d", v.name, v.min, v.value)
		}
	}
	if c.MaxNumBatchedTokens < c.MaxNumSeqs {
		return infer.Errorf(infer.CodeInvalid, "max_num_batched_tokens",
			"max_num_batched_tokens (%d) must be at least max_num_seqs (%d)", c.MaxNumBatchedTokens, c.MaxNumSeqs)
	}
	if c.ITLTarget < 0 || c.ITLTarget > 0 && !c.EnableChunkedPrefill {
		return infer.Errorf(infer.CodeInvalid, "itl_target_ms",
			"itl_target_ms must not be negative, and 0 without chunked prefill, got %d ns", c.ITLTarget)
	}
	if !c.EnableChunkedPrefill && c.MaxNumBatchedTokens < c.MaxModelLen {
		return infer.Errorf(infer.CodeInvalid, "max_num_batched_tokens",
			"without chunked prefill max_num_batched_tokens (%d) must be at least max_model_len (%d)",
			c.MaxNumBatchedTokens, c.MaxModelLen)
	}
	return nil
}

// New returns a scheduler with no sequences and an empty cache.
func New(c Config) (*Scheduler, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	cache, err := kvcache.New(kvcache.Config{
		NumBlocks: c.NumBlocks, BlockSize: c.BlockSize, EnablePrefixCaching: c.EnablePrefixCaching,
	})
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	less := rankFCFS
	if c.Policy == Priority {
		less = rankPriority
	}
	return &Scheduler{
		config:  c,
		cache:   cache,
		less:    less,
		pace:    pace{target: c.ITLTarget},
		share:   share{keys: make(map[string]keyShare)},
		byID:    make(map[infer.SeqID]*Sequence),
		waiting: newWaiting(less, c.MaxNumBatchedTokens/shortShare),
		// The first step is not an isolated sequence's if there are others.
		lastIsolated: true,
	}, nil
}
