package infer

import (
	"context"
	"errors"
)

// Generator runs requests. The actors implement it; the HTTP layer calls it.
type Generator interface {
	// Generate admits a request. Every refusal that can be known before the
	// first step (template, length, admission) is returned here as an *Error; a
	// non-nil Stream always ends with a Final event. ctx bounds admission only:
	// to stop a running request call Stream.Cancel.
	Generate(ctx context.Context, req *Request) (Stream, error)
	// Tokenize and Detokenize serve the endpoints of those names.
	Tokenize(ctx context.Context, req *TokenizeRequest) (*TokenizeResult, error)
	Detokenize(ctx context.Context, tokenIDs []int32) (string, error)
	// Model describes what is served; the value never changes.
	Model() *ModelInfo
	// Health returns nil while requests can be served.
	Health() error
}

// ModelInfo describes the served model.
type ModelInfo struct {
	ServedNames []string // >= 1; the first is echoed and used as metric label
	Root        string   // what was loaded: path or name
	MaxModelLen int      // context length in tokens
	VocabSize   int
	// Defaults are the sampling values of generation_config.json; nil = not given.
	Defaults SamplingDefaults
}

// MaxListedTokens is the most tokens that one call may list, tokenize or turn into
// text without generating: counting a text longer than the context is legitimate,
// filling the memory with it is not.
func (m *ModelInfo) MaxListedTokens() int { return max(4*m.MaxModelLen, 1<<20) }

// SamplingDefaults are the model's own sampling values; nil fields are not given.
type SamplingDefaults struct {
	Temperature, TopP, MinP, RepetitionPenalty *float64
	TopK, MaxNewTokens                         *int
}

// Stream is the reader's end of one request. One goroutine reads it:
//
//	for range s.Ready() { events = s.Drain(events[:0]); … until a Final }
//
// The writer never waits for the reader: what is pending is bounded in bytes,
// and past the bound the request is cancelled with CancelSlowClient.
type Stream interface {
	// ID returns the request's id.
	ID() string
	// Ready receives a value when events may be pending. It is never closed.
	Ready() <-chan struct{}
	// Drain appends the pending events to buf and returns the result. The memory
	// of an empty buf may be kept by the stream, which then returns other memory;
	// what was returned belongs to the reader until its next Drain.
	Drain(buf []Event) []Event
	// Cancel asks for the end of the request; idempotent, never blocks. The
	// Final event still comes.
	Cancel(reason CancelReason)
}

// CancelReason says who gave up on a request.
type CancelReason string

// The reasons to cancel.
const (
	CancelClientGone CancelReason = "client_gone"
	CancelSlowClient CancelReason = "slow_client"
	CancelDeadline   CancelReason = "deadline"
	CancelShutdown   CancelReason = "shutdown"
	CancelAdmin      CancelReason = "admin"
	CancelTooLarge   CancelReason = "too_large" // the answer grew past what may be kept of one
	CancelInternal   CancelReason = "internal"  // the reader failed: a panic of its own
)

// CancelError is what a client that is still there is told of a request that was given
// up; nil for one that left, and if nobody gave up ("").
func CancelError(reason CancelReason) *Error {
	switch reason {
	case "", CancelClientGone:
		return nil
	case CancelShutdown:
		return Errorf(CodeUnavailable, "", "The request was cancelled because the server is shutting down.")
	case CancelDeadline:
		return Errorf(CodeUnavailable, "", "The request was cancelled because its deadline has passed.")
	case CancelSlowClient:
		return Errorf(CodeUnavailable, "", "The request was cancelled because its response was not read fast enough.")
	case CancelTooLarge:
		return Errorf(CodeInvalid, "", "The request was cancelled because its response grew larger than the server keeps.")
	case CancelInternal:
		return Internal(errors.New("the reader of the response failed"))
	default:
		return Errorf(CodeUnavailable, "", "The request was cancelled by the server's operator.")
	}
}

// Event is one item of a Stream: a Delta, or the Final if that is non-nil.
type Event struct {
	Delta Delta
	Final *Final
}

// Delta is new output of one choice. Deltas of one choice come in order; the
// last one of each choice has a FinishReason. Text is valid UTF-8.
type Delta struct {
	Index    int // prompt * n + choice
	Text     string
	TokenIDs []int32 // tokens behind Text; may run ahead of or behind it by a held-back piece
	// Logprobs has one entry per token of TokenIDs; nil when not asked for.
	Logprobs        []TokenLogprobs
	NumOutputTokens int         // running total of this choice, this delta included
	Prompt          *PromptInfo // first delta of a choice, if the request asked for any of it
	FinishReason    FinishReason
	StopReason      StopReason
	// Parsed, if not nil, stands for Text, which is then as the model wrote it: the
	// request has its thoughts told apart from the answer, or is searched for calls.
	// What may still become either is held back.
	Parsed *Parsed
}

// PromptInfo describes a choice's prompt.
type PromptInfo struct {
	Text     string
	TokenIDs []int32
	// Logprobs has one entry per prompt token; the first has Top nil and an
	// undefined Logprob, as nothing precedes it. nil when not asked for.
	Logprobs []TokenLogprobs
}

// Final is the last event of every stream: the bill and, when the request is
// attributable to one sequence and the feature is on, its times.
type Final struct {
	Usage Usage
	// FinishReason is the whole request's: the worst of its choices, error before
	// abort before length before stop.
	FinishReason FinishReason
	// NumRecoveries counts the failures of a batcher that the request lived
	// through; with several sequences, the most that one of them did.
	NumRecoveries int
	Metrics       *RequestMetrics // nil = suppressed (several sequences, several turns) or feature off
	// ChoiceMetrics are those of each choice, by Delta.Index, where Metrics is
	// suppressed; nil = feature off, or one sequence.
	ChoiceMetrics []RequestMetrics
	// Loop is set of a request that could call tools of the server, unless it failed
	// before it did. Usage is the sum over its turns.
	Loop *Loop
	// Err is set if the request failed or was cancelled by the server; the
	// deltas so far stand, but no finish reason followed.
	Err *Error
}

// Usage counts tokens. NumPromptTokens counts each prompt once whatever n is.
type Usage struct {
	NumPromptTokens     int
	NumCompletionTokens int // sum over all choices
	NumCachedTokens     int // prompt tokens found in the prefix cache
	NumReasoningTokens  int // completion tokens that are thoughts; 0 if those are not told apart
}
