package infer

// SeqID names a sequence within one process; never reused.
type SeqID uint64

// Runner executes steps of a model on one device. Launch is called from one
// goroutine, and at most one step is in flight.
type Runner interface {
	// Launch starts a step and returns without waiting for it. done is called
	// exactly once, from any goroutine, possibly before Launch returns, with the
	// result or with the error that ended the step; a panic inside the step is
	// delivered as an error too. The plan and everything it points to stay
	// unchanged until done has been called.
	Launch(plan *StepPlan, done func(*StepResult, error))
	// Spec describes the device and the cache it holds.
	Spec() RunnerSpec
	// Close frees the device's memory. No step may be in flight.
	Close() error
}

// RunnerSpec is what the scheduler must know of a runner.
type RunnerSpec struct {
	NumBlocks   int // KV blocks
	BlockSize   int // tokens per block
	VocabSize   int
	MaxModelLen int
	// NumSpecTokens is how many draft tokens the runner proposes for a sequence
	// and step at most; 0 = it does not speculate.
	NumSpecTokens int
	// NumLookaheadSlots is how many positions beyond the tokens of a step the
	// runner writes to while it proposes; 0 = none. They hold nothing to be kept.
	NumLookaheadSlots int
	Device            string // for people: "cpu (AVX-512, 2 threads)"
	DType             string // of the weights, for people: "bfloat16", "q4_k and q6_k"
}

// StepPlan is one value from scheduler to runner: which tokens of which
// sequences to compute, where their keys and values go, and which rows to
// sample. Row order is plan order.
type StepPlan struct {
	StepID    uint64
	Sequences []ScheduledSequence
	NumTokens int // sum of len(TokenIDs)
}

// ScheduledSequence is one sequence's share of a step.
type ScheduledSequence struct {
	SeqID SeqID
	// TokenIDs are computed in this step, at positions StartPos, StartPos+1, …
	TokenIDs []int32
	StartPos int
	// BlockTable lists the KV blocks of positions 0 … StartPos+len(TokenIDs)-1.
	BlockTable []int32
	// Sample asks for one new token after the last of TokenIDs. It is false for
	// a prefill chunk that is not the last, and for prompt scoring.
	Sample bool
	Params *SamplingParams
	// PromptTokenIDs and OutputTokenIDs are the sequence so far (for penalties,
	// bad words and the draw's position), drafts included; read-only.
	PromptTokenIDs []int32
	OutputTokenIDs []int32
	// NumDraftTokens counts the draft tokens at the end of TokenIDs, and of
	// OutputTokenIDs. A draft is accepted if it is the very token that is drawn at
	// its place. Sample asks for a draw after the last token before the drafts,
	// and after each draft as long as all were accepted.
	NumDraftTokens int
	// Matcher follows the sequence if Params has a Grammar. It is the runner's
	// during the step, and has accepted a beginning of the output before the
	// drafts, maybe all.
	Matcher Matcher
	// NumProposals is how many draft tokens for the sequence's next step are
	// welcome; 0 = none.
	NumProposals int
}

// StepResult answers a StepPlan; Sequences is parallel to the plan's. The
// receiver has it until the next Launch, with which the runner may use its memory
// again; what the elements point to is the receiver's for good.
type StepResult struct {
	StepID    uint64
	Sequences []SequenceResult
}

// SequenceResult is what one sequence got from a step.
type SequenceResult struct {
	NewTokenIDs []int32         // empty if nothing was sampled; all but the last are accepted drafts
	Logprobs    []TokenLogprobs // parallel to NewTokenIDs if NumLogprobs >= 0
	// PromptLogprobs describe the prompt tokens at positions StartPos+1 …
	// StartPos+len(TokenIDs), as far as those are prompt tokens; only if
	// NumPromptLogprobs >= 0.
	PromptLogprobs []TokenLogprobs
	// DraftTokenIDs are proposed to follow NewTokenIDs, at most NumProposals.
	DraftTokenIDs []int32
	// Deferred says that no token was drawn although Sample asked for one: the mask
	// takes longer than a step may wait. The last of TokenIDs is to be computed again.
	Deferred bool
	// Err fails this sequence alone, for example when its logits are not finite.
	Err error
}

// SequenceFault is an error of a whole step that is known to be one sequence's
// doing: a panic while its rows were sampled. The others aboard are innocent.
type SequenceFault struct {
	SeqID SeqID
	Err   error
}

// Error implements error.
func (f *SequenceFault) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *SequenceFault) Unwrap() error { return f.Err }
