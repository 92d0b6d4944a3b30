package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StatusClientGone is observed of a request whose client left before the end of
// its answer; nginx's number, since HTTP has none.
const StatusClientGone = 499

// HTTP is the http_* series, as vLLM's server has them.
type HTTP struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	fine     prometheus.Histogram
	inBytes  *prometheus.SummaryVec
	outBytes *prometheus.SummaryVec

	mu     sync.Mutex
	routes map[routeKey]*routeSeries
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
	h.routes = make(map[routeKey]*routeSeries)
	return h
}

// Preset makes the series of a route that is served, at zero. On a nil *HTTP it
// does nothing.
func (h *HTTP) Preset(handler, method string) {
	if h != nil && !untracked(handler) {
		h.route(handler, boundedMethod(method))
	}
}

// HTTPRequest is what is recorded of one request and its response.
type HTTPRequest struct {
	Handler  string        // the route's template, one of a fixed set; "none" if no route matched
	Method   string        // the client's; unknown ones count as "other"
	Status   int           // HTTP status or StatusClientGone
	Duration time.Duration // from the headers' arrival to the response's end; 0 if not known
	// Bodies, in bytes.
	RequestBytes, ResponseBytes int
}

// Observe records a request when its response has been sent, streams included.
// The handlers that vLLM leaves out (/metrics, /health, …) are ignored. On a nil
// *HTTP it does nothing.
func (h *HTTP) Observe(r HTTPRequest) {
	if h == nil || untracked(r.Handler) {
		return
	}
	series := h.route(r.Handler, boundedMethod(r.Method))
	series.status[statusClass(r.Status)].Inc()
	series.duration.Observe(r.Duration.Seconds())
	h.fine.Observe(r.Duration.Seconds())
	series.inBytes.Observe(float64(r.RequestBytes))
	series.outBytes.Observe(float64(r.ResponseBytes))
}

// route finds or makes a route's children.
func (h *HTTP) route(handler, method string) *routeSeries {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := routeKey{handler, method}
	r := h.routes[key]
	if r == nil {
		r = h.newRoute(handler, method)
		h.routes[key] = r
	}
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
