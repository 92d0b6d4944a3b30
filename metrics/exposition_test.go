package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/metrics"
)

// scrape returns the families that a Prometheus server reads from reg.
func scrape(t *testing.T, reg prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	require.True(t, strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8"))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	require.NoError(t, err)
	return families
}

func newEngine(t *testing.T) (*metrics.Engine, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	return metrics.NewEngine(reg, metrics.EngineOptions{
		ModelName: "m", Engine: "0", MaxModelLen: 2048,
		CacheInfo: map[string]string{"block_size": "16", "num_gpu_blocks": "64"},
	}), reg
}

// fresh is every series of a new engine as "name{label="value",…}", with the
// type and, for histograms, the number of buckets that vLLM's have.
var fresh = []struct {
	series  string
	kind    dto.MetricType
	buckets int // +Inf left out
}{
	{`vllm:num_requests_running`, dto.MetricType_GAUGE, 0},
	{`vllm:num_requests_waiting`, dto.MetricType_GAUGE, 0},
	{`vllm:num_requests_waiting_by_reason{reason="capacity"}`, dto.MetricType_GAUGE, 0},
	{`vllm:num_requests_waiting_by_reason{reason="deferred"}`, dto.MetricType_GAUGE, 0},
	{`vllm:kv_cache_usage_perc`, dto.MetricType_GAUGE, 0},
	{`vllm:prefix_cache_queries_total`, dto.MetricType_COUNTER, 0},
	{`vllm:prefix_cache_hits_total`, dto.MetricType_COUNTER, 0},
	{`vllm:num_preemptions_total`, dto.MetricType_COUNTER, 0},
	{`vllm:prompt_tokens_total`, dto.MetricType_COUNTER, 0},
	{`vllm:prompt_tokens_by_source_total{source="local_compute"}`, dto.MetricType_COUNTER, 0},
	{`vllm:prompt_tokens_by_source_total{source="local_cache_hit"}`, dto.MetricType_COUNTER, 0},
	{`vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}`, dto.MetricType_COUNTER, 0},
	{`vllm:prompt_tokens_cached_total`, dto.MetricType_COUNTER, 0},
	{`vllm:generation_tokens_total`, dto.MetricType_COUNTER, 0},
	{`vllm:request_success_total{finished_reason="stop"}`, dto.MetricType_COUNTER, 0},
	{`vllm:request_success_total{finished_reason="length"}`, dto.MetricType_COUNTER, 0},
	{`vllm:request_success_total{finished_reason="abort"}`, dto.MetricType_COUNTER, 0},
	{`vllm:request_success_total{finished_reason="error"}`, dto.MetricType_COUNTER, 0},
	{`vllm:request_success_total{finished_reason="repetition"}`, dto.MetricType_COUNTER, 0},
	{`vllm:admission_rejections_total{reason="max_num_queued_reqs"}`, dto.MetricType_COUNTER, 0},
	{`vllm:admission_rejections_total{reason="max_num_queued_tokens"}`, dto.MetricType_COUNTER, 0},
	{`vllm:time_to_first_token_seconds`, dto.MetricType_HISTOGRAM, 22},
	{`vllm:inter_token_latency_seconds`, dto.MetricType_HISTOGRAM, 19},
	{`vllm:request_time_per_output_token_seconds`, dto.MetricType_HISTOGRAM, 19},
	{`vllm:e2e_request_latency_seconds`, dto.MetricType_HISTOGRAM, 21},
	{`vllm:request_queue_time_seconds`, dto.MetricType_HISTOGRAM, 21},
	{`vllm:request_prefill_time_seconds`, dto.MetricType_HISTOGRAM, 21},
	{`vllm:request_decode_time_seconds`, dto.MetricType_HISTOGRAM, 21},
	{`vllm:request_inference_time_seconds`, dto.MetricType_HISTOGRAM, 21},
	{`vllm:request_prompt_tokens`, dto.MetricType_HISTOGRAM, 11},
	{`vllm:request_generation_tokens`, dto.MetricType_HISTOGRAM, 11},
	{`vllm:request_max_num_generation_tokens`, dto.MetricType_HISTOGRAM, 11},
	{`vllm:request_params_max_tokens`, dto.MetricType_HISTOGRAM, 11},
	{`vllm:request_params_n`, dto.MetricType_HISTOGRAM, 5},
	{`vllm:request_prefill_kv_computed_tokens`, dto.MetricType_HISTOGRAM, 11},
	{`vllm:request_num_preemptions`, dto.MetricType_HISTOGRAM, 7},
	{`vllm:iteration_tokens_total`, dto.MetricType_HISTOGRAM, 13},
	{`troupe:batcher_restarts_total`, dto.MetricType_COUNTER, 0},
	{`troupe:slow_clients_total`, dto.MetricType_COUNTER, 0},
	{`troupe:unknown_messages_total{actor="batcher"}`, dto.MetricType_COUNTER, 0},
	{`troupe:unknown_messages_total{actor="other"}`, dto.MetricType_COUNTER, 0},
}

func TestNewEnginePresetsEverySeries(t *testing.T) {
	_, reg := newEngine(t)
	families := scrape(t, reg)
	for _, want := range fresh {
		name, _, _ := strings.Cut(want.series, "{")
		f := families[name]
		require.NotNil(t, f, want.series)
		require.Equal(t, want.kind, f.GetType(), want.series)
		m := find(t, families, want.series)
		require.Zero(t, value(m), want.series)
		require.Equal(t, "m", label(m, "model_name"), want.series)
		require.Equal(t, "0", label(m, "engine"), want.series)
		if want.buckets > 0 {
			require.Len(t, m.GetHistogram().GetBucket(), want.buckets+1, want.series)
		}
	}
	for name := range families {
		require.NotContains(t, name, "_total_total")
	}
}

func TestInfoSeries(t *testing.T) {
	_, reg := newEngine(t)
	families := scrape(t, reg)
	info := find(t, families, `vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="64"}`)
	require.Equal(t, 1.0, value(info))
	require.Empty(t, label(info, "model_name"))
	require.Equal(t, 1.0, value(find(t, families, `vllm:engine_sleep_state{sleep_state="awake"}`)))
	require.Zero(t, value(find(t, families, `vllm:engine_sleep_state{sleep_state="discard_all"}`)))
}

// TestDashboardSeriesExist lists what the panels of vLLM's example Grafana
// dashboard query, in the form they query it.
func TestDashboardSeriesExist(t *testing.T) {
	_, reg := newEngine(t)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, series := range []string{
		"e2e_request_latency_seconds_bucket", "e2e_request_latency_seconds_sum", "e2e_request_latency_seconds_count",
		"prompt_tokens_total", "generation_tokens_total",
		"inter_token_latency_seconds_bucket", "inter_token_latency_seconds_sum", "inter_token_latency_seconds_count",
		"num_requests_running", "num_requests_waiting",
		"time_to_first_token_seconds_bucket", "time_to_first_token_seconds_sum", "time_to_first_token_seconds_count",
		"kv_cache_usage_perc", "request_prompt_tokens_bucket", "request_generation_tokens_bucket",
		"request_queue_time_seconds_sum", "request_prefill_time_seconds_sum", "request_decode_time_seconds_sum",
		"request_max_num_generation_tokens_sum",
	} {
		require.Contains(t, text, fmt.Sprintf("\nvllm:%s{engine=\"0\",", series))
		require.Regexp(t, `(?m)^vllm:`+series+`\{.*model_name="m".*\} 0$`, text)
	}
	require.Regexp(t, `(?m)^vllm:request_success_total\{.*finished_reason="stop".*model_name="m"\} 0$`, text)
}

func TestNewEngineTwiceOnOneRegistryPanics(t *testing.T) {
	_, reg := newEngine(t)
	require.Panics(t, func() { metrics.NewEngine(reg, metrics.EngineOptions{ModelName: "m", Engine: "0"}) })
}

func TestNewRegistryHasProcessAndGoSeries(t *testing.T) {
	families := scrape(t, metrics.NewRegistry())
	for _, name := range []string{
		"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
		"process_open_fds", "process_max_fds", "process_start_time_seconds", "go_goroutines", "go_gc_duration_seconds",
	} {
		require.Contains(t, families, name)
	}
	started := value(families["process_start_time_seconds"].GetMetric()[0])
	require.Less(t, started, float64(time.Now().Unix()+60))
}

// find returns the one metric of a series; labels not named may have any value.
func find(t *testing.T, families map[string]*dto.MetricFamily, series string) *dto.Metric {
	t.Helper()
	name, rest, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	var found []*dto.Metric
	for _, m := range families[name].GetMetric() {
		if hasLabels(m, rest) {
			found = append(found, m)
		}
	}
	require.Len(t, found, 1, series)
	return found[0]
}

func hasLabels(m *dto.Metric, pairs string) bool {
	if pairs == "" {
		return true
	}
	for pair := range strings.SplitSeq(pairs, ",") {
		name, quoted, _ := strings.Cut(pair, "=")
		if label(m, name) != strings.Trim(quoted, `"`) {
			return false
		}
	}
	return true
}

func label(m *dto.Metric, name string) string {
	i := slices.IndexFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == name })
	if i < 0 {
		return ""
	}
	return m.GetLabel()[i].GetValue()
}

// value is a counter's or gauge's value, or a histogram's or summary's count.
func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	case m.Summary != nil:
		return float64(m.GetSummary().GetSampleCount())
	}
	return float64(m.GetHistogram().GetSampleCount())
}
