package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// runHistogram is a histogram that takes samples by the run: the client library's
// has four atomic operations for each, which are felt where there is one sample
// per token.
type runHistogram struct {
	desc   *prometheus.Desc
	bounds []float64 // upper bounds in seconds, ascending

	mu     sync.Mutex
	counts []uint64 // by bucket, not cumulative; the last is above all bounds
	sum    float64  // seconds
}

var _ prometheus.Collector = (*runHistogram)(nil)

func (h *runHistogram) observe(ns []int64) {
	if len(ns) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range ns {
		s := seconds(v)
		h.sum += s
		bucket, _ := slices.BinarySearch(h.bounds, s) // a bound belongs to the bucket below it
		h.counts[bucket]++
	}
}

// Describe implements prometheus.Collector.
func (h *runHistogram) Describe(descs chan<- *prometheus.Desc) { descs <- h.desc }

// Collect implements prometheus.Collector.
func (h *runHistogram) Collect(series chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cumulative := make(map[float64]uint64, len(h.bounds))
	var count uint64
	for i, bound := range h.bounds {
		count += h.counts[i]
		cumulative[bound] = count
	}
	count += h.counts[len(h.bounds)]
	series <- prometheus.MustNewConstHistogram(h.desc, count, h.sum, cumulative)
}
