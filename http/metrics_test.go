package http_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// count returns http_requests_total of one handler and status class.
func count(t *testing.T, reg prometheus.Gatherer, handler, status string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	total := 0.0
	for _, f := range families {
		if f.GetName() != "http_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["handler"] == handler && labels["status"] == status {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}

func numSeries(t *testing.T, s *testServer) int {
	t.Helper()
	return strings.Count(s.do(t, "GET", "/metrics", "").body, "\n")
}

func TestMetricsMediaType(t *testing.T) {
	s := start(t, http.Options{Gatherer: prometheus.NewRegistry()})
	for _, accept := range []string{"", "text/plain"} {
		res := s.do(t, "GET", "/metrics", "", "Accept", accept)
		require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", res.Header.Get("Content-Type"))
	}
}

func TestLabelsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := start(t, http.Options{Gatherer: reg, HTTPMetrics: metrics.NewHTTP(reg)})
	request := func(i int) {
		res := s.do(t, "POST", "/v1/chat/completions", chat(fmt.Sprintf(`"model":"no-such-%d","user":"u%d"`, i, i)))
		require.Equal(t, 404, res.StatusCode)
		require.Contains(t, res.body, `"reason":"model_not_found"`)
		s.do(t, "GET", fmt.Sprintf("/v1/%d", i), "")
		s.do(t, fmt.Sprintf("M%d", i), "/v1/models", "")
		s.do(t, "GET", fmt.Sprintf("/v1/models/%d", i), "")
	}
	request(0)
	before := numSeries(t, s)
	for i := range 50 {
		request(i)
	}
	require.Equal(t, before, numSeries(t, s))
	require.InDelta(t, 51, count(t, reg, "/v1/chat/completions", "4xx"), 0)
	require.InDelta(t, 102, count(t, reg, "none", "4xx"), 0)
	require.InDelta(t, 51, count(t, reg, "/v1/models/{model}", "4xx"), 0)
}

func TestStreamsAreObservedWhenTheyEnd(t *testing.T) {
	reg := prometheus.NewRegistry()
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, Gatherer: reg, HTTPMetrics: metrics.NewHTTP(reg), ServerLoadTracking: true})
	_, r := s.raw(t, post("/v1/chat/completions", chat(streamed)))
	stream := <-streams
	readHead(t, r)
	require.Zero(t, count(t, reg, "/v1/chat/completions", "2xx"))
	require.Equal(t, `{"server_load":1}`, s.do(t, "GET", "/load", "").body)
	stream.push(text("a"), finish(""), final(1, 2))
	readChunks(t, r)
	require.InDelta(t, 1, count(t, reg, "/v1/chat/completions", "2xx"), 0)
	require.Equal(t, `{"server_load":0}`, s.do(t, "GET", "/load", "").body)

	conn, r := s.raw(t, post("/v1/chat/completions", chat(streamed)))
	stream = <-streams
	readHead(t, r)
	require.NoError(t, conn.Close())
	require.Equal(t, infer.CancelClientGone, <-stream.cancelled)
}

// A client that leaves while the end of its stream is being written has one status,
// whoever is asked.
func TestRecordAndMetricsAgreeOnTheStatus(t *testing.T) {
	reg := prometheus.NewRegistry()
	log := newRecordLog()
	g, streams := hangs()
	s := start(t, http.Options{Generator: g, HTTPMetrics: metrics.NewHTTP(reg), RequestLog: log.add(t)})
	classes := map[int]string{200: "2xx", 499: "499"}
	want := map[string]float64{}
	for _, early := range []bool{true, false} {
		conn, r := s.raw(t, post("/v1/chat/completions", chat(streamed)))
		stream := <-streams
		readHead(t, r)
		events := []infer.Event{text(strings.Repeat("x", 16<<20)), finish(""), final(1, 2)} // more than any socket holds
		stream.endWith(events[2].Final)                                                     // it is over when the client leaves
		if !early {
			drained := make(chan struct{}, 2)
			stream.onDrain = func() { drained <- struct{}{} }
			stream.push(events...)
			<-drained
		}
		require.NoError(t, conn.Close())
		want[classes[(<-log.lines).Status]]++
	}
	require.NoError(t, s.Shutdown(t.Context()))
	for _, class := range classes {
		require.Equal(t, want[class], count(t, reg, "/v1/chat/completions", class), class)
	}
}
