package metrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

// SpecLevel says what is recorded of speculative decoding per request.
type SpecLevel uint8

// The levels of --per-request-spec-decode-metrics.
const (
	SpecNone     SpecLevel = iota // nothing
	SpecSummary                   // counters and histograms
	SpecDetailed                  // also every step's counts
)

// ParseSpecLevel returns the level of that name; ok is false if there is none.
func ParseSpecLevel(s string) (level SpecLevel, ok bool) {
	i := slices.Index([]string{"none", "summary", "detailed"}, s)
	return SpecLevel(max(i, 0)), i >= 0
}

// SpecRecorder counts the verifications of one sequence. A nil recorder counts
// nothing. It belongs to one goroutine.
type SpecRecorder struct {
	detailed bool
	counts   infer.SpeculativeDecoding
}

// NewSpecRecorder returns a recorder for drafts of up to numSpecTokens tokens,
// nil with SpecNone.
func NewSpecRecorder(level SpecLevel, numSpecTokens int) *SpecRecorder {
	if level == SpecNone {
		return nil
	}
	return &SpecRecorder{
		detailed: level == SpecDetailed,
		counts: infer.SpeculativeDecoding{
			NumSpecTokens:          numSpecTokens,
			AcceptanceHistogram:    make([]int, numSpecTokens+1),
			HistogramByDraftLength: make([][]int, numSpecTokens+1),
		},
	}
}

// Observe books a step that verified drafted tokens and accepted some of them. A
// step without drafts is none, and does not count.
func (r *SpecRecorder) Observe(drafted, accepted int) {
	if r == nil || drafted == 0 {
		return
	}
	c := &r.counts
	c.NumSpecSteps++
	c.NumDraftTokens += drafted
	c.NumAcceptedDraftTokens += accepted
	c.AcceptanceHistogram[accepted]++
	if c.HistogramByDraftLength[drafted] == nil {
		c.HistogramByDraftLength[drafted] = make([]int, drafted+1)
	}
	c.HistogramByDraftLength[drafted][accepted]++
	if r.detailed {
		c.PerStepAccepted = append(c.PerStepAccepted, accepted)
		c.PerStepDrafted = append(c.PerStepDrafted, drafted)
	}
}

// Result returns what was recorded, nil for a nil recorder. The recorder is not to
// be used afterwards.
func (r *SpecRecorder) Result() *infer.SpeculativeDecoding {
	if r == nil {
		return nil
	}
	c := &r.counts
	c.Detailed = r.detailed
	c.MeanAcceptanceLength = 1
	if c.NumSpecSteps > 0 {
		c.MeanAcceptanceLength += float64(c.NumAcceptedDraftTokens) / float64(c.NumSpecSteps)
	}
	if c.NumDraftTokens > 0 {
		c.DraftAcceptanceRate = float64(c.NumAcceptedDraftTokens) / float64(c.NumDraftTokens)
	}
	return c
}

// specWindow is what was drafted and accepted, since start or between two lines of
// the log.
type specWindow struct {
	drafts, draftTokens int64
	acceptedPerPos      []int64
}

func readSpecWindow(r *recent) specWindow {
	w := specWindow{drafts: r.drafts.Load(), draftTokens: r.draftTokens.Load(), acceptedPerPos: make([]int64, len(r.acceptedPerPos))}
	for i := range w.acceptedPerPos {
		w.acceptedPerPos[i] = r.acceptedPerPos[i].Load()
	}
	return w
}

// since returns what came after before.
func (w specWindow) since(before specWindow) specWindow {
	d := specWindow{drafts: w.drafts - before.drafts, draftTokens: w.draftTokens - before.draftTokens,
		acceptedPerPos: slices.Clone(w.acceptedPerPos)}
	for i := range d.acceptedPerPos {
		d.acceptedPerPos[i] -= before.acceptedPerPos[i]
	}
	return d
}

// line words a window as vLLM's log does; drafts must not be 0.
func (w specWindow) line(seconds float64) string {
	accepted := int64(0)
	rates := make([]string, len(w.acceptedPerPos))
	for i, n := range w.acceptedPerPos {
		accepted += n
		rates[i] = fmt.Sprintf("%.3f", float64(n)/float64(w.drafts))
	}
	return fmt.Sprintf("SpecDecoding metrics: Mean acceptance length: %.2f, Accepted throughput: %.2f tokens/s, Drafted throughput: %.2f tokens/s, "+
		"Accepted: %d tokens, Drafted: %d tokens, Per-position acceptance rate: %s, Avg Draft acceptance rate: %.1f%%",
		1+float64(accepted)/float64(w.drafts), rate(accepted, seconds), rate(w.draftTokens, seconds),
		accepted, w.draftTokens, strings.Join(rates, ", "), 100*float64(accepted)/float64(max(w.draftTokens, 1)))
}
