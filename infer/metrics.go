package infer

// Stamps are the four instants of one sequence, nanoseconds of [Now]; 0 = not
// known.
type Stamps struct {
	Queued     int64 // entered the waiting queue; never moved afterwards
	Scheduled  int64 // first selected for a step; preemption does not move it
	FirstToken int64 // end of the step that gave the first output token
	LastToken  int64 // end of the latest step that gave a token
}

// NullFloat is a JSON number or null.
type NullFloat struct {
	Value float64
	Valid bool
}

// RequestMetrics are the five per-request values, milliseconds except
// TokensPerSecond. They are computed by package metrics.
type RequestMetrics struct {
	TimeToFirstTokenMs NullFloat
	GenerationTimeMs   NullFloat
	QueueTimeMs        NullFloat
	MeanITLMs          NullFloat
	TokensPerSecond    NullFloat

	SpeculativeDecoding *SpeculativeDecoding // nil = off, or not attributable to one sequence
	Breakdown           *Breakdown           // nil = off
}

// SpeculativeDecoding says how the draft tokens of one sequence fared. A step is
// one verification of at least one draft token; the token that every
// verification gives on top is not counted as accepted.
type SpeculativeDecoding struct {
	NumSpecTokens          int // most draft tokens per step, as configured
	NumSpecSteps           int
	NumDraftTokens         int
	NumAcceptedDraftTokens int
	// AcceptanceHistogram[j] counts the steps that accepted j draft tokens; its
	// length is NumSpecTokens + 1.
	AcceptanceHistogram []int
	// HistogramByDraftLength[d][j] counts those of them that verified d; d from 0
	// to NumSpecTokens, j from 0 to d. nil for a d that did not occur.
	HistogramByDraftLength [][]int
	MeanAcceptanceLength   float64 // tokens per step; 1 without steps
	DraftAcceptanceRate    float64 // accepted / drafted; 0 without drafts

	Detailed        bool  // the two arrays below were asked for
	PerStepAccepted []int // in order
	PerStepDrafted  []int
}
