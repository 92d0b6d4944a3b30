package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry that holds the process_* and go_* series.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(),
	)
	return reg
}

// factory makes registered series that share constant labels. A name that is
// taken is a broken invariant and panics.
type factory struct {
	reg    prometheus.Registerer
	labels prometheus.Labels
}

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: f.labels})
	f.reg.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: f.labels})
	f.reg.MustRegister(g)
	return g
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, ConstLabels: f.labels, Buckets: buckets,
	})
	f.reg.MustRegister(h)
	return h
}

func (f factory) runHistogram(name, help string, bounds []float64) *runHistogram {
	h := &runHistogram{
		desc: prometheus.NewDesc(name, help, nil, f.labels), bounds: bounds, counts: make([]uint64, len(bounds)+1),
	}
	f.reg.MustRegister(h)
	return h
}

// counters makes one counter per value of a label, all present from the start.
func (f factory) counters(name, help, label string, values []string) []prometheus.Counter {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: f.labels}, []string{label})
	f.reg.MustRegister(vec)
	children := make([]prometheus.Counter, len(values))
	for i, v := range values {
		children[i] = vec.WithLabelValues(v)
	}
	return children
}

// gauges is counters for gauges.
func (f factory) gauges(name, help, label string, values []string) []prometheus.Gauge {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: f.labels}, []string{label})
	f.reg.MustRegister(vec)
	children := make([]prometheus.Gauge, len(values))
	for i, v := range values {
		children[i] = vec.WithLabelValues(v)
	}
	return children
}
