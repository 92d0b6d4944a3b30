package infer

// FinishReason says why a sequence ended. The zero value means it has not.
type FinishReason uint8

// The reasons, in the words of vLLM's finished_reason label.
const (
	FinishNone       FinishReason = iota // still running
	FinishStop                           // end-of-sequence token, stop token or stop string
	FinishLength                         // max_tokens or the context length was reached
	FinishAbort                          // cancelled: client gone, deadline, shutdown
	FinishError                          // generation failed; the client gets a 500 or an error event
	FinishRepetition                     // reserved: vLLM's repetition detection
)

var finishNames = [...]string{"", "stop", "length", "abort", "error", "repetition"}

// String returns the wire word, or "" for FinishNone.
func (r FinishReason) String() string {
	if int(r) < len(finishNames) {
		return finishNames[r]
	}
	return "unknown"
}

// FinishReasons lists every reason a finished sequence can have, for label presets.
func FinishReasons() []FinishReason {
	return []FinishReason{FinishStop, FinishLength, FinishAbort, FinishError, FinishRepetition}
}

// StopReason names what ended a sequence with FinishStop. The zero value means
// the model's own end-of-sequence token (wire: null).
type StopReason struct {
	Text    string // the stop string that matched; "" if none
	TokenID int32  // the stop_token_ids entry that matched; valid if ByToken
	ByToken bool
}
