package openai_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
	"pgregory.net/rapid"
)

type obj = map[string]any

func parseResponse(t require.TestingT, p *openai.Profile, fields string) *openai.Call {
	call, err := openai.ParseResponse([]byte(`{"input":"Hi"`+comma(fields)+`}`), p, envelope())
	require.NoError(t, err)
	return call
}

// responseEvents writes deltas and a final as a stream and reads it back. Every
// event has its type on the event line, and a number that is one more than the last.
func responseEvents(t require.TestingT, call *openai.Call, final *infer.Final, deltas ...infer.Delta) []obj {
	s := call.NewStream()
	b := s.AppendStart(nil)
	for i := range deltas {
		b = s.AppendDelta(b, &deltas[i])
	}
	b = s.AppendFinal(b, final)
	require.NotContains(t, string(b), "[DONE]")
	var events []obj
	for i, raw := range strings.Split(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(raw, "event: "), "\ndata: ")
		require.True(t, ok, raw)
		var e obj
		require.NoError(t, json.Unmarshal([]byte(data), &e), data)
		require.Equal(t, name, e["type"])
		require.EqualValues(t, i, e["sequence_number"])
		events = append(events, e)
	}
	return events
}

// names are the events' types without their common prefix.
func names(events []obj) string {
	var list []string
	for _, e := range events {
		list = append(list, strings.TrimPrefix(e["type"].(string), "response."))
	}
	return strings.Join(list, " ")
}

func responseBody(t require.TestingT, call *openai.Call, final *infer.Final, deltas ...infer.Delta) obj {
	b := call.NewBody()
	for i := range deltas {
		b.Add(&deltas[i])
	}
	var o obj
	require.NoError(t, json.Unmarshal(b.AppendBody(nil, final), &o))
	return o
}

func withMetrics() *openai.Profile {
	p := profile()
	p.PerRequestMetrics = true
	return p
}

func finalOf(reason infer.FinishReason) *infer.Final {
	return &infer.Final{
		FinishReason: reason, Usage: infer.Usage{NumPromptTokens: 9, NumCompletionTokens: 3, NumCachedTokens: 4},
		Metrics: &infer.RequestMetrics{TimeToFirstTokenMs: known(300), QueueTimeMs: known(0)},
	}
}

func TestResponseStreamOrder(t *testing.T) {
	for _, test := range []struct {
		reason       infer.FinishReason
		last, status string
		details      any
	}{
		{infer.FinishStop, "completed", "completed", nil},
		{infer.FinishLength, "incomplete", "incomplete", obj{"reason": "max_output_tokens"}},
	} {
		events := responseEvents(t, parseResponse(t, withMetrics(), `"stream":true`), finalOf(test.reason),
			infer.Delta{TokenIDs: []int32{1}}, // half a character: nothing to say yet
			infer.Delta{Text: "Hel"}, infer.Delta{Text: "lo"}, infer.Delta{FinishReason: test.reason})
		require.Equal(t, "created in_progress output_item.added content_part.added output_text.delta output_text.delta "+
			"output_text.done content_part.done output_item.done "+test.last, names(events))
		for _, e := range events[:2] {
			response := e["response"].(obj)
			require.Equal(t, "in_progress", response["status"])
			require.Equal(t, []any{}, response["output"])
			require.Nil(t, response["usage"])
			require.NotContains(t, response, "metrics")
		}
		id := events[2]["item"].(obj)["id"]
		for _, e := range events[2:9] {
			require.EqualValues(t, 0, e["output_index"])
			if item, ok := e["item"].(obj); ok {
				require.Equal(t, id, item["id"])
				continue
			}
			require.Equal(t, id, e["item_id"])
			require.EqualValues(t, 0, e["content_index"])
			require.NotContains(t, e, "response")
		}
		require.Equal(t, []any{}, events[2]["item"].(obj)["content"])
		require.Equal(t, "in_progress", events[2]["item"].(obj)["status"])
		require.Equal(t, "Hello", events[6]["text"])
		response := events[9]["response"].(obj)
		require.Equal(t, test.status, response["status"])
		require.Equal(t, test.details, response["incomplete_details"])
		require.Equal(t, []any{events[8]["item"]}, response["output"])
		require.Equal(t, test.status, events[8]["item"].(obj)["status"])
		require.Equal(t, obj{"input_tokens": 9.0, "input_tokens_details": obj{"cached_tokens": 4.0, "cache_write_tokens": 0.0}, "output_tokens": 3.0,
			"output_tokens_details": obj{"reasoning_tokens": 0.0}, "total_tokens": 12.0}, response["usage"])
		require.Equal(t, obj{"time_to_first_token_ms": 300.0, "queue_time_ms": 0.0, "generation_time_ms": nil, "mean_itl_ms": nil, "tokens_per_second": nil}, response["metrics"])
	}
}

func TestResponseOfNothing(t *testing.T) {
	call := parseResponse(t, profile(), `"stream":true`)
	events := responseEvents(t, call, finalOf(infer.FinishStop), infer.Delta{FinishReason: infer.FinishStop})
	require.Equal(t, "created in_progress output_item.added content_part.added output_text.done content_part.done output_item.done completed", names(events))
	require.Equal(t, events[7]["response"], any(responseBody(t, call, finalOf(infer.FinishStop), infer.Delta{FinishReason: infer.FinishStop})))
	require.NotContains(t, events[7]["response"], "metrics", "the flag is off")
}

func TestResponseThatBreaksOff(t *testing.T) {
	for _, test := range []struct {
		final  infer.Final
		status string
		says   string
	}{
		{infer.Final{FinishReason: infer.FinishError, Err: infer.Internal(errors.New("secret"))}, "failed", "Internal server error"},
		{infer.Final{FinishReason: infer.FinishAbort, Err: infer.Errorf(infer.CodeUnavailable, "", "cancelled")}, "cancelled", "cancelled"},
	} {
		test.final.Metrics = &infer.RequestMetrics{}
		call := parseResponse(t, withMetrics(), `"stream":true`)
		events := responseEvents(t, call, &test.final, infer.Delta{Text: "Hel"})
		require.Equal(t, "created in_progress output_item.added content_part.added output_text.delta error failed", names(events))
		require.Equal(t, test.says, events[5]["message"])
		require.Equal(t, "server_error", events[5]["code"])
		require.Nil(t, events[5]["param"])
		response := events[6]["response"].(obj)
		require.Equal(t, test.status, response["status"])
		require.Equal(t, obj{"code": "server_error", "message": test.says}, response["error"])
		require.NotContains(t, response, "metrics")
		item := response["output"].([]any)[0].(obj)
		require.Equal(t, "incomplete", item["status"])
		require.Equal(t, "Hel", item["content"].([]any)[0].(obj)["text"])
		require.Equal(t, response, responseBody(t, call, &test.final, infer.Delta{Text: "Hel"}), "as it is kept")
	}
}

func TestResponseStreamAfterAPanic(t *testing.T) {
	call := parseResponse(t, profile(), `"stream":true`)
	s := call.NewStream()
	s.AppendDelta(s.AppendStart(nil), &infer.Delta{Text: "x"})
	got := string(s.AppendBroken(nil, infer.Internal(nil)))
	require.Contains(t, got, `data: {"type":"error","sequence_number":5,"code":"server_error","message":"Internal server error","param":null}`)
	require.Contains(t, got, `data: {"type":"response.failed","sequence_number":6,"response":{"id":"resp_0123",`)
	require.Contains(t, got, `"output":[]`)
}

func TestResponseDeltasAllocateNothing(t *testing.T) {
	s := parseResponse(t, profile(), `"stream":true`).NewStream()
	b := s.AppendDelta(s.AppendStart(nil), &infer.Delta{Text: "x"})
	d := infer.Delta{Text: " word"}
	require.Zero(t, testing.AllocsPerRun(1000, func() { b = s.AppendDelta(b[:0], &d) }))
}

// TestResponseTwins: the joined deltas are the text of every later event and of
// the answer that is not streamed, and so are the log-probabilities.
func TestResponseTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := `"stream":true`
		logprobs := rapid.Bool().Draw(t, "logprobs")
		if logprobs {
			fields += `,"include":["message.output_text.logprobs"],"top_logprobs":1`
		}
		call := parseResponse(t, withMetrics(), fields)
		var deltas []infer.Delta
		for i, text := range rapid.SliceOf(rapid.String()).Draw(t, "texts") {
			d := infer.Delta{Text: text, TokenIDs: []int32{int32(i)}}
			if logprobs {
				d.Logprobs = []infer.TokenLogprobs{token(int32(i), text, text)}
			}
			deltas = append(deltas, d)
		}
		reason := rapid.SampledFrom([]infer.FinishReason{infer.FinishStop, infer.FinishLength}).Draw(t, "reason")
		deltas = append(deltas, infer.Delta{FinishReason: reason})
		events := responseEvents(t, call, finalOf(reason), deltas...)
		text, tokens := "", []any{}
		for _, e := range events {
			if e["type"] == "response.output_text.delta" {
				text += e["delta"].(string)
				tokens = append(tokens, e["logprobs"].([]any)...)
			}
		}
		last := len(events) - 1
		response := events[last]["response"].(obj)
		part := response["output"].([]any)[0].(obj)["content"].([]any)[0].(obj)
		require.Equal(t, text, part["text"])
		require.Equal(t, tokens, part["logprobs"])
		require.Equal(t, text, events[last-3]["text"])
		require.Equal(t, tokens, events[last-3]["logprobs"])
		require.Equal(t, any(part), events[last-2]["part"])
		require.Equal(t, response, responseBody(t, call, finalOf(reason), deltas...))
	})
}
