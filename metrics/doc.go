// Package metrics turns what the actors measured into numbers for people: the
// per-request `metrics` object, the Prometheus series and the periodic log line.
//
// [PerRequest] is a pure function of one sequence's stamps. [Engine] and [HTTP]
// are one struct of series each, built from a registerer; nothing is global.
// Series carry vLLM's names, labels and buckets, so that its dashboards work
// unchanged; what vLLM does not have is named troupe:….
//
// Methods on the token path take no lock and allocate nothing. All of Engine's
// methods do nothing on a nil *Engine, which is what --disable-log-stats gives.
package metrics
