package infer

// Breakdown says where the wall time of one sequence went, from the arrival of its
// request to the moment at which the end of the answer is written. Durations are
// nanoseconds and never below 0. The parts (Accept to Recovering, and Finish) are
// neighbours in time or shares of the same time, so that they add up to Wall exactly.
// Package metrics says what each of them holds.
type Breakdown struct {
	Arrival   int64 // instant at which the body had been read
	LastToken int64 // instant at which the latest step that gave a token ended
	Written   int64 // instant at which the end of the answer is put into words; 0 = LastToken

	Accept           int64 // parsing, the wait for a core to do it on, template, tokens; without GrammarCompile
	GrammarCompile   int64 // compiling the form of the output, or waiting for another request that does
	Queue            int64 // until it was first selected for a step
	Prefill          int64 // steps that computed tokens of its prompt for the first time
	StalledByPrefill int64 // the share of other prompts in its steps, and steps that it had no place in
	Decode           int64 // the rest of the steps behind the first token
	Masking          int64 // steps that gave it no token because the mask of its grammar was not ready
	Preempted        int64 // from the loss of its blocks until it was as far as before
	Recovering       int64 // from the last good step before a failure until it was as far as before

	NumComputedPromptTokens int // not found in the prefix cache; with NumCachedPromptTokens the whole prompt
	NumCachedPromptTokens   int
	NumRecomputedTokens     int // computed once more after a preemption or a failure
	NumPreemptions          int
	NumRecoveries           int

	Receive int64 // nanoseconds before Arrival in which the body came, at the client's pace; no part of Wall

	NumGaps int   // between steps that gave tokens; 0 = the two below mean nothing
	MaxGap  int64 // the longest
	P99Gap  int64 // 99 of 100 are not longer; at most an eighth too long
}

// Finish returns what passed since the last token: its text, the other choices of the
// request, and the client's pace in taking what came before the end.
func (b *Breakdown) Finish() int64 { return b.end() - b.LastToken }

// Wall returns the sum of all parts.
func (b *Breakdown) Wall() int64 { return b.end() - b.Arrival }

func (b *Breakdown) end() int64 { return max(b.Written, b.LastToken) }

// StampWritten notes the instant at which the end of the answer is put into words. The
// latest call counts.
func (f *Final) StampWritten(now int64) {
	if f.Metrics != nil {
		f.Metrics.stampWritten(now)
	}
	for i := range f.ChoiceMetrics {
		f.ChoiceMetrics[i].stampWritten(now)
	}
}

func (m *RequestMetrics) stampWritten(now int64) {
	if m.Breakdown != nil {
		m.Breakdown.Written = now
	}
}
