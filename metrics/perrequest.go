package metrics

import "github.com/troupe-llm/troupe/infer"

// PerRequest computes the five per-request values of one sequence from its
// stamps and the number of generated tokens, which is usage.completion_tokens:
// stop tokens and text cut by a stop string count. Each field is decided on its
// own: a missing stamp makes null only those fields that use it. Nothing is
// rounded.
func PerRequest(s infer.Stamps, numTokens int) infer.RequestMetrics {
	m := infer.RequestMetrics{
		TimeToFirstTokenMs: milliseconds(s.Scheduled, s.FirstToken),
		GenerationTimeMs:   milliseconds(s.FirstToken, s.LastToken),
		QueueTimeMs:        milliseconds(s.Queued, s.Scheduled),
	}
	if m.GenerationTimeMs.Valid && numTokens > 1 {
		m.MeanITLMs = number(m.GenerationTimeMs.Value / float64(numTokens-1))
	}
	if ns, ok := interval(s.Scheduled, s.LastToken); ok && ns > 0 {
		m.TokensPerSecond = number(float64(numTokens) * nsPerSecond / float64(ns))
	}
	return m
}

const (
	nsPerSecond      = 1e9
	nsPerMillisecond = 1e6
)

// interval returns to-from in nanoseconds; ok is false if either is unknown.
func interval(from, to int64) (ns int64, ok bool) {
	if from == 0 || to == 0 {
		return 0, false
	}
	return to - from, true
}

func milliseconds(from, to int64) infer.NullFloat {
	ns, ok := interval(from, to)
	if !ok {
		return infer.NullFloat{}
	}
	return number(float64(ns) / nsPerMillisecond)
}

func number(v float64) infer.NullFloat { return infer.NullFloat{Value: v, Valid: true} }
