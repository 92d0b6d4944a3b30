package bench

import (
	"fmt"
	"io"
	"slices"
)

// Report is the result of a run. Times are milliseconds.
type Report struct {
	URL         string  `json:"url"`
	Model       string  `json:"model"`
	Endpoint    string  `json:"endpoint"`
	Concurrency int     `json:"concurrency"`
	Rate        float64 `json:"rate"` // 0 = constant concurrency
	Seed        uint64  `json:"seed"`
	Interrupted bool    `json:"interrupted"`

	DurationSeconds float64                `json:"duration_seconds"`
	NumOK           int                    `json:"num_ok"`
	NumFailed       int                    `json:"num_failed"`
	Errors          map[string]*ErrorCount `json:"errors"` // by kind

	PromptTokens          int     `json:"prompt_tokens"`
	OutputTokens          int     `json:"output_tokens"`
	RequestsPerSecond     float64 `json:"requests_per_second"`
	OutputTokensPerSecond float64 `json:"output_tokens_per_second"`
	PromptTokensPerSecond float64 `json:"prompt_tokens_per_second"`

	TTFTMs Summary `json:"ttft_ms"` // from sending to the first text
	ITLMs  Summary `json:"itl_ms"`  // between two pieces of text
	TPOTMs Summary `json:"tpot_ms"` // per request: (last - first) / (tokens - 1)
	E2EMs  Summary `json:"e2e_ms"`

	ServerMetrics *Comparison `json:"server_metrics"` // null if the server reported none
}

// Comparison holds the client's stopwatch minus the server's metrics.
type Comparison struct {
	NumRequests      int     `json:"num_requests"`
	NumInconsistent  int     `json:"num_inconsistent"` // the server's own fields contradict each other
	QueueMs          Summary `json:"queue_ms"`         // as reported
	TTFTDiffMs       Summary `json:"ttft_diff_ms"`     // client's TTFT - (queue + time_to_first_token)
	GenerationDiffMs Summary `json:"generation_diff_ms"`
	MeanITLDiffMs    Summary `json:"mean_itl_diff_ms"`
	E2EDiffMs        Summary `json:"e2e_diff_ms"` // client's end to end - (queue + time_to_first_token + generation)
}

// Summary describes a set of values; all zero for an empty one.
type Summary struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// summarize sorts values. Percentiles are values that occurred (nearest rank).
func summarize(values []float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	rank := func(percent int) float64 { return values[(n*percent+99)/100-1] }
	return Summary{Count: n, Mean: sum / float64(n), P50: rank(50), P90: rank(90), P99: rank(99), Max: values[n-1]}
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := &table{w: w}
	load := fmt.Sprintf("%d in flight", r.Concurrency)
	if r.Rate > 0 {
		load = fmt.Sprintf("%g started per second", r.Rate)
	}
	t.line("%s  %s  model %s  %s  --seed %d", r.URL, r.Endpoint, r.Model, load, int64(r.Seed))
	if r.Interrupted {
		t.line("Interrupted: requests in flight were cancelled, and count as failed.")
	}
	t.line("%d requests in %.1f s, %d failed", r.NumOK+r.NumFailed, r.DurationSeconds, r.NumFailed)
	t.line("%.1f requests/s, %.1f output tokens/s, %.1f prompt tokens/s (%d output and %d prompt tokens)",
		r.RequestsPerSecond, r.OutputTokensPerSecond, r.PromptTokensPerSecond, r.OutputTokens, r.PromptTokens)
	t.head("ms")
	t.row("time to first token", r.TTFTMs)
	t.row("inter-token latency", r.ITLMs)
	t.row("time per output token", r.TPOTMs)
	t.row("end to end", r.E2EMs)
	if c := r.ServerMetrics; c != nil {
		t.head(fmt.Sprintf("client minus server, ms (%d)", c.NumRequests))
		t.row("to first token", c.TTFTDiffMs)
		t.row("generation time", c.GenerationDiffMs)
		t.row("mean inter-token", c.MeanITLDiffMs)
		t.row("end to end", c.E2EDiffMs)
		t.line("Below zero: the server's time goes from step to step, the client's from piece to piece of text, and pieces can arrive late or together.")
		t.head("as the server reported, ms")
		t.row("queue", c.QueueMs)
		if c.NumInconsistent > 0 {
			t.line("%d responses carried metrics that contradict themselves or usage.", c.NumInconsistent)
		}
	}
	if r.ServerMetrics == nil && r.NumOK > 0 {
		t.line("\nThe server sent no metrics to compare with: start it with --enable-per-request-metrics.")
	}
	for _, kind := range sortedKinds(r.Errors) {
		t.line("%s: %d, first: %s", kind, r.Errors[kind].Count, r.Errors[kind].First)
	}
	return t.err
}

func sortedKinds(errors map[string]*ErrorCount) []string {
	kinds := make([]string, 0, len(errors))
	for kind := range errors {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// table remembers the first error of its writer.
type table struct {
	w   io.Writer
	err error
}

func (t *table) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

func (t *table) head(unit string) {
	t.line("\n%-32s %9s %9s %9s %9s %9s", unit, "mean", "p50", "p90", "p99", "max")
}

func (t *table) row(name string, s Summary) {
	if s.Count == 0 {
		t.line("  %-30s %9s", name, "-")
		return
	}
	t.line("  %-30s %9.2f %9.2f %9.2f %9.2f %9.2f", name, s.Mean, s.P50, s.P90, s.P99, s.Max)
}
