package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/metrics"
)

func TestToolCallsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	tools := metrics.NewTools(reg, []string{"almanac", "books"})
	tools.Observe(metrics.ToolCall{Server: "almanac", Duration: time.Second})
	tools.Observe(metrics.ToolCall{Server: "almanac", Duration: 2 * time.Second, IsFailed: true})
	tools.Observe(metrics.ToolCall{Server: "nobody"})
	require.ElementsMatch(t, []string{
		`troupe:tool_calls_total{outcome="done",server="almanac"} 1`, `troupe:tool_calls_total{outcome="failed",server="almanac"} 1`,
		`troupe:tool_calls_total{outcome="done",server="books"} 0`, `troupe:tool_calls_total{outcome="failed",server="books"} 0`,
	}, lines(t, reg, "troupe:tool_calls_total"), "every label value is there from the start")
	require.ElementsMatch(t, []string{`troupe:tool_call_seconds_sum{server="almanac"} 3`, `troupe:tool_call_seconds_sum{server="books"} 0`},
		lines(t, reg, "troupe:tool_call_seconds_sum"))
	var none *metrics.Tools
	none.Observe(metrics.ToolCall{Server: "almanac"})
}
