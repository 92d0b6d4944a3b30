package metrics

import (
	"maps"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-llm/troupe/infer"
)

// EngineOptions names an engine and sizes its histograms.
type EngineOptions struct {
	ModelName   string // label model_name: the first served name
	Engine      string // label engine: the index, "0" for a single engine
	MaxModelLen int    // token histograms have buckets up to it
	// NumSpecTokens is the most draft tokens of a step; 0 leaves the series of
	// speculative decoding out, as vLLM does.
	NumSpecTokens int
	// CacheInfo becomes the labels of vllm:cache_config_info; nil leaves the series out.
	CacheInfo map[string]string
}

// Engine is every series of one engine. Observe methods may be called from any
// goroutine, except ObserveStep, which has one caller at a time (the batcher).
type Engine struct {
	state    stateSeries
	tokens   tokenSeries
	latency  latencySeries
	requests requestSeries
	faults   faultSeries
	recent   recent // what the log line reports

	speculation speculationSeries // empty without speculation
}

type speculationSeries struct {
	drafts, draftTokens, accepted prometheus.Counter
	acceptedPerPos                []prometheus.Counter // by place in the draft
}

type stateSeries struct {
	running, waiting, kvUsage prometheus.Gauge
	waitingCapacity           prometheus.Gauge
	waitingDeferred           prometheus.Gauge
	preemptions               prometheus.Counter
	cacheQueries, cacheHits   prometheus.Counter
}

type tokenSeries struct {
	prompt, promptCached, generation prometheus.Counter
	computed, cacheHit               prometheus.Counter // parts of prompt
	perStep                          prometheus.Histogram
}

type latencySeries struct {
	firstToken, perOutputToken             prometheus.Histogram
	interToken                             *runHistogram
	e2e, queue, prefill, decode, inference prometheus.Histogram
}

type requestSeries struct {
	finished                              [numFinishReasons]prometheus.Counter // by infer.FinishReason; FinishNone is nil
	promptTokens, generationTokens        prometheus.Histogram
	maxGenerationTokens, kvComputedTokens prometheus.Histogram
	paramMaxTokens, paramN, preemptions   prometheus.Histogram
}

type faultSeries struct {
	restarts, slowClients        prometheus.Counter
	resubmissions, quarantined   prometheus.Counter
	rejectedReqs, rejectedTokens prometheus.Counter
	unknownMessages              []prometheus.Counter // parallel to actorNames
}

const numFinishReasons = int(infer.FinishRepetition) + 1

// actorNames are the values of the actor label; the last stands for all others.
var actorNames = []string{"engine", "batcher", "request", "sequence", "other"}

// Reasons of vllm:admission_rejections_total.
const (
	RejectMaxQueuedReqs   = "max_num_queued_reqs"
	RejectMaxQueuedTokens = "max_num_queued_tokens"
)

// NewEngine makes and registers an engine's series, every label value that is
// known in advance at 0. It panics if reg already holds one of them.
func NewEngine(reg prometheus.Registerer, o EngineOptions) *Engine {
	f := factory{reg: reg, labels: prometheus.Labels{"model_name": o.ModelName, "engine": o.Engine}}
	e := &Engine{
		state:    newStateSeries(f),
		tokens:   newTokenSeries(f),
		latency:  newLatencySeries(f),
		requests: newRequestSeries(f, tokenBuckets(o.MaxModelLen)),
		faults:   newFaultSeries(f),
	}
	if o.NumSpecTokens > 0 {
		e.speculation = newSpeculationSeries(f, o.NumSpecTokens)
		e.recent.acceptedPerPos = make([]atomic.Int64, o.NumSpecTokens)
	}
	if o.CacheInfo != nil {
		labels := prometheus.Labels(maps.Clone(o.CacheInfo))
		labels["engine"] = o.Engine
		factory{reg: reg, labels: labels}.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig.").Set(1)
	}
	f.gauges("vllm:engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
		"sleep_state", []string{"awake", "weights_offloaded", "discard_all"})[0].Set(1)
	return e
}

// NewEngines makes the series of n engines that share a registry: their label
// engine is their number, from 0.
func NewEngines(reg prometheus.Registerer, o EngineOptions, n int) []*Engine {
	engines := make([]*Engine, n)
	for i := range engines {
		o.Engine = strconv.Itoa(i)
		engines[i] = NewEngine(reg, o)
	}
	return engines
}

func newStateSeries(f factory) stateSeries {
	byReason := f.gauges("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.",
		"reason", []string{"capacity", "deferred"})
	return stateSeries{
		running:         f.gauge("vllm:num_requests_running", "Number of requests in model execution batches."),
		waiting:         f.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed."),
		waitingCapacity: byReason[0],
		waitingDeferred: byReason[1],
		kvUsage:         f.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
		preemptions:     f.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine."),
		cacheQueries:    f.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens."),
		cacheHits:       f.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens."),
	}
}

func newTokenSeries(f factory) tokenSeries {
	bySource := f.counters("vllm:prompt_tokens_by_source_total", "Number of prompt tokens by source.",
		"source", []string{"local_compute", "local_cache_hit", "external_kv_transfer"})
	return tokenSeries{
		prompt:       f.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed."),
		promptCached: f.counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens (local + external)."),
		computed:     bySource[0],
		cacheHit:     bySource[1],
		generation:   f.counter("vllm:generation_tokens_total", "Number of generation tokens processed."),
		perStep:      f.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", bucketsStep),
	}
}

func newLatencySeries(f factory) latencySeries {
	return latencySeries{
		firstToken:     f.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", bucketsTTFT),
		interToken:     f.runHistogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", bucketsITL),
		perOutputToken: f.histogram("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", bucketsITL),
		e2e:            f.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", bucketsLatency),
		queue:          f.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", bucketsLatency),
		prefill:        f.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", bucketsLatency),
		decode:         f.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", bucketsLatency),
		inference:      f.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", bucketsLatency),
	}
}

func newRequestSeries(f factory, tokens []float64) requestSeries {
	s := requestSeries{
		promptTokens:        f.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", tokens),
		generationTokens:    f.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", tokens),
		maxGenerationTokens: f.histogram("vllm:request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", tokens),
		kvComputedTokens:    f.histogram("vllm:request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens).", tokens),
		paramMaxTokens:      f.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", tokens),
		paramN:              f.histogram("vllm:request_params_n", "Histogram of the n request parameter.", bucketsN),
		preemptions:         f.histogram("vllm:request_num_preemptions", "Histogram of the number of preemptions per request.", bucketsPreemptions),
	}
	reasons := infer.FinishReasons()
	words := make([]string, len(reasons))
	for i, r := range reasons {
		words[i] = r.String()
	}
	for i, c := range f.counters("vllm:request_success_total", "Count of successfully processed requests.", "finished_reason", words) {
		s.finished[reasons[i]] = c
	}
	return s
}

func newSpeculationSeries(f factory, numSpecTokens int) speculationSeries {
	positions := make([]string, numSpecTokens)
	for i := range positions {
		positions[i] = strconv.Itoa(i)
	}
	return speculationSeries{
		drafts:      f.counter("vllm:spec_decode_num_drafts_total", "Number of spec decoding drafts."),
		draftTokens: f.counter("vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens."),
		accepted:    f.counter("vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens."),
		acceptedPerPos: f.counters("vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens per draft position.",
			"position", positions),
	}
}

func newFaultSeries(f factory) faultSeries {
	rejected := f.counters("vllm:admission_rejections_total", "Number of requests rejected by the admission limits.",
		"reason", []string{RejectMaxQueuedReqs, RejectMaxQueuedTokens})
	return faultSeries{
		rejectedReqs:    rejected[0],
		rejectedTokens:  rejected[1],
		restarts:        f.counter("troupe:batcher_restarts_total", "Number of times a failed batcher was replaced."),
		resubmissions:   f.counter("troupe:sequence_resubmissions_total", "Number of times a sequence went on in another batcher after a failure."),
		quarantined:     f.counter("troupe:quarantined_sequences_total", "Number of times a sequence that was aboard a failed step was put into steps of its own."),
		slowClients:     f.counter("troupe:slow_clients_total", "Number of requests cancelled because the client read too slowly."),
		unknownMessages: f.counters("troupe:unknown_messages_total", "Number of messages that an actor did not know.", "actor", actorNames),
	}
}
