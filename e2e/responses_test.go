//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
)

func goClient(s *server, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func ask(input string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: "understudy", Temperature: openai.Float(0), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(input)},
	}
}

// collect reads a stream to its end: the types of its events, the joined deltas
// and the response of the last one. It checks the numbers on the way.
func collect(t *testing.T, c openai.Client, params responses.ResponseNewParams) (types []string, text string, last responses.Response) {
	t.Helper()
	stream := c.Responses.NewStreaming(context.Background(), params)
	defer stream.Close()
	for stream.Next() {
		e := stream.Current()
		require.EqualValues(t, len(types), e.SequenceNumber)
		require.True(t, e.JSON.SequenceNumber.Valid())
		if e.JSON.Response.Valid() {
			last = e.Response
		}
		if len(types) < 2 {
			require.NotContains(t, e.RawJSON(), `"metrics"`)
			require.EqualValues(t, "in_progress", last.Status)
		}
		types = append(types, strings.TrimPrefix(e.Type, "response."))
		text += e.Delta
	}
	require.NoError(t, stream.Err())
	return types, text, last
}

// TestO46ResponseEvents: their order, their numbers, and that they say the same as
// the answer in one piece.
func TestO46ResponseEvents(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	c := goClient(s, "unused")
	params := ask("What is the capital of France?")
	whole, err := c.Responses.New(context.Background(), params)
	require.NoError(t, err)
	require.Contains(t, whole.OutputText(), "Paris")
	require.EqualValues(t, "completed", whole.Status)

	types, text, streamed := collect(t, c, params)
	require.Equal(t, "created in_progress output_item.added content_part.added", strings.Join(types[:4], " "))
	require.Equal(t, "output_text.done content_part.done output_item.done completed", strings.Join(types[len(types)-4:], " "))
	for _, between := range types[4 : len(types)-4] {
		require.Equal(t, "output_text.delta", between)
	}
	require.Equal(t, whole.OutputText(), text)
	require.Equal(t, whole.OutputText(), streamed.OutputText())
	require.Equal(t, whole.Usage.InputTokens, streamed.Usage.InputTokens)
	require.Equal(t, whole.Usage.OutputTokens, streamed.Usage.OutputTokens)

	var apiErr *openai.Error
	_, err = c.Responses.New(context.Background(), responses.ResponseNewParams{Model: "nope", Input: params.Input})
	require.ErrorAs(t, err, &apiErr)
	require.Equal(t, 404, apiErr.StatusCode)
	_, err = c.Responses.Get(context.Background(), whole.ID, responses.ResponseGetParams{})
	require.ErrorAs(t, err, &apiErr, "nothing is kept by default")
	require.Equal(t, 404, apiErr.StatusCode)
}

// TestO08ResponseMetrics: at the top of the body, and in the last event only.
func TestO08ResponseMetrics(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	c := goClient(s, "unused")
	params := ask("Say hello.")
	params.MaxOutputTokens = openai.Int(16)
	whole, err := c.Responses.New(context.Background(), params)
	require.NoError(t, err)
	requireRawMetrics(t, whole.JSON.ExtraFields["metrics"].Raw())
	_, _, streamed := collect(t, c, params) // sees to it that the first ones have none
	requireRawMetrics(t, streamed.JSON.ExtraFields["metrics"].Raw())
	raw := s.stream("/v1/responses", obj{"input": "Say hello.", "max_output_tokens": 16}).Raw
	require.Equal(t, 1, strings.Count(raw, `"metrics":`))
	require.NotContains(t, raw, "[DONE]")
}

// TestO19CutResponses: the last event of an answer that was cut has the bill too.
func TestO19CutResponses(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	c := goClient(s, "unused")
	params := ask("Write a long story.")
	params.MaxOutputTokens = openai.Int(16)
	whole, err := c.Responses.New(context.Background(), params)
	require.NoError(t, err)
	types, _, streamed := collect(t, c, params)
	require.Equal(t, "incomplete", types[len(types)-1])
	for _, r := range []responses.Response{*whole, streamed} {
		require.EqualValues(t, "incomplete", r.Status)
		require.Equal(t, "max_output_tokens", r.IncompleteDetails.Reason)
		require.EqualValues(t, 16, r.Usage.OutputTokens)
		require.Positive(t, r.Usage.InputTokens)
		requireRawMetrics(t, r.JSON.ExtraFields["metrics"].Raw())
	}
}

// TestResponsesAreCountedLikeChats: one call that ends and one that is refused.
func TestResponsesAreCountedLikeChats(t *testing.T) {
	s := serve(t)
	o, _ := s.post("/v1/responses", obj{"input": "Say hello.", "max_output_tokens": 4, "ignore_eos": true, "temperature": 0})
	require.NotContains(t, o, "metrics")
	s.refused(400, "/v1/responses", `{"input":""}{`)
	m := s.scrape()
	require.EqualValues(t, 1, sum(m, "vllm:request_success_total", `finished_reason="length"`))
	require.EqualValues(t, 4, sum(m, "vllm:generation_tokens_total"))
	require.EqualValues(t, 2, sum(m, "troupe:requests_received_total"))
	require.EqualValues(t, 1, sum(m, "troupe:requests_finished_total", `finished_reason="refused"`))
}

// TestKeptResponses: a conversation goes on from a kept response, for its owner only.
func TestKeptResponses(t *testing.T) {
	s := serve(t, "--enable-response-store", "--api-key", "mine", "--api-key", "other")
	mine, other := goClient(s, "mine"), goClient(s, "other")
	ctx := context.Background()
	params := ask("What is the capital of France?")
	params.Instructions = openai.String("Be brief.")
	first, err := mine.Responses.New(ctx, params)
	require.NoError(t, err)

	again, err := mine.Responses.Get(ctx, first.ID, responses.ResponseGetParams{})
	require.NoError(t, err)
	require.JSONEq(t, first.RawJSON(), again.RawJSON())
	items, err := mine.Responses.InputItems.List(ctx, first.ID, responses.InputItemListParams{})
	require.NoError(t, err)
	require.Len(t, items.Data, 1)
	require.Equal(t, "What is the capital of France?", items.Data[0].Content.OfInputItemContentList[0].Text)

	follow := ask("And of Italy?")
	follow.PreviousResponseID = openai.String(first.ID)
	second, err := mine.Responses.New(ctx, follow)
	require.NoError(t, err)
	require.Equal(t, first.ID, second.PreviousResponseID)
	same := s.do("POST", "/v1/responses", body(obj{"temperature": 0, "store": false, "input": []obj{
		{"role": "user", "content": "What is the capital of France?"},
		{"type": "message", "role": "assistant", "content": []obj{{"type": "output_text", "text": first.OutputText(), "annotations": []any{}}}},
		{"role": "user", "content": "And of Italy?"},
	}}), "Authorization", "Bearer mine")
	require.Equal(t, 200, same.Status, "%s", same.Body)
	var whole responses.Response
	require.NoError(t, json.Unmarshal(same.Body, &whole))
	require.Equal(t, whole.Usage.InputTokens, second.Usage.InputTokens, "the same conversation, without the first one's instructions")
	require.Equal(t, whole.OutputText(), second.OutputText())

	var apiErr *openai.Error
	for _, call := range []func() error{
		func() error { _, err := other.Responses.Get(ctx, first.ID, responses.ResponseGetParams{}); return err },
		func() error { _, err := other.Responses.New(ctx, follow); return err },
		func() error { return other.Responses.Delete(ctx, first.ID) },
		func() error { _, err := other.Responses.Cancel(ctx, first.ID); return err },
	} {
		require.ErrorAs(t, call(), &apiErr)
		require.Equal(t, 404, apiErr.StatusCode)
	}
	require.NoError(t, mine.Responses.Delete(ctx, first.ID))
	require.ErrorAs(t, mine.Responses.Delete(ctx, first.ID), &apiErr)
	require.Equal(t, "response_id", apiErr.Param)
}

// TestCancelAKeptResponse ends a stream from another connection.
func TestCancelAKeptResponse(t *testing.T) {
	s := serve(t, "--enable-response-store")
	c := goClient(s, "unused")
	params := ask("Count.")
	stream := c.Responses.NewStreaming(context.Background(), params, option.WithJSONSet("ignore_eos", true))
	defer stream.Close()
	require.True(t, stream.Next())
	id := stream.Current().Response.ID
	cancelled, err := c.Responses.Cancel(context.Background(), id)
	require.NoError(t, err)
	require.EqualValues(t, "cancelled", cancelled.Status)
	last := ""
	for stream.Next() {
		last = fmt.Sprint(stream.Current().Type, " ", stream.Current().Response.Status)
	}
	require.NoError(t, stream.Err())
	require.Equal(t, "response.failed cancelled", last)
}

// TestResponseInTheBackground: its client polls for it.
func TestResponseInTheBackground(t *testing.T) {
	s := serve(t, "--enable-response-store")
	c := goClient(s, "unused")
	params := ask("What is the capital of France?")
	params.Background = openai.Bool(true)
	r, err := c.Responses.New(context.Background(), params)
	require.NoError(t, err)
	require.EqualValues(t, "in_progress", r.Status)
	s.eventually(func() bool {
		r, err = c.Responses.Get(context.Background(), r.ID, responses.ResponseGetParams{})
		require.NoError(t, err)
		return r.Status == "completed"
	}, "it comes to its end")
	require.Contains(t, r.OutputText(), "Paris")
	requireIdle(t, s)
}
