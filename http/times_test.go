package http_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http"
	"github.com/troupe-llm/troupe/infer"
)

// withBreakdown is an answer of which the model's part ended at the instant 1.
func withBreakdown() *fakeGenerator {
	f := final(3, 2)
	f.Final.Metrics = &infer.RequestMetrics{QueueTimeMs: infer.NullFloat{Value: 0.25, Valid: true}, Breakdown: &infer.Breakdown{Arrival: 1, LastToken: 1}}
	return answers(text("Hel"), finish("lo"), f)
}

func TestServerTiming(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": chat(""), "/v1/completions": `{"prompt":"x"}`, "/v1/responses": helloResponse,
	} {
		s := start(t, http.Options{Generator: withBreakdown(), PerRequestMetrics: true})
		require.Empty(t, s.do(t, "POST", path, body).Header.Get("Server-Timing"), "only if asked for")
		res := s.do(t, "POST", path, body, "X-Troupe-Metrics", "header")
		require.Equal(t, 200, res.StatusCode, res.body)
		require.Regexp(t, `^queue_time;dur=0\.25, breakdown\.wall;dur=[0-9.]+, `, res.Header.Get("Server-Timing"))
		wall := parseObj(t, res.body)["metrics"].(obj)["breakdown"].(obj)["wall_ms"].(float64)
		require.Positive(t, wall, "the end was stamped when it was written")

		res = s.do(t, "POST", path, body, "X-Troupe-Metrics", "trailer")
		require.Equal(t, 400, res.StatusCode)
		require.Contains(t, res.body, `"param":"X-Troupe-Metrics"`)
	}
	off := start(t, http.Options{Generator: withBreakdown()})
	res := off.do(t, "POST", "/v1/chat/completions", chat(""), "X-Troupe-Metrics", "trailer")
	require.Equal(t, 200, res.StatusCode, "without the flag nobody reads it")
	several := start(t, http.Options{PerRequestMetrics: true})
	res = several.do(t, "POST", "/v1/chat/completions", chat(""), "X-Troupe-Metrics", "header")
	require.NotContains(t, res.Header, "Server-Timing", "nothing is attributable")
}

func TestMetricsCommentOnTheWire(t *testing.T) {
	s := start(t, http.Options{Generator: withBreakdown(), PerRequestMetrics: true})
	res := s.do(t, "POST", "/v1/chat/completions", chat(`"stream":true`), "X-Troupe-Metrics", "comment")
	events := strings.Split(strings.TrimSuffix(res.body, "\n\n"), "\n\n")
	comment, ok := strings.CutPrefix(events[len(events)-2], ": ")
	require.True(t, ok, res.body)
	breakdown := parseObj(t, comment)["metrics"].(obj)["breakdown"].(obj)
	require.Positive(t, breakdown["finish_ms"])
	require.Equal(t, breakdown["wall_ms"], breakdown["finish_ms"])
	require.Equal(t, "data: [DONE]", events[len(events)-1])
}

// TestEachTurnHasItsBreakdown: a turn ends when its calls are known, the last one too.
func TestEachTurnHasItsBreakdown(t *testing.T) {
	turns := []any{calling("weather"), answering("Sunny.")}
	for _, turn := range turns {
		events := turn.([]infer.Event)
		events[len(events)-1].Final.Metrics.Breakdown = &infer.Breakdown{Arrival: 1, LastToken: 1}
	}
	g := newScript(turns...)
	s := startLoop(t, g, newToolbox(nil), http.Options{PerTurnMetrics: true})
	o := parseObj(t, s.do(t, "POST", "/v1/responses", askTools("")).body)
	list := o["metrics_per_turn"].([]any)
	require.Len(t, list, 2)
	for _, turn := range list {
		require.Positive(t, turn.(obj)["metrics"].(obj)["breakdown"].(obj)["finish_ms"])
	}
	require.Positive(t, (<-g.asked).Receive)
	require.Zero(t, (<-g.asked).Receive, "no client sent it")
}
