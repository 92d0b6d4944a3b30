package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/metrics"
)

// requireSeries checks counters, gauges and counts of histograms by series name.
func requireSeries(t *testing.T, reg prometheus.Gatherer, want map[string]float64) {
	t.Helper()
	families := scrape(t, reg)
	for series, v := range want {
		require.Equal(t, v, value(find(t, families, series)), series)
	}
}

// requireSums checks sums of histograms.
func requireSums(t *testing.T, reg prometheus.Gatherer, want map[string]float64) {
	t.Helper()
	families := scrape(t, reg)
	for series, sum := range want {
		require.InDelta(t, sum, find(t, families, series).GetHistogram().GetSampleSum(), 1e-9, series)
	}
}

func TestObserveStep(t *testing.T) {
	e, reg := newEngine(t)
	e.ObserveStep(metrics.StepStats{
		NumRunning: 3, NumWaiting: 2, NumWaitingDeferred: 1, KVCacheUsage: 0.25,
		NumPromptTokens: 40, NumGenerationTokens: 3, NumPreemptions: 1,
		PrefixCacheQueries: 100, PrefixCacheHits: 60,
	})
	e.ObserveStep(metrics.StepStats{NumRunning: 3, KVCacheUsage: 0.5, NumGenerationTokens: 3})
	e.ObserveStep(metrics.StepStats{NumRunning: 2, NumWaiting: 1, NumWaitingDeferred: 1, KVCacheUsage: 0.125})

	requireSeries(t, reg, map[string]float64{
		`vllm:num_requests_running`:                              2,
		`vllm:num_requests_waiting`:                              2,
		`vllm:num_requests_waiting_by_reason{reason="capacity"}`: 1,
		`vllm:num_requests_waiting_by_reason{reason="deferred"}`: 1,
		`vllm:kv_cache_usage_perc`:                               0.125,
		`vllm:num_preemptions_total`:                             1,
		`vllm:prefix_cache_queries_total`:                        100,
		`vllm:prefix_cache_hits_total`:                           60,
		`vllm:generation_tokens_total`:                           0, // counted by sequences
		`vllm:iteration_tokens_total`:                            2, // the last step gave nothing
	})
	requireSums(t, reg, map[string]float64{`vllm:iteration_tokens_total`: 46})
}

func TestObservePrompt(t *testing.T) {
	e, reg := newEngine(t)
	e.ObservePrompt(100, 0)
	e.ObservePrompt(50, 32)
	requireSeries(t, reg, map[string]float64{
		`vllm:prompt_tokens_total`:                                          150,
		`vllm:prompt_tokens_cached_total`:                                   32,
		`vllm:prompt_tokens_by_source_total{source="local_compute"}`:        118,
		`vllm:prompt_tokens_by_source_total{source="local_cache_hit"}`:      32,
		`vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}`: 0,
	})
}

func TestObserveTokens(t *testing.T) {
	e, reg := newEngine(t)
	e.ObserveGenerationTokens(1)
	e.ObserveGenerationTokens(3)
	e.ObserveFirstToken(30e6)
	e.ObserveInterToken(20e6)
	e.ObserveInterToken(40e6)
	requireSeries(t, reg, map[string]float64{`vllm:generation_tokens_total`: 4, `vllm:time_to_first_token_seconds`: 1, `vllm:inter_token_latency_seconds`: 2})
	requireSums(t, reg, map[string]float64{`vllm:time_to_first_token_seconds`: 0.03, `vllm:inter_token_latency_seconds`: 0.06})
}

// TestSequenceTimesMatchPerRequest holds the series against the per-request
// values of the same stamps.
func TestSequenceTimesMatchPerRequest(t *testing.T) {
	e, reg := newEngine(t)
	stamps := infer.Stamps{Queued: at(10), Scheduled: at(10.2), FirstToken: at(10.5), LastToken: at(11)}
	m := metrics.PerRequest(stamps, 6)
	e.ObserveSequenceFinish(metrics.SequenceFinish{
		Stamps: stamps, NumTokens: 6, NumPromptTokens: 40, NumCachedTokens: 32, NumPreemptions: 2,
	})
	requireSums(t, reg, map[string]float64{
		`vllm:request_queue_time_seconds`:            m.QueueTimeMs.Value / 1e3,
		`vllm:request_prefill_time_seconds`:          m.TimeToFirstTokenMs.Value / 1e3,
		`vllm:request_decode_time_seconds`:           m.GenerationTimeMs.Value / 1e3,
		`vllm:request_time_per_output_token_seconds`: m.MeanITLMs.Value / 1e3,
		`vllm:request_inference_time_seconds`:        6 / m.TokensPerSecond.Value,
		`vllm:request_generation_tokens`:             6,
		`vllm:request_prefill_kv_computed_tokens`:    8,
		`vllm:request_num_preemptions`:               2,
	})
}

func TestSequenceFinishWithUnknownStamps(t *testing.T) {
	tests := []struct {
		name   string
		finish metrics.SequenceFinish
		want   map[string]float64
	}{
		{"aborted in the queue", metrics.SequenceFinish{Stamps: infer.Stamps{Queued: 5}, NumPromptTokens: 9}, map[string]float64{
			`vllm:request_queue_time_seconds`: 0, `vllm:request_prefill_time_seconds`: 0, `vllm:request_decode_time_seconds`: 0,
			`vllm:request_inference_time_seconds`: 0, `vllm:request_time_per_output_token_seconds`: 0,
			`vllm:request_prefill_kv_computed_tokens`: 0, `vllm:request_generation_tokens`: 1,
		}},
		{"aborted in prefill", metrics.SequenceFinish{Stamps: infer.Stamps{Queued: 5, Scheduled: 7}, NumPromptTokens: 9}, map[string]float64{
			`vllm:request_queue_time_seconds`: 1, `vllm:request_prefill_time_seconds`: 0, `vllm:request_decode_time_seconds`: 0,
			`vllm:request_prefill_kv_computed_tokens`: 1, `vllm:request_generation_tokens`: 1,
		}},
		{"one token", metrics.SequenceFinish{Stamps: infer.Stamps{Queued: 5, Scheduled: 7, FirstToken: 9, LastToken: 9}, NumTokens: 1}, map[string]float64{
			`vllm:request_decode_time_seconds`: 1, `vllm:request_time_per_output_token_seconds`: 1,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, reg := newEngine(t)
			e.ObserveSequenceFinish(tt.finish)
			requireSeries(t, reg, tt.want)
		})
	}
}

func TestObserveRequestFinish(t *testing.T) {
	e, reg := newEngine(t)
	for _, reason := range infer.FinishReasons() {
		e.ObserveRequestFinish(metrics.RequestFinish{
			E2E: 2e9, Reason: reason, NumPromptTokens: 10, MaxNumGenerationTokens: 7, MaxTokensParam: 16, N: 2,
		})
	}
	e.ObserveRequestFinish(metrics.RequestFinish{Reason: infer.FinishNone})
	e.ObserveRequestFinish(metrics.RequestFinish{Reason: infer.FinishReason(200)})
	requireSeries(t, reg, map[string]float64{
		`vllm:request_success_total{finished_reason="stop"}`:       1,
		`vllm:request_success_total{finished_reason="length"}`:     1,
		`vllm:request_success_total{finished_reason="abort"}`:      1,
		`vllm:request_success_total{finished_reason="error"}`:      3,
		`vllm:request_success_total{finished_reason="repetition"}`: 1,
		`vllm:e2e_request_latency_seconds`:                         3, // not the aborted and the failed
	})
	requireSums(t, reg, map[string]float64{
		`vllm:e2e_request_latency_seconds`:       6,
		`vllm:request_prompt_tokens`:             50,
		`vllm:request_max_num_generation_tokens`: 35,
		`vllm:request_params_max_tokens`:         80,
		`vllm:request_params_n`:                  10,
	})
}

func TestObserveFaults(t *testing.T) {
	e, reg := newEngine(t)
	e.ObserveRestart()
	e.ObserveSlowClient()
	e.ObserveAdmissionRejection(metrics.RejectMaxQueuedReqs)
	e.ObserveAdmissionRejection(metrics.RejectMaxQueuedTokens)
	e.ObserveAdmissionRejection(metrics.RejectMaxQueuedTokens)
	e.ObserveUnknownMessage("sequence")
	e.ObserveUnknownMessage("a name that nobody foresaw")
	requireSeries(t, reg, map[string]float64{
		`troupe:batcher_restarts_total`:                                   1,
		`troupe:slow_clients_total`:                                       1,
		`vllm:admission_rejections_total{reason="max_num_queued_reqs"}`:   1,
		`vllm:admission_rejections_total{reason="max_num_queued_tokens"}`: 2,
		`troupe:unknown_messages_total{actor="sequence"}`:                 1,
		`troupe:unknown_messages_total{actor="other"}`:                    1,
	})
}

func TestRestartEmptiesTheState(t *testing.T) {
	e, reg := newEngine(t)
	e.ObserveStep(metrics.StepStats{NumRunning: 3, NumWaiting: 2, NumWaitingDeferred: 1, KVCacheUsage: 0.5})
	e.ObserveGenerationTokens(3)
	e.ObserveRestart()
	requireSeries(t, reg, map[string]float64{
		`vllm:num_requests_running`: 0, `vllm:num_requests_waiting`: 0, `vllm:kv_cache_usage_perc`: 0,
		`vllm:num_requests_waiting_by_reason{reason="deferred"}`: 0, `vllm:generation_tokens_total`: 3,
	})
}

// observeAll calls every method once.
func observeAll(e *metrics.Engine) {
	e.ObserveStep(metrics.StepStats{NumRunning: 1, NumGenerationTokens: 1, NumPromptTokens: 7, PrefixCacheQueries: 7})
	e.ObservePrompt(7, 0)
	e.ObserveGenerationTokens(1)
	e.ObserveFirstToken(5)
	e.ObserveInterToken(5)
	e.ObserveSequenceFinish(metrics.SequenceFinish{Stamps: infer.Stamps{Queued: 1, Scheduled: 2, FirstToken: 3, LastToken: 4}, NumTokens: 2})
	e.ObserveRequestFinish(metrics.RequestFinish{E2E: 5, Reason: infer.FinishStop, N: 1})
	e.ObserveRestart()
	e.ObserveSlowClient()
	e.ObserveAdmissionRejection(metrics.RejectMaxQueuedReqs)
	e.ObserveUnknownMessage("batcher")
}

func TestNilEngineIsSilent(t *testing.T) {
	require.NotPanics(t, func() { observeAll(nil) })
}

func TestObserveDoesNotAllocate(t *testing.T) {
	e, _ := newEngine(t)
	require.Zero(t, testing.AllocsPerRun(100, func() { observeAll(e) }))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		metrics.PerRequest(infer.Stamps{Queued: 1, Scheduled: 2, FirstToken: 3, LastToken: 4}, 2)
	}))
}
