package openai

import "github.com/troupe-llm/troupe/infer"

// nulls says whether optional fields that are not set are written.
type nulls bool

const (
	writeNulls nulls = true  // bodies
	omitNulls  nulls = false // chunks
)

// appendUsage appends the bill of a whole request.
func (r *Reply) appendUsage(dst []byte, f *infer.Final, n nulls) []byte {
	u := &f.Usage
	dst = appendCounts(dst, u.NumPromptTokens, u.NumCompletionTokens)
	switch {
	case r.PromptTokensDetails:
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = appendInt(dst, u.NumCachedTokens)
		dst = append(dst, '}')
	case n == writeNulls:
		dst = append(dst, `,"prompt_tokens_details":null`...)
	}
	switch {
	case r.ReasoningTokens:
		dst = appendInt(append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...), u.NumReasoningTokens)
		dst = append(dst, '}')
	case n == writeNulls:
		dst = append(dst, `,"completion_tokens_details":null`...)
	}
	return append(r.appendGroqTimes(dst, f.Metrics), '}')
}

// appendRunningUsage appends one choice's counts so far, for a chunk.
func appendRunningUsage(dst []byte, numPromptTokens, numOutputTokens int) []byte {
	return append(appendCounts(append(dst, `,"usage":`...), numPromptTokens, numOutputTokens), '}')
}

// appendCounts opens a usage object with the counts that are in each.
func appendCounts(dst []byte, numPromptTokens, numCompletionTokens int) []byte {
	dst = appendInt(append(dst, `{"prompt_tokens":`...), numPromptTokens)
	dst = appendInt(append(dst, `,"total_tokens":`...), numPromptTokens+numCompletionTokens)
	return appendInt(append(dst, `,"completion_tokens":`...), numCompletionTokens)
}

// appendMetricsField appends the metrics field with its leading comma: absent
// when the flags are off, null when the request is not attributable to one
// sequence, else all five values, null if unknown or not asked for, and, if that is
// recorded, what became of draft tokens and where the wall time went.
func (r *Reply) appendMetricsField(dst []byte, m *infer.RequestMetrics) []byte {
	if !r.Metrics {
		return dst
	}
	if m == nil {
		return append(dst, `,"metrics":null`...)
	}
	if r.NoTimes {
		m = &infer.RequestMetrics{SpeculativeDecoding: m.SpeculativeDecoding}
	}
	return AppendMetrics(append(dst, `,"metrics":`...), m)
}

// AppendMetrics appends the object of the five values, unknown ones as null, and of what
// else was recorded.
func AppendMetrics(dst []byte, m *infer.RequestMetrics) []byte {
	dst = append(dst, `{"time_to_first_token_ms":`...)
	dst = appendNullFloat(dst, m.TimeToFirstTokenMs)
	dst = append(dst, `,"generation_time_ms":`...)
	dst = appendNullFloat(dst, m.GenerationTimeMs)
	dst = append(dst, `,"queue_time_ms":`...)
	dst = appendNullFloat(dst, m.QueueTimeMs)
	dst = append(dst, `,"mean_itl_ms":`...)
	dst = appendNullFloat(dst, m.MeanITLMs)
	dst = append(dst, `,"tokens_per_second":`...)
	dst = appendNullFloat(dst, m.TokensPerSecond)
	if m.SpeculativeDecoding != nil {
		dst = appendSpeculativeDecoding(append(dst, `,"speculative_decoding":`...), m.SpeculativeDecoding)
	}
	if m.Breakdown != nil {
		dst = appendBreakdown(append(dst, `,"breakdown":`...), m.Breakdown)
	}
	return append(dst, '}')
}

// appendSpeculativeDecoding appends the object of spec/per-request-metrics.md §7.
func appendSpeculativeDecoding(dst []byte, s *infer.SpeculativeDecoding) []byte {
	dst = appendInt(append(dst, `{"num_spec_tokens":`...), s.NumSpecTokens)
	dst = appendInt(append(dst, `,"num_spec_steps":`...), s.NumSpecSteps)
	dst = appendInt(append(dst, `,"num_draft_tokens":`...), s.NumDraftTokens)
	dst = appendInt(append(dst, `,"num_accepted_draft_tokens":`...), s.NumAcceptedDraftTokens)
	dst = appendFloat(append(dst, `,"mean_acceptance_length":`...), s.MeanAcceptanceLength, 64)
	dst = appendFloat(append(dst, `,"draft_acceptance_rate":`...), s.DraftAcceptanceRate, 64)
	dst = appendInts(append(dst, `,"acceptance_histogram":`...), s.AcceptanceHistogram)
	dst = append(dst, `,"acceptance_histogram_by_draft_length":{`...)
	first := true
	for length, counts := range s.HistogramByDraftLength {
		if counts == nil {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendInts(append(appendInt(append(dst, '"'), length), `":`...), counts)
	}
	dst = append(dst, '}')
	if s.Detailed && s.NumSpecSteps > 0 {
		dst = appendInts(append(dst, `,"per_step_accepted":`...), s.PerStepAccepted)
		dst = appendInts(append(dst, `,"per_step_drafted":`...), s.PerStepDrafted)
	}
	return append(dst, '}')
}

func appendInts(dst []byte, values []int) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, v)
	}
	return append(dst, ']')
}
