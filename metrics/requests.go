package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-llm/troupe/infer"
)

// Refused is the outcome of a request that no engine ever saw.
const Refused = "refused"

// Requests counts calls of the endpoints that generate, by API key: when nothing
// is in flight, those received are the sum of those finished.
type Requests struct {
	byKey    map[string]*requestOutcomes
	outcomes []string
}

type requestOutcomes struct {
	received prometheus.Counter
	finished []prometheus.Counter // parallel to Requests.outcomes
}

// NewRequests makes and registers the series for the names of configured keys;
// every other name counts as "". It panics if reg already holds them.
func NewRequests(reg prometheus.Registerer, keys []string) *Requests {
	received := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "troupe:requests_received_total",
		Help: "Number of calls of generating endpoints by API key.",
	}, []string{"key"})
	finished := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "troupe:requests_finished_total",
		Help: "Number of calls of generating endpoints that are over, by API key and outcome; refused = before the engine took it.",
	}, []string{"key", "finished_reason"})
	reg.MustRegister(received, finished)
	r := &Requests{byKey: make(map[string]*requestOutcomes)}
	for _, reason := range infer.FinishReasons() {
		r.outcomes = append(r.outcomes, reason.String())
	}
	r.outcomes = append(r.outcomes, Refused)
	for _, key := range append([]string{""}, keys...) {
		o := &requestOutcomes{received: received.WithLabelValues(key)}
		for _, outcome := range r.outcomes {
			o.finished = append(o.finished, finished.WithLabelValues(key, outcome))
		}
		r.byKey[key] = o
	}
	return r
}

// ObserveReceived counts a call. On a nil *Requests it does nothing.
func (r *Requests) ObserveReceived(key string) {
	if r != nil {
		r.of(key).received.Inc()
	}
}

// ObserveFinished counts the end of a call: a word of infer.FinishReasons or
// Refused; another counts as an error. On a nil *Requests it does nothing.
func (r *Requests) ObserveFinished(key, outcome string) {
	if r == nil {
		return
	}
	i := slices.Index(r.outcomes, outcome)
	if i < 0 {
		i = slices.Index(r.outcomes, infer.FinishError.String())
	}
	r.of(key).finished[i].Inc()
}

func (r *Requests) of(key string) *requestOutcomes {
	if o, ok := r.byKey[key]; ok {
		return o
	}
	return r.byKey[""]
}
