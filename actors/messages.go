package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-llm/troupe/cluster"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// Messages are immutable once sent, and sent as pointers with a plain Send. None
// of them is answered through a future: whoever owes an answer knows the asker's
// PID. For each message: who sends it, when, and what must follow.

// AddSequence asks a batcher to generate. Sender: a sequence, after it has begun
// to watch the batcher. It is answered by outputs of which exactly one is
// terminal, or by SequenceInterrupted, or by the batcher's Terminated alone if
// the message was lost behind a stop.
type AddSequence struct {
	SeqID          infer.SeqID
	PromptTokenIDs []int32
	OutputTokenIDs []int32 // non-empty: the sequence resumes after a failure
	Params         *infer.SamplingParams
	Priority       int
	Arrival        int64 // breaks ties of Priority
	CacheSalt      string
	Key            string // whose sequence it is, and that one's weight; see scheduler.SequenceOptions
	KeyWeight      int
	// NumPromptLogprobs counts those already received, not to be sent again.
	NumPromptLogprobs int
	Stamps            infer.Stamps // what is known so far; Queued is always set
	Crashes           Crashes      // what speaks against it; may make it run alone
	ReplyTo           *actor.PID

	place   *place           // in the admission queue; left at the first selection
	demand  *cluster.Demand  // nil = the engine is in no cluster
	account *metrics.Account // the batcher's from now on, until it has answered; nil = none
}

// AbortSequence asks a batcher to forget a sequence. Sender: the sequence, when
// it was cancelled, found a stop string, or dies. Idempotent, also for unknown
// ids; the terminal output still comes if it was owed.
type AbortSequence struct{ SeqID infer.SeqID }

// StepDone carries the end of a step back to its batcher. Sender: the runner's
// goroutine, through device.launch, once per launch.
type StepDone struct {
	Result  *infer.StepResult
	Err     error // Result is nil
	EndedAt int64 // the step's one clock reading, nanoseconds of Config.Clock
}

// SequenceOutput is what one step gave one sequence. Sender: the batcher, one
// per sequence and step, in token order. All outputs of a step share their
// memory; each belongs to its receiver.
type SequenceOutput struct {
	Epoch       uint64
	NewTokenIDs []int32
	// NumOutputTokens is the running total, NewTokenIDs included. It never skips.
	NumOutputTokens int
	LastToken       int64 // as in Stamps
	// FinishReason other than FinishNone makes the output terminal: the batcher
	// has forgotten the sequence.
	FinishReason infer.FinishReason
	// Stalled is the Lapse.StalledByPrefill since the last output, in nanoseconds; 0
	// without an account. What does not fit is in the details.
	Stalled uint32
	Details *OutputDetails // nil = nothing but tokens is new
}

// OutputDetails is what most outputs do not have. It is apart since there is an
// output for every token, written on one core and read on another: without it, one
// is a line of the cache. The first output with a token and the last one have it.
type OutputDetails struct {
	// The state of the sequence with this output.
	Stamps          infer.Stamps
	NumCachedTokens int32
	NumPreemptions  int32

	Err            *infer.Error          // with FinishError
	Logprobs       []infer.TokenLogprobs // parallel to NewTokenIDs if asked for
	PromptLogprobs []infer.TokenLogprobs // those newly known, in order
	// NumDraftTokens were verified by the step, NumAcceptedTokens of them drawn.
	NumDraftTokens, NumAcceptedTokens int
	StopReason                        infer.StopReason
	Lapse                             *metrics.Lapse // since the last output, beside Stalled; nil = none
}

var noDetails OutputDetails // never written to

// details returns the Details of an output whether it has any or not.
func (m *SequenceOutput) details() *OutputDetails {
	if m.Details == nil {
		return &noDetails
	}
	return m.Details
}

// SequenceInterrupted tells a sequence that its batcher dies. Sender: the
// batcher while it stops, once per sequence that it knows; Terminated follows.
type SequenceInterrupted struct {
	Epoch   uint64
	Stamps  infer.Stamps // may know more than the last output did
	Crashes Crashes      // for the next AddSequence
	Err     *infer.Error // the sequence is to blame and must not be resubmitted
}

// AwaitBatcher asks the supervisor for a living batcher. Sender: a sequence
// without one. It is answered by one BatcherReady.
type AwaitBatcher struct {
	ReplyTo *actor.PID
	Epoch   uint64 // of the batcher known to be dead; 0 = none

	place  *place          // counts at the batcher that the answer names
	demand *cluster.Demand // what such a batcher must be able to do; nil = anything
	since  int64           // when the supervisor let it wait, 0 = not yet; the supervisor's
	live   *liveSequence   // says whether the sequence still waits
}

// BatcherReady names the batcher to (re)submit to. Sender: the supervisor, in
// answer to AwaitBatcher, when there is one or when it has given up.
type BatcherReady struct {
	PID   *actor.PID // nil with Err
	Epoch uint64     // of that batcher
	Err   *infer.Error

	metrics *metrics.Engine
	seat    *seat
	device  *device // nil = of another node
}

// SequenceFinished ends one choice. Sender: the sequence, exactly once, after
// its last delta went into the stream.
type SequenceFinished struct {
	Index              int
	FinishReason       infer.FinishReason
	NumTokens          int
	NumCachedTokens    int
	NumReasoningTokens int // of NumTokens
	NumRecoveries      int // batchers that died under it
	Stamps             infer.Stamps
	Speculation        *infer.SpeculativeDecoding // nil = not recorded
	Breakdown          *infer.Breakdown           // nil = not recorded
	Err                *infer.Error               // with FinishError
}

// Cancel gives up. To a request: from Stream.Cancel, or from a sequence whose
// stream overflowed. To a sequence: from its request.
type Cancel struct{ Reason infer.CancelReason }
