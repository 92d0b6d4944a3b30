package metrics_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/metrics"
)

func TestHTTPObserve(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := metrics.NewHTTP(reg)
	h.Observe(metrics.HTTPRequest{Handler: "/v1/chat/completions", Method: "POST", Status: 200, Duration: 20 * time.Millisecond, RequestBytes: 100, ResponseBytes: 1000})
	h.Observe(metrics.HTTPRequest{Handler: "/v1/chat/completions", Method: "POST", Status: 404, Duration: 300 * time.Millisecond, RequestBytes: 50, ResponseBytes: 80})
	h.Observe(metrics.HTTPRequest{Handler: "none", Method: "BREW", Status: 405, Duration: time.Millisecond, ResponseBytes: 9})
	h.Observe(metrics.HTTPRequest{Handler: "none", Method: "\xff\x00", Status: 999, Duration: time.Millisecond, ResponseBytes: 9})
	requireSeries(t, reg, map[string]float64{
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}`: 1,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"}`: 1,
		`http_requests_total{handler="/v1/chat/completions",method="POST",status="5xx"}`: 0,
		`http_requests_total{handler="none",method="other",status="4xx"}`:                1,
		`http_requests_total{handler="none",method="other",status="5xx"}`:                1,
		`http_request_duration_seconds{handler="/v1/chat/completions",method="POST"}`:    2,
		`http_request_duration_highr_seconds`:                                            4,
		`http_request_size_bytes{handler="/v1/chat/completions"}`:                        2,
		`http_response_size_bytes{handler="none"}`:                                       2,
	})
	families := scrape(t, reg)
	sizes := find(t, families, `http_response_size_bytes{handler="/v1/chat/completions"}`).GetSummary()
	require.Equal(t, 1080.0, sizes.GetSampleSum())
	require.Len(t, find(t, families, `http_request_duration_highr_seconds`).GetHistogram().GetBucket(), 22)
	require.Len(t, find(t, families, `http_request_duration_seconds{method="POST"}`).GetHistogram().GetBucket(), 4)
}

func TestHTTPIgnoresUntrackedHandlers(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := metrics.NewHTTP(reg)
	for _, handler := range []string{"/metrics", "/health", "/load", "/ping", "/version", "/server_info"} {
		h.Observe(metrics.HTTPRequest{Handler: handler, Method: "GET", Status: 200, Duration: time.Millisecond, ResponseBytes: 2})
	}
	requireSeries(t, reg, map[string]float64{`http_request_duration_highr_seconds`: 0})
	require.Empty(t, scrape(t, reg)["http_requests_total"].GetMetric())
	(*metrics.HTTP)(nil).Observe(metrics.HTTPRequest{Handler: "/v1/models", Method: "GET", Status: 200, Duration: time.Millisecond, ResponseBytes: 2})
}

func TestHTTPMethodsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := metrics.NewHTTP(reg)
	for i := range 1000 {
		h.Observe(metrics.HTTPRequest{Handler: "none", Method: fmt.Sprintf("M%d", i), Status: 405, Duration: time.Millisecond, RequestBytes: 1, ResponseBytes: 2})
	}
	h.Observe(metrics.HTTPRequest{Handler: "none", Method: "M1", Status: metrics.StatusClientGone, Duration: time.Millisecond, RequestBytes: 1, ResponseBytes: 2})
	requireSeries(t, reg, map[string]float64{
		`http_requests_total{handler="none",method="other",status="4xx"}`: 1000,
		`http_requests_total{handler="none",method="other",status="499"}`: 1,
		`http_request_duration_highr_seconds`:                             1001,
	})
	require.Len(t, scrape(t, reg)["http_requests_total"].GetMetric(), 6, "one for each class of status")
}

func TestHTTPObserveConcurrently(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := metrics.NewHTTP(reg)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				h.Observe(metrics.HTTPRequest{Handler: fmt.Sprintf("/route/%d", (i+j)%20), Method: "GET", Status: 200, Duration: time.Millisecond, RequestBytes: 1, ResponseBytes: 1})
			}
		})
	}
	wg.Wait()
	families := scrape(t, reg)
	total := 0.0
	for _, m := range families["http_requests_total"].GetMetric() {
		total += value(m)
	}
	require.Equal(t, 800.0, total)
}

func TestHTTPObserveDoesNotAllocate(t *testing.T) {
	h := metrics.NewHTTP(prometheus.NewRegistry())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		h.Observe(metrics.HTTPRequest{Handler: "/v1/completions", Method: "POST", Status: 200, Duration: time.Millisecond, RequestBytes: 10, ResponseBytes: 20})
	}))
}
