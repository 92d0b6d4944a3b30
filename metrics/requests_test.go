package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/metrics"
)

func TestRequestsAddUp(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := metrics.NewRequests(reg, []string{"a"})
	for _, key := range []string{"a", "a", "", "nobody"} {
		r.ObserveReceived(key)
	}
	for key, outcome := range map[string]string{"a": "stop", "": metrics.Refused, "nobody": "no such word"} {
		r.ObserveFinished(key, outcome)
	}
	text := strings.Join(lines(t, reg, "troupe:requests_"), "\n")
	for _, want := range []string{
		`troupe:requests_received_total{key=""} 2`, `troupe:requests_received_total{key="a"} 2`,
		`troupe:requests_finished_total{finished_reason="stop",key="a"} 1`,
		`troupe:requests_finished_total{finished_reason="error",key=""} 1`,
		`troupe:requests_finished_total{finished_reason="refused",key=""} 1`,
		`troupe:requests_finished_total{finished_reason="abort",key="a"} 0`,
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 2+2*6, strings.Count(text, "\n")+1, "every label value is there from the start")
	var none *metrics.Requests
	none.ObserveReceived("a")
	none.ObserveFinished("a", "stop")
}

// lines returns the series of a scrape that begin with a prefix.
func lines(t *testing.T, reg prometheus.Gatherer, prefix string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	var found []string
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}
