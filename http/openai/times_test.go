package openai_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

const (
	fiveValues = `{"time_to_first_token_ms":300.5,"generation_time_ms":500.0,"queue_time_ms":0.25,"mean_itl_ms":null,"tokens_per_second":7.5}`
	allUnknown = `{"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null}`
	fourUsage  = `{"prompt_tokens":10,"total_tokens":14,"completion_tokens":4}`
)

func fiveTimes() infer.RequestMetrics {
	return infer.RequestMetrics{TimeToFirstTokenMs: known(300.5), GenerationTimeMs: known(500), QueueTimeMs: known(0.25), TokensPerSecond: known(7.5)}
}

// timed is a Final of one sequence, with times and ten prompt tokens of which four were cached.
func timed() *infer.Final {
	m := fiveTimes()
	return &infer.Final{Usage: infer.Usage{NumPromptTokens: 10, NumCompletionTokens: 4, NumCachedTokens: 4}, Metrics: &m}
}

// ask parses a chat that came with a HeaderMetrics.
func ask(t *testing.T, p *openai.Profile, fields, places string) *openai.Call {
	t.Helper()
	p.PerRequestMetrics = true
	e := envelope()
	e.Metrics = places
	call, err := openai.ParseChat([]byte(chat(fields)), p, e)
	require.NoError(t, err)
	return call
}

func TestBreakdownExactly(t *testing.T) {
	f := timed()
	f.Metrics.Breakdown = &infer.Breakdown{
		Arrival: 1e9, LastToken: 1e9 + 900e6, Accept: 1e6, GrammarCompile: 2, Queue: 3e6, Prefill: 4e6, StalledByPrefill: 5e6, Decode: 886999998,
		NumComputedPromptTokens: 6, NumCachedPromptTokens: 4, NumRecomputedTokens: 7, NumPreemptions: 1, NumRecoveries: 2, Receive: 5e5,
		NumGaps: 3, MaxGap: 2500000, P99Gap: 2000000,
	}
	f.StampWritten(1e9 + 901500001)
	const want = `,"breakdown":{"wall_ms":901.500001,"accept_ms":1.0,"grammar_compile_ms":0.000002,"queue_ms":3.0,"prefill_ms":4.0,"stalled_by_prefill_ms":5.0,` +
		`"decode_ms":886.999998,"masking_ms":0.0,"preempted_ms":0.0,"recovering_ms":0.0,"finish_ms":1.500001,"computed_prompt_tokens":6,"cached_prompt_tokens":4,` +
		`"recomputed_tokens":7,"num_preemptions":1,"num_recoveries":2,"receive_ms":0.5,"max_gap_ms":2.5,"p99_gap_ms":2.0}}`
	require.Contains(t, body(ask(t, profile(), "", ""), f), want)
	require.Equal(t, `time_to_first_token;dur=300.5, generation_time;dur=500.0, queue_time;dur=0.25, tokens_per_second;desc="7.5", `+
		`breakdown.wall;dur=901.500001, breakdown.accept;dur=1.0, breakdown.grammar_compile;dur=0.000002, breakdown.queue;dur=3.0, breakdown.prefill;dur=4.0, `+
		`breakdown.stalled_by_prefill;dur=5.0, breakdown.decode;dur=886.999998, breakdown.masking;dur=0.0, breakdown.preempted;dur=0.0, breakdown.recovering;dur=0.0, breakdown.finish;dur=1.500001, `+
		`breakdown.computed_prompt_tokens;desc="6", breakdown.cached_prompt_tokens;desc="4", breakdown.recomputed_tokens;desc="7", `+
		`breakdown.num_preemptions;desc="1", breakdown.num_recoveries;desc="2", breakdown.receive;dur=0.5, breakdown.max_gap;dur=2.5, breakdown.p99_gap;dur=2.0`,
		string(openai.AppendServerTiming(nil, f.Metrics)))

	f.Metrics.Breakdown.NumGaps = 0
	require.Contains(t, body(ask(t, profile(), "", ""), f), `"max_gap_ms":null,"p99_gap_ms":null}}`)
	require.NotContains(t, string(openai.AppendServerTiming(nil, f.Metrics)), "gap")
	require.Empty(t, openai.AppendServerTiming(nil, &infer.RequestMetrics{}))
}

func TestMetricsPerChoice(t *testing.T) {
	f := &infer.Final{ChoiceMetrics: []infer.RequestMetrics{fiveTimes(), {}}}
	p := profile()
	p.PerChoiceMetrics = true
	got := body(ask(t, p, `"n":2`, ""), f)
	require.Equal(t, 1, strings.Count(got, `"token_ids":null,"metrics":`+fiveValues+`},{"index":1,`))
	require.Contains(t, got, `"token_ids":null,"metrics":`+allUnknown+`}],`)
	require.True(t, strings.HasSuffix(got, `"metrics":null}`), got)
	usage := `"stream":true,"stream_options":{"include_usage":true},"n":2`
	require.Contains(t, stream(ask(t, p, usage, ""), f), `,"metrics":null,"choices_metrics":[`+fiveValues+`,`+allUnknown+`]}`)

	one := body(ask(t, p, "", ""), timed())
	require.Equal(t, 1, strings.Count(one, `"metrics":`), "of one choice the answer has them")
	off := body(ask(t, profile(), `"n":2`, ""), f)
	require.Equal(t, 1, strings.Count(off, `"metrics":`))
	require.NotContains(t, stream(ask(t, profile(), usage, ""), f), "choices_metrics")
	text, err := openai.ParseCompletion([]byte(`{"prompt":["a","b"]}`), p, envelope())
	require.NoError(t, err)
	require.Contains(t, body(text, f), `"prompt_token_ids":null,"metrics":`+fiveValues+`},{"index":1,`)
}

func TestSpellings(t *testing.T) {
	p := profile()
	p.LlamaServerTimings, p.GroqUsageTimes = true, true
	f := timed()
	f.Metrics.SpeculativeDecoding = &infer.SpeculativeDecoding{NumDraftTokens: 5, NumAcceptedDraftTokens: 3}
	const timings = `,"timings":{"cache_n":4,"prompt_n":6,"prompt_ms":300.5,"prompt_per_token_ms":50.083333333333336,"prompt_per_second":19.966722129783694,` +
		`"predicted_n":4,"predicted_ms":500.0,"predicted_per_token_ms":125.0,"predicted_per_second":8.0,"draft_n":5,"draft_n_accepted":3}}`
	const times = `,"queue_time":0.00025,"prompt_time":0.3005,"completion_time":0.5,"total_time":0.8005}`
	got := body(ask(t, p, "", ""), f)
	require.True(t, strings.HasSuffix(got, timings), got)
	require.Contains(t, got, `"completion_tokens_details":null`+times)
	usage := `"stream":true,"stream_options":{"include_usage":true}`
	got = stream(ask(t, p, usage, ""), f)
	require.Contains(t, got, timings+"\n\n")
	require.Contains(t, got, `"completion_tokens":4`+times)

	one := timed()
	one.Usage.NumCompletionTokens, one.Metrics.GenerationTimeMs = 1, known(0)
	require.Contains(t, body(ask(t, p, "", ""), one), `"predicted_n":1,"predicted_ms":0.0,"predicted_per_token_ms":0.0,"predicted_per_second":null}`)
	one.Usage.NumCompletionTokens = 0
	require.Contains(t, body(ask(t, p, "", ""), one), `"predicted_per_token_ms":null,"predicted_per_second":null}`)
	several := body(ask(t, p, `"n":2`, ""), &infer.Final{})
	require.Contains(t, several, `,"timings":null}`)
	require.Contains(t, several, `,"queue_time":null,"prompt_time":null,"completion_time":null,"total_time":null}`)

	p.OmitMetricsObject = true
	require.NotContains(t, body(ask(t, p, "", ""), f), `"metrics"`)
	require.NotContains(t, stream(ask(t, p, usage, ""), f), `"metrics"`)
	off := body(ask(t, profile(), "", ""), f)
	require.NotContains(t, off, "timings")
	require.NotContains(t, off, "queue_time\"")
}

func TestMetricsWithoutUsage(t *testing.T) {
	plain := stream(ask(t, profile(), `"stream":true`, ""), timed())
	require.NotContains(t, plain, "metrics")
	require.Equal(t, plain, stream(ask(t, profile(), `"stream":true`, "header"), timed()), "a stream has sent its headers")
	require.Equal(t, lines(`: {"metrics":`+fiveValues+`}`, `data: [DONE]`), stream(ask(t, profile(), `"stream":true`, "comment"), timed()))
	require.Equal(t, lines(chatHead+`],"metrics":`+fiveValues+`}`, `data: [DONE]`), stream(ask(t, profile(), `"stream":true`, "header, chunk"), timed()))
	require.Equal(t, lines(`: {"metrics":null}`, `data: [DONE]`), stream(ask(t, profile(), `"stream":true,"n":2`, "comment"), &infer.Final{}))
	failed := stream(ask(t, profile(), `"stream":true`, "comment,chunk"), &infer.Final{Err: infer.Errorf(infer.CodeUnavailable, "", "over"), FinishReason: infer.FinishError})
	require.NotContains(t, failed, "metrics")

	usage := `"stream":true,"stream_options":{"include_usage":true}`
	require.Equal(t, stream(ask(t, profile(), usage, ""), timed()), stream(ask(t, profile(), usage, "comment,chunk"), timed()), "they are on the usage chunk")

	p := profile()
	p.OmitMetricsObject, p.GroqUsageTimes = true, true
	require.Equal(t, lines(`data: [DONE]`), stream(ask(t, p, `"stream":true`, "comment"), timed()), "nothing is to be said")
	require.Contains(t, body(ask(t, p, "", ""), timed()), fourUsage[:len(fourUsage)-1])
}

func TestPlacesOfMetrics(t *testing.T) {
	call := ask(t, profile(), "", "comment , header,chunk")
	require.True(t, call.Reply.ServerTiming)
	require.False(t, call.Reply.MetricsComment || call.Reply.MetricsChunk)
	e := envelope()
	e.Metrics = "header,trailer"
	p := profile()
	_, err := openai.ParseChat([]byte(chat("")), p, e)
	require.NoError(t, err, "without the flag nobody reads it")
	p.PerRequestMetrics = true
	for _, parse := range []func() error{
		func() error { _, err := openai.ParseChat([]byte(chat("")), p, e); return err },
		func() error { _, err := openai.ParseCompletion([]byte(completion("")), p, e); return err },
		func() error { _, err := openai.ParseResponse([]byte(`{"input":"Hi"}`), p, e); return err },
	} {
		err := infer.AsError(parse())
		require.Equal(t, infer.CodeInvalid, err.Code)
		require.Equal(t, "X-Troupe-Metrics", err.Param)
		require.Contains(t, err.Message, `got "trailer"`)
	}
}
