package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Tools counts calls of tools that the server has run for models, by tool server.
type Tools struct{ byServer map[string]*toolSeries }

type toolSeries struct {
	done, failed prometheus.Counter
	seconds      prometheus.Observer
}

// bucketsTools go up to the longest call that is allowed.
var bucketsTools = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600}

// NewTools makes and registers the series of tool servers, by their labels. It panics
// if reg already holds them.
func NewTools(reg prometheus.Registerer, servers []string) *Tools {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "troupe:tool_calls_total",
		Help: "Number of calls of tools by tool server and outcome.",
	}, []string{"server", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "troupe:tool_call_seconds",
		Help:    "Time of calls of tools, failed ones included, in seconds.",
		Buckets: bucketsTools,
	}, []string{"server"})
	reg.MustRegister(calls, seconds)
	t := &Tools{byServer: make(map[string]*toolSeries)}
	for _, server := range servers {
		t.byServer[server] = &toolSeries{
			done: calls.WithLabelValues(server, "done"), failed: calls.WithLabelValues(server, "failed"), seconds: seconds.WithLabelValues(server),
		}
	}
	return t
}

// ToolCall is a call that is over.
type ToolCall struct {
	Server   string
	Duration time.Duration
	IsFailed bool
}

// Observe counts a call of a server that it was made for. On a nil *Tools it does nothing.
func (t *Tools) Observe(c ToolCall) {
	if t == nil || t.byServer[c.Server] == nil {
		return
	}
	s := t.byServer[c.Server]
	s.seconds.Observe(c.Duration.Seconds())
	if c.IsFailed {
		s.failed.Inc()
		return
	}
	s.done.Inc()
}
