package infer

// Inspector looks into the requests of a Generator that runs them, and steps in.
// All methods are safe for concurrent use, cheap, and never hold up a token.
type Inspector interface {
	// Requests returns the live requests, oldest first.
	Requests() []RequestInfo
	// CancelRequest ends every live request of that id with CancelAdmin; false =
	// there is none.
	CancelRequest(id string) bool
	// InjectFault makes the next step of a batcher fail, for tests of what happens
	// then. Kinds: "panic", "error", "stall". batcher -1 = the first busy one. It
	// is an *Error unless fault injection is switched on.
	InjectFault(kind string, batcher int) error
}

// RequestPhase says how far a request has come.
type RequestPhase string

// The phases. A request of several sequences is in the one that its most
// advanced sequence is in.
const (
	PhaseQueued           RequestPhase = "queued"
	PhasePrefill          RequestPhase = "prefill"
	PhaseDecode           RequestPhase = "decode"
	PhaseWaitingForDevice RequestPhase = "waiting_for_device"
)

// RequestInfo is a live request as it was at some instant of the call; its
// numbers may be of slightly different instants.
type RequestInfo struct {
	ID, Key         string
	Phase           RequestPhase
	Arrival         int64 // Now() when the request had been read
	NumPromptTokens int   // each prompt once
	NumOutputTokens int   // sum over all sequences
	NumCachedTokens int   // prompt tokens found in the prefix cache
	NumSequences    int
	NumRecoveries   int // failures of a batcher lived through
	QueuePosition   int // 1 = next; 0 = not queued
	Priority        int
}
