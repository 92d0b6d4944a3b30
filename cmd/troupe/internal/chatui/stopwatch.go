package chatui

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// stopwatch times an answer; the server's own times are shown where it gives any.
type stopwatch struct {
	start, first, last time.Time
	numPieces          int
	usage              *client.Usage
	metrics            *client.Metrics
}

func newStopwatch(start time.Time) *stopwatch { return &stopwatch{start: start} }

func (w *stopwatch) chunk(c *client.Chunk, now time.Time) {
	if c.Usage != nil {
		w.usage = c.Usage
	}
	if c.Metrics != nil {
		w.metrics = c.Metrics
	}
	if c.Text == "" {
		return
	}
	if w.numPieces == 0 {
		w.first = now
	}
	w.last = now
	w.numPieces++
}

// line words what was measured: tokens, first token, rate, queue.
func (w *stopwatch) line(interrupted bool) string {
	var parts []string
	if interrupted {
		parts = append(parts, "stopped")
	}
	if w.usage != nil {
		parts = append(parts, fmt.Sprintf("%d tokens", w.usage.CompletionTokens))
	}
	if w.metrics != nil && w.metrics.TimeToFirstTokenMs != nil {
		return strings.Join(append(parts, w.fromServer()...), " · ")
	}
	if w.numPieces == 0 {
		return strings.Join(append(parts, "no text"), " · ")
	}
	parts = append(parts, fmt.Sprintf("first token after %.0f ms", milliseconds(w.first.Sub(w.start))))
	if n := w.numTokens(); n > 1 && w.last.After(w.first) {
		parts = append(parts, fmt.Sprintf("then %.1f tokens/s", float64(n-1)/w.last.Sub(w.first).Seconds()))
	}
	return strings.Join(append(parts, "by this client's clock"), " · ")
}

func (w *stopwatch) fromServer() []string {
	m := w.metrics
	parts := []string{fmt.Sprintf("first token %.1f ms", *m.TimeToFirstTokenMs)}
	if m.GenerationTimeMs != nil {
		parts = append(parts, fmt.Sprintf("generation %.1f ms", *m.GenerationTimeMs))
	}
	if m.TokensPerSecond != nil {
		parts = append(parts, fmt.Sprintf("%.1f tokens/s", *m.TokensPerSecond))
	}
	if m.QueueTimeMs != nil {
		parts = append(parts, fmt.Sprintf("queue %.1f ms", *m.QueueTimeMs))
	}
	return parts
}

func (w *stopwatch) numTokens() int {
	if w.usage != nil {
		return w.usage.CompletionTokens
	}
	return w.numPieces
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
