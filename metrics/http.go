package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StatusClientGone is observed of a request whose client left before the end of
// its answer; nginx's number, since HTTP has none.
const StatusClientGone = 499

// maxRoutes bounds the (handler, method) pairs that get series of their own;
// later ones are counted under handler "none", method "other".
const maxRoutes = 256

// HTTP is the http_* series, as vLLM's server has them.
type HTTP struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	fine     prometheus.Histogram
	inBytes  *prometheus.SummaryVec
	outBytes *prometheus.SummaryVec
	mu       sync.Mutex // held while a new route is added
	routes   atomic.Pointer[map[routeKey]*routeSeries]
	overflow *routeSeries
}

type routeKey struct{ handler, method string }

// routeSeries are the resolved children of one route.
type routeSeries struct {
	status            [numStatusClasses]prometheus.Counter
	duration          prometheus.Observer
	inBytes, outBytes prometheus.Observer
}

// statusClasses are the values of the status label. Clients that left before the
// end of their answer are apart: they are nobody's error.
var statusClasses = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx", "499"}

const (
	numStatusClasses = len(statusClasses)
	status5xx        = 4 // its index
)

// NewHTTP makes and registers the series. It panics if reg already holds them.
func NewHTTP(reg prometheus.Registerer) *HTTP {
	h := &HTTP{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total",
			Help: "Total number of requests by method, status and handler.",
		}, []string{"handler", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_duration_seconds",
			Help:    "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important.",
			Buckets: bucketsHTTP,
		}, []string{"handler", "method"}),
		fine: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "http_request_duration_highr_seconds",
			Help:    "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations.",
			Buckets: bucketsHTTPFine,
		}),
		inBytes: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "http_request_size_bytes",
			Help: "Content length of incoming requests by handler.",
		}, []string{"handler"}),
		outBytes: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "http_response_size_bytes",
			Help: "Content length of outgoing responses by handler.",
		}, []string{"handler"}),
	}
	reg.MustRegister(h.requests, h.duration, h.fine, h.inBytes, h.outBytes)
	h.routes.Store(&map[routeKey]*routeSeries{})
	return h
}

// Observe records a request when its response has been sent, streams included.
// handler is the route's template, or "none" if no route matched; the untracked
// ones of vLLM (/metrics, /health, …) are ignored. d is the whole duration. On a
// nil *HTTP it does nothing.
func (h *HTTP) Observe(handler, method string, status int, d time.Duration, requestBytes, responseBytes int) {
	if h == nil || untracked(handler) {
		return
	}
	r := h.route(handler, boundedMethod(method))
	r.status[statusClass(status)].Inc()
	r.duration.Observe(d.Seconds())
	h.fine.Observe(d.Seconds())
	r.inBytes.Observe(float64(requestBytes))
	r.outBytes.Observe(float64(responseBytes))
}

// route finds a route's children without a lock once they exist.
func (h *HTTP) route(handler, method string) *routeSeries {
	if r := (*h.routes.Load())[routeKey{handler, method}]; r != nil {
		return r
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	old := *h.routes.Load()
	key := routeKey{handler, method}
	if r := old[key]; r != nil {
		return r
	}
	if len(old) >= maxRoutes {
		if h.overflow == nil {
			h.overflow = h.newRoute("none", "other")
		}
		return h.overflow
	}
	// The caller's string may live in a request buffer that is used again.
	key.handler = strings.Clone(handler)
	r := h.newRoute(key.handler, method)
	routes := maps.Clone(old)
	routes[key] = r
	h.routes.Store(&routes)
	return r
}

func (h *HTTP) newRoute(handler, method string) *routeSeries {
	r := &routeSeries{
		duration: h.duration.WithLabelValues(handler, method),
		inBytes:  h.inBytes.WithLabelValues(handler),
		outBytes: h.outBytes.WithLabelValues(handler),
	}
	for i, class := range statusClasses {
		r.status[i] = h.requests.WithLabelValues(handler, method, class)
	}
	return r
}

func untracked(handler string) bool {
	switch handler {
	case "/metrics", "/health", "/load", "/ping", "/version", "/server_info":
		return true
	}
	return false
}

// boundedMethod returns a constant, so that clients cannot invent label values.
func boundedMethod(method string) string {
	for _, m := range [...]string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"} {
		if method == m {
			return m
		}
	}
	return "other"
}

// statusClass returns the index into statusClasses; what is no HTTP status is a 5xx.
func statusClass(status int) int {
	if status == StatusClientGone {
		return numStatusClasses - 1
	}
	if i := status/100 - 1; i >= 0 && i < numStatusClasses-1 {
		return i
	}
	return status5xx
}
