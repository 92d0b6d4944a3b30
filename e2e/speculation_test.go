//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// speculations are the flags of each method.
var speculations = map[string][]string{
	"ngram": {"--speculative-config", `{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_min":1,"prompt_lookup_max":3}`},
	"draft": {"--spec-model", "understudy-draft", "--spec-tokens", "3"},
}

// speculatedRequests differ in all that speculation might get wrong.
func speculatedRequests() []obj {
	var all []obj
	for i, text := range []string{
		"What is the capital of France?", "Count from one to ten in words.", "Say a b a b a b a b.", "Write a short poem.",
		"Repeat: red blue red blue red blue.", "Name three animals.",
	} {
		all = append(all,
			obj{"messages": user(text), "max_tokens": 40, "temperature": 0, "logprobs": true, "top_logprobs": 2},
			obj{"messages": user(text), "max_tokens": 30 + i, "temperature": 0.9, "seed": i, "top_p": 0.95, "presence_penalty": 0.3},
			obj{"messages": user(text), "max_tokens": 50, "temperature": 1, "seed": 7, "stop": []string{"e", "."}, "min_tokens": 3},
		)
	}
	return append(all,
		obj{"messages": user("Hello"), "max_tokens": 1, "temperature": 0},
		obj{"messages": user("Hello"), "max_tokens": 2, "temperature": 0, "ignore_eos": true},
		obj{"messages": user("Name a colour."), "max_tokens": 12, "temperature": 1, "seed": 3, "n": 3},
		obj{"messages": user("A city, please."), "max_tokens": 120, "temperature": 1, "seed": 5, "response_format": obj{"type": "json_object"}},
	)
}

// answers sends all requests at once and returns what does not depend on the time.
func (s *server) answers(requests []obj) []string {
	s.t.Helper()
	all := make([]string, len(requests))
	var wg sync.WaitGroup
	for i, fields := range requests {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := s.try(context.Background(), "POST", "/v1/chat/completions", body(fields))
			if err != nil || r.Status != 200 {
				all[i] = fmt.Sprint(r.Status, err, string(r.Body))
				return
			}
			var o obj
			_ = json.Unmarshal(r.Body, &o)
			b, _ := json.Marshal([]any{o["choices"], o["usage"]})
			all[i] = string(b)
		}()
	}
	wg.Wait()
	return all
}

// TestSpeculationGivesTheSameAnswers: text, logprobs, finish reasons and usage, on
// every path, alone or in company.
func TestSpeculationGivesTheSameAnswers(t *testing.T) {
	requests := speculatedRequests()
	want := serve(t).answers(requests)
	for method, flags := range speculations {
		t.Run(method, func(t *testing.T) {
			s := serve(t, append(flags, "--max-num-batched-tokens", "64", "--max-num-seqs", "16")...)
			for range 2 { // cold, and from the prefix cache
				require.Equal(t, want, s.answers(requests))
			}
			require.Positive(t, sum(s.scrape(), "vllm:spec_decode_num_accepted_tokens_total"))
		})
	}
}

// TestSpeculationSurvivesFailures: a stream under speculation goes on with the same
// tokens after its batcher was killed.
func TestSpeculationSurvivesFailures(t *testing.T) {
	long := obj{"messages": user("Tell me a long story."), "max_tokens": 300, "temperature": 0.8, "seed": 4, "ignore_eos": true, "stream": true}
	want := serve(t).stream("/v1/chat/completions", long).text(0)
	s := serve(t, append(speculations["draft"], "--enable-fault-injection", "--admin-api-key", adminKey)...)
	restarts := 0
	e, err := s.tryStream(context.Background(), "/v1/chat/completions", long, func(n int, _ obj) bool {
		if n == 10 || n == 60 {
			s.fault("panic", -1)
			restarts++
		}
		return true
	})
	require.NoError(t, err)
	require.Equal(t, want, e.text(0))
	require.Equal(t, restarts, s.restarts())
}

// TestSpeculativeDecodingMetrics: the books. What requests report adds up to the series
// to the unit, stop strings included, and the object keeps the sums of its contract.
func TestSpeculativeDecodingMetrics(t *testing.T) {
	for method, k := range map[string]int{"ngram": 4, "draft": 3} {
		t.Run(method, func(t *testing.T) {
			s := serve(t, append(speculations[method], "--per-request-spec-decode-metrics", "detailed")...)
			totals := newSpecTotals(k)
			before := s.scrape()
			for _, fields := range speculatedRequests() {
				if fields["n"] != nil {
					continue
				}
				o, _ := s.chat(fields)
				m := o["metrics"].(obj)
				for _, field := range []string{"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second"} {
					require.Contains(t, m, field)
					require.Nil(t, m[field], "times are off")
				}
				d := m["speculative_decoding"].(obj)
				checkSpeculation(t, d, k)
				totals.add(d)
				// A stop string may end the answer before the last tokens of a step.
				require.LessOrEqual(t, d["num_accepted_draft_tokens"].(float64), float64(usage(o, "completion_tokens")+k))
				if fields["stop"] == nil {
					require.Less(t, d["num_accepted_draft_tokens"].(float64), float64(max(usage(o, "completion_tokens"), 1)))
				}
			}
			totals.requireSeries(t, before, s.scrape())
			require.Positive(t, totals.accepted)

			several, _ := s.chat(obj{"messages": user("Name a colour."), "max_tokens": 12, "n": 3})
			require.Nil(t, several["metrics"], "several sequences")
			one, _ := s.chat(obj{"messages": user("x"), "n": 1, "max_tokens": 1, "temperature": 0})
			require.EqualValues(t, 0, one["metrics"].(obj)["speculative_decoding"].(obj)["num_spec_steps"], "nothing was drafted")
		})
	}
}

// specTotals adds up what requests report.
type specTotals struct {
	steps, drafted, accepted float64
	atLeast                  []float64 // by position: steps that accepted more tokens than that
}

func newSpecTotals(k int) *specTotals { return &specTotals{atLeast: make([]float64, k)} }

func (n *specTotals) add(d obj) {
	n.steps += d["num_spec_steps"].(float64)
	n.drafted += d["num_draft_tokens"].(float64)
	n.accepted += d["num_accepted_draft_tokens"].(float64)
	for accepted, steps := range d["acceptance_histogram"].([]any) {
		for pos := range accepted {
			n.atLeast[pos] += steps.(float64)
		}
	}
}

func (n *specTotals) requireSeries(t *testing.T, before, after map[string]float64) {
	t.Helper()
	grown := func(name string, labels ...string) float64 {
		return sum(after, name, labels...) - sum(before, name, labels...)
	}
	require.Equal(t, n.steps, grown("vllm:spec_decode_num_drafts_total"))
	require.Equal(t, n.drafted, grown("vllm:spec_decode_num_draft_tokens_total"))
	require.Equal(t, n.accepted, grown("vllm:spec_decode_num_accepted_tokens_total"))
	for pos, steps := range n.atLeast {
		require.Equal(t, steps, grown("vllm:spec_decode_num_accepted_tokens_per_pos_total", fmt.Sprintf(`position="%d"`, pos)), "position %d", pos)
	}
}

// checkSpeculation holds an object to the sums of its contract. k is the most
// draft tokens per step.
func checkSpeculation(t *testing.T, m obj, k int) {
	t.Helper()
	number := func(field string) float64 { return m[field].(float64) }
	steps, drafted, accepted := number("num_spec_steps"), number("num_draft_tokens"), number("num_accepted_draft_tokens")
	require.EqualValues(t, k, m["num_spec_tokens"])
	histogram := m["acceptance_histogram"].([]any)
	require.Len(t, histogram, k+1)
	var count, weighted, byLength float64
	for j, n := range histogram {
		count += n.(float64)
		weighted += float64(j) * n.(float64)
	}
	for length, counts := range m["acceptance_histogram_by_draft_length"].(obj) {
		require.Len(t, counts.([]any), int(length[0]-'0')+1)
		for _, n := range counts.([]any) {
			byLength += n.(float64)
		}
	}
	require.Equal(t, []float64{steps, steps, accepted}, []float64{count, byLength, weighted})
	if steps == 0 {
		require.NotContains(t, m, "per_step_accepted")
		require.Equal(t, []float64{1, 0}, []float64{number("mean_acceptance_length"), number("draft_acceptance_rate")})
		return
	}
	require.InDelta(t, 1+accepted/steps, number("mean_acceptance_length"), 1e-9)
	require.InDelta(t, accepted/drafted, number("draft_acceptance_rate"), 1e-9)
	require.Len(t, m["per_step_accepted"].([]any), int(steps))
	require.Len(t, m["per_step_drafted"].([]any), int(steps))
}
