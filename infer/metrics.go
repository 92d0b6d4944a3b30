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
}
