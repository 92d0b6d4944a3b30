package openai

import (
	"math"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// HeaderMetrics asks for the metrics of a request outside of its body, or on a stream
// that has no usage.
const HeaderMetrics = "X-Troupe-Metrics"

// metricsObject reports whether answers have the object `metrics`, or null for it.
func (p *Profile) metricsObject() bool {
	return (p.PerRequestMetrics || p.SpecDecodeMetrics) && !p.OmitMetricsObject
}

// metricsPlaces reads where a client wants metrics beside the places that they always
// have. A word that is about the other kind of answer has no effect: a client may send
// the same header with all its requests.
func (p *Profile) metricsPlaces(o *object, header string, r *Reply) {
	if header == "" || !p.PerRequestMetrics {
		return
	}
	for word := range strings.SplitSeq(header, ",") {
		switch word = strings.TrimSpace(word); word {
		case "header":
			r.ServerTiming = !r.Stream
		case "comment":
			r.MetricsComment = r.Stream
		case "chunk":
			r.MetricsChunk = r.Stream
		default:
			o.fail(infer.CodeInvalid, HeaderMetrics, `must be "header", "comment" or "chunk", or several of them separated by commas, got %q`, excerpt(word))
			return
		}
	}
}

// appendMetricsMembers appends what a streamed answer says of its times, each member
// with its leading comma.
func (r *Reply) appendMetricsMembers(dst []byte, f *infer.Final) []byte {
	dst = r.appendMetricsField(dst, f.Metrics)
	if r.PerChoiceMetrics && f.ChoiceMetrics != nil {
		dst = append(dst, `,"choices_metrics":[`...)
		for i := range f.ChoiceMetrics {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendMetrics(dst, &f.ChoiceMetrics[i])
		}
		dst = append(dst, ']')
	}
	return r.appendTimings(dst, f)
}

// appendMetricsComment appends the same as a server-sent comment, which is an object.
func (r *Reply) appendMetricsComment(dst []byte, f *infer.Final) []byte {
	dst = append(dst, ": "...)
	start := len(dst)
	dst = r.appendMetricsMembers(dst, f)
	if len(dst) == start { // nothing is written in these words
		return dst[:start-len(": ")]
	}
	dst[start] = '{' // for the comma that leads
	return append(dst, "}\n\n"...)
}

// appendChoiceMetrics appends the member of one choice of an answer in one piece, if
// those are on and the answer as a whole has none.
func (r *Reply) appendChoiceMetrics(dst []byte, f *infer.Final, choice int) []byte {
	if !r.PerChoiceMetrics || choice >= len(f.ChoiceMetrics) {
		return dst
	}
	return AppendMetrics(append(dst, `,"metrics":`...), &f.ChoiceMetrics[choice])
}

// appendBreakdown appends the object of a breakdown. Its times are milliseconds with all
// the digits that nanoseconds have, so that the parts add up to wall_ms.
func appendBreakdown(dst []byte, b *infer.Breakdown) []byte {
	for i, part := range breakdownTimes(b) {
		dst = append(dst, separator(i)...)
		dst = append(append(append(dst, '"'), part.name...), `_ms":`...)
		dst = appendFloat(dst, inMs(part.ns), 64)
	}
	for _, count := range breakdownCounts(b) {
		dst = append(append(append(dst, `,"`...), count.name...), `":`...)
		dst = appendInt(dst, count.n)
	}
	dst = appendFloat(append(dst, `,"receive_ms":`...), inMs(b.Receive), 64)
	dst = appendNullFloat(append(dst, `,"max_gap_ms":`...), gap(b, b.MaxGap))
	dst = appendNullFloat(append(dst, `,"p99_gap_ms":`...), gap(b, b.P99Gap))
	return append(dst, '}')
}

func separator(i int) string {
	if i == 0 {
		return "{"
	}
	return ","
}

type namedTime struct {
	name string // without its unit
	ns   int64
}

// breakdownTimes lists the wall time and the parts that add up to it, in their order.
func breakdownTimes(b *infer.Breakdown) [11]namedTime {
	return [...]namedTime{
		{"wall", b.Wall()},
		{"accept", b.Accept}, {"grammar_compile", b.GrammarCompile}, {"queue", b.Queue},
		{"prefill", b.Prefill}, {"stalled_by_prefill", b.StalledByPrefill}, {"decode", b.Decode},
		{"masking", b.Masking}, {"preempted", b.Preempted}, {"recovering", b.Recovering}, {"finish", b.Finish()},
	}
}

type namedCount struct {
	name string
	n    int
}

func breakdownCounts(b *infer.Breakdown) [5]namedCount {
	return [...]namedCount{
		{"computed_prompt_tokens", b.NumComputedPromptTokens}, {"cached_prompt_tokens", b.NumCachedPromptTokens},
		{"recomputed_tokens", b.NumRecomputedTokens}, {"num_preemptions", b.NumPreemptions}, {"num_recoveries", b.NumRecoveries},
	}
}

// gap returns a gap in milliseconds; null if there was none.
func gap(b *infer.Breakdown, ns int64) infer.NullFloat {
	return infer.NullFloat{Value: inMs(ns), Valid: b.NumGaps > 0}
}

func inMs(ns int64) float64 { return float64(ns) / 1e6 }

// AppendServerTiming appends the value of a Server-Timing header: what is known of m, in
// milliseconds, a rate and counts as descriptions.
func AppendServerTiming(dst []byte, m *infer.RequestMetrics) []byte {
	t := serverTiming{dst: dst, start: len(dst)}
	t.duration("time_to_first_token", m.TimeToFirstTokenMs)
	t.duration("generation_time", m.GenerationTimeMs)
	t.duration("queue_time", m.QueueTimeMs)
	t.duration("mean_itl", m.MeanITLMs)
	if m.TokensPerSecond.Valid {
		t.begin("tokens_per_second", `desc="`)
		t.dst = append(appendNullFloat(t.dst, m.TokensPerSecond), '"')
	}
	b := m.Breakdown
	if b == nil {
		return t.dst
	}
	t.prefix = "breakdown."
	for _, part := range breakdownTimes(b) {
		t.duration(part.name, infer.NullFloat{Value: inMs(part.ns), Valid: true})
	}
	for _, count := range breakdownCounts(b) {
		t.begin(count.name, `desc="`)
		t.dst = append(appendInt(t.dst, count.n), '"')
	}
	t.duration("receive", infer.NullFloat{Value: inMs(b.Receive), Valid: true})
	t.duration("max_gap", gap(b, b.MaxGap))
	t.duration("p99_gap", gap(b, b.P99Gap))
	return t.dst
}

// serverTiming is a Server-Timing header in the making.
type serverTiming struct {
	dst    []byte
	start  int    // of the value in dst
	prefix string // of names
}

// begin begins an entry with the name of its parameter.
func (t *serverTiming) begin(name, parameter string) {
	if len(t.dst) > t.start {
		t.dst = append(t.dst, ", "...)
	}
	t.dst = append(append(append(append(t.dst, t.prefix...), name...), ';'), parameter...)
}

// duration adds an entry for a time that is known.
func (t *serverTiming) duration(name string, ms infer.NullFloat) {
	if ms.Valid {
		t.begin(name, "dur=")
		t.dst = appendNullFloat(t.dst, ms)
	}
}

// appendTimings appends llama-server's words for the same times, null when the request
// is not attributable to one sequence.
func (r *Reply) appendTimings(dst []byte, f *infer.Final) []byte {
	m, u := f.Metrics, &f.Usage
	switch {
	case !r.LlamaServerTimings:
		return dst
	case m == nil:
		return append(dst, `,"timings":null`...)
	}
	dst = appendInt(append(dst, `,"timings":{"cache_n":`...), u.NumCachedTokens)
	dst = appendPhase(dst, phase{"prompt", u.NumPromptTokens - u.NumCachedTokens, m.TimeToFirstTokenMs})
	dst = appendPhase(dst, phase{"predicted", u.NumCompletionTokens, m.GenerationTimeMs})
	if s := m.SpeculativeDecoding; s != nil {
		dst = appendInt(append(dst, `,"draft_n":`...), s.NumDraftTokens)
		dst = appendInt(append(dst, `,"draft_n_accepted":`...), s.NumAcceptedDraftTokens)
	}
	return append(dst, '}')
}

// phase is a number of tokens, and the time that they took.
type phase struct {
	name      string
	numTokens int
	ms        infer.NullFloat
}

// appendPhase appends the four members of a phase.
func appendPhase(dst []byte, p phase) []byte {
	perToken, perSecond := infer.NullFloat{}, infer.NullFloat{}
	if n := float64(p.numTokens); p.ms.Valid {
		perToken = infer.NullFloat{Value: p.ms.Value / n, Valid: n > 0}
		perSecond = infer.NullFloat{Value: 1000 * n / p.ms.Value, Valid: p.ms.Value > 0}
	}
	member := func(suffix string) []byte {
		return append(append(append(append(dst, `,"`...), p.name...), suffix...), `":`...)
	}
	dst = appendInt(member("_n"), p.numTokens)
	dst = appendNullFloat(member("_ms"), p.ms)
	dst = appendNullFloat(member("_per_token_ms"), perToken)
	return appendNullFloat(member("_per_second"), perSecond)
}

// appendGroqTimes appends Groq's members of usage, in seconds; null when they are not
// known, or the request is not attributable to one sequence.
func (r *Reply) appendGroqTimes(dst []byte, m *infer.RequestMetrics) []byte {
	if !r.GroqUsageTimes {
		return dst
	}
	var queue, prompt, completion, total infer.NullFloat
	if m != nil {
		queue, prompt, completion = m.QueueTimeMs, m.TimeToFirstTokenMs, m.GenerationTimeMs
		total = infer.NullFloat{Value: prompt.Value + completion.Value, Valid: prompt.Valid && completion.Valid}
	}
	dst = appendSeconds(append(dst, `,"queue_time":`...), queue)
	dst = appendSeconds(append(dst, `,"prompt_time":`...), prompt)
	dst = appendSeconds(append(dst, `,"completion_time":`...), completion)
	return appendSeconds(append(dst, `,"total_time":`...), total)
}

// appendSeconds appends milliseconds as seconds. Times are whole nanoseconds, so that
// those are what to divide for the fewest digits.
func appendSeconds(dst []byte, ms infer.NullFloat) []byte {
	ms.Value = math.Round(ms.Value*1e6) / 1e9
	return appendNullFloat(dst, ms)
}
