package openai_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func reasoned(reason infer.FinishReason) *infer.Final {
	f := finalOf(reason)
	f.Usage.NumReasoningTokens = 2
	return f
}

// A model that thinks, says something, and makes two calls.
func parsedDeltas() []infer.Delta {
	return []infer.Delta{
		parsed(thought("h")), parsed(), parsed(thought("m"), content("Let ")), parsed(content("me.")),
		parsed(callPieces(0, false, `{"a"`, `:1}`)...), ended(parsed(callPieces(1, false, `{}`)...), infer.FinishStop),
	}
}

func TestResponseItemsOfCallsAndThoughts(t *testing.T) {
	call := parseResponse(t, toolProfile(), responseTool+`,"stream":true`)
	events := responseEvents(t, call, reasoned(infer.FinishStop), parsedDeltas()...)
	require.Equal(t, "created in_progress "+
		"output_item.added content_part.added reasoning_text.delta reasoning_text.delta reasoning_text.done content_part.done output_item.done "+
		"output_item.added content_part.added output_text.delta output_text.delta output_text.done content_part.done output_item.done "+
		"output_item.added function_call_arguments.delta function_call_arguments.delta function_call_arguments.done output_item.done "+
		"output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed", names(events))

	last := events[len(events)-1]["response"].(obj)
	output := last["output"].([]any)
	require.Len(t, output, 4)
	index, ids := -1, []any{}
	for _, e := range events[2 : len(events)-1] { // every event is about the item that was added last
		if e["type"] == "response.output_item.added" {
			index++
			item := e["item"].(obj)
			require.Equal(t, "in_progress", item["status"])
			require.NotContains(t, ids, item["id"])
			ids = append(ids, item["id"])
		}
		require.EqualValues(t, index, e["output_index"])
		if e["item"] == nil {
			require.Equal(t, ids[index], e["item_id"])
		}
		if e["type"] == "response.output_item.done" {
			require.Equal(t, output[index], e["item"])
		}
	}
	require.Equal(t, obj{"id": ids[0], "type": "reasoning", "status": "completed", "summary": []any{}, "encrypted_content": nil,
		"content": []any{obj{"type": "reasoning_text", "text": "hm"}}}, output[0])
	require.Equal(t, "Let me.", output[1].(obj)["content"].([]any)[0].(obj)["text"])
	require.Equal(t, obj{"id": ids[2], "type": "function_call", "status": "completed", "call_id": "id0", "name": "f\"", "arguments": `{"a":1}`}, output[2])
	require.Equal(t, obj{"id": ids[3], "type": "function_call", "status": "completed", "call_id": "id1", "name": "f\"", "arguments": `{}`}, output[3])
	require.EqualValues(t, 2, last["usage"].(obj)["output_tokens_details"].(obj)["reasoning_tokens"])
	require.Equal(t, any(last), any(responseBody(t, call, reasoned(infer.FinishStop), parsedDeltas()...)))
}

func TestTypedEventsOfCallsAndThoughts(t *testing.T) {
	call := parseResponse(t, toolProfile(), responseTool+`,"stream":true`)
	for _, e := range responseEvents(t, call, reasoned(infer.FinishStop), parsedDeltas()...) {
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		var event responses.ResponseStreamEventUnion
		require.NoError(t, json.Unmarshal(raw, &event))
		switch typed := event.AsAny().(type) {
		case responses.ResponseReasoningTextDeltaEvent:
			require.NotEmpty(t, typed.Delta)
		case responses.ResponseFunctionCallArgumentsDoneEvent:
			require.True(t, json.Valid([]byte(typed.Arguments)))
		case nil:
			require.Fail(t, "no such event", "%s", raw)
		}
	}
}

func TestResponseThatIsCutInACall(t *testing.T) {
	deltas := []infer.Delta{ended(parsed(callPieces(0, true, `{"a`)...), infer.FinishLength)}
	call := parseResponse(t, toolProfile(), responseTool+`,"stream":true`)
	events := responseEvents(t, call, finalOf(infer.FinishLength), deltas...)
	require.Equal(t, "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done output_item.done incomplete", names(events))
	item := events[len(events)-1]["response"].(obj)["output"].([]any)[0].(obj)
	require.Equal(t, []any{"incomplete", `{"a`}, []any{item["status"], item["arguments"]})

	nothing := responseEvents(t, call, finalOf(infer.FinishLength), ended(parsed(), infer.FinishLength))
	require.Len(t, nothing[len(nothing)-1]["response"].(obj)["output"], 1, "there is a message even if nothing was said")
	thinking := responseBody(t, call, finalOf(infer.FinishLength), ended(parsed(thought("a")), infer.FinishLength))
	require.Equal(t, "incomplete", thinking["output"].([]any)[0].(obj)["status"])
}

func TestCallsAreOneMessageOfTheNextTurn(t *testing.T) {
	for _, test := range []struct {
		deltas []infer.Delta
		want   string
	}{
		{parsedDeltas(), `{"role":"assistant","reasoning":"hm","content":"Let me.","tool_calls":[{"id":"id0","type":"function","function":{"name":"f\"","arguments":"{\"a\":1}"}},` +
			`{"id":"id1","type":"function","function":{"name":"f\"","arguments":"{}"}}]}`},
		{[]infer.Delta{ended(parsed(callPieces(0, false, `{}`)...), infer.FinishStop)},
			`{"role":"assistant","content":null,"tool_calls":[{"id":"id0","type":"function","function":{"name":"f\"","arguments":"{}"}}]}`},
	} {
		b := parseResponse(t, toolProfile(), responseTool).NewResponseBody()
		for i := range test.deltas {
			b.Add(&test.deltas[i])
		}
		messages := b.Conversation()
		require.Equal(t, test.want, string(messages[len(messages)-1]))
	}
}

func TestIDsOfResponseCalls(t *testing.T) {
	for id, want := range map[string]string{"chatcmpl-tool-0a": "call_0a", "aB3dE6gH9": "aB3dE6gH9"} {
		d := ended(parsed(infer.Piece{Kind: infer.PieceCall, ID: id, Name: "f"}, infer.Piece{Kind: infer.PieceCallEnd}), infer.FinishStop)
		got := responseBody(t, parseResponse(t, toolProfile(), responseTool), finalOf(infer.FinishStop), d)
		require.Equal(t, want, got["output"].([]any)[0].(obj)["call_id"])
	}
}

// A message has the log-probabilities of its own tokens: those of thoughts are not its,
// and those of text that was held back come with that text.
func TestLogprobsOfAParsedMessage(t *testing.T) {
	with := func(d infer.Delta, ids ...int32) infer.Delta {
		for _, id := range ids {
			d.TokenIDs, d.Logprobs = append(d.TokenIDs, id), append(d.Logprobs, token(id, "t"))
		}
		return d
	}
	call := parseResponse(t, toolProfile(), `"include":["message.output_text.logprobs"],"stream":true,"return_tokens_as_token_ids":true`)
	deltas := []infer.Delta{
		with(parsed(thought("a")), 1), with(parsed(), 2), with(parsed(content("b<"), content("c")), 3, 4), with(ended(parsed(content("d")), infer.FinishStop), 5),
	}
	var streamed []any
	for _, e := range responseEvents(t, call, finalOf(infer.FinishStop), deltas...) {
		if e["type"] == "response.output_text.delta" {
			streamed = slices.Concat(streamed, e["logprobs"].([]any))
		}
	}
	require.Len(t, streamed, 4)
	require.Equal(t, "token_id:2", streamed[0].(obj)["token"])
	output := responseBody(t, call, finalOf(infer.FinishStop), deltas...)["output"].([]any)
	require.Equal(t, streamed, output[1].(obj)["content"].([]any)[0].(obj)["logprobs"])
}

func TestForcedCallsOfResponses(t *testing.T) {
	for fields, want := range map[string]*infer.ToolUse{
		`,"tool_choice":"required"`:                                          {Forced: true},
		`,"tool_choice":{"type":"function","name":"f"}`:                      {Forced: true, Name: "f"},
		`,"tool_choice":"none"`:                                              nil,
		`,"parallel_tool_calls":false`:                                       {Single: true},
		`,"tool_choice":"required","text":{"format":{"type":"json_object"}}`: {Forced: true},
	} {
		call := parseResponse(t, toolProfile(), responseTool+fields)
		if want != nil {
			want.Tools = []infer.Tool{{Name: "f", Param: "tools[0].parameters"}}
		}
		require.Equal(t, want, call.Request.Tools, fields)
		require.Nil(t, call.Request.Structured)
	}
}

// However an output is cut into deltas, a stream says what a body does.
func TestStreamsOfPiecesSayWhatBodiesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pieces []infer.Piece
		numCalls := 0
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			switch texts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", " é", "\"\n"}), 1, 3).Draw(t, "texts"); rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				pieces = append(pieces, callPieces(numCalls, rapid.Bool().Draw(t, "cut"), texts...)...)
				numCalls++
			case 1:
				for _, text := range texts {
					pieces = append(pieces, content(text))
				}
			default:
				for _, text := range texts {
					pieces = append(pieces, thought(text))
				}
			}
		}
		var deltas []infer.Delta
		for len(pieces) > 0 {
			n := rapid.IntRange(0, min(3, len(pieces))).Draw(t, "size")
			deltas, pieces = append(deltas, parsed(pieces[:n]...)), pieces[n:]
		}
		reason := rapid.SampledFrom([]infer.FinishReason{infer.FinishStop, infer.FinishLength}).Draw(t, "reason")
		deltas = append(deltas, ended(parsed(), reason))

		call := parseResponse(t, toolProfile(), responseTool+`,"stream":true`)
		events := responseEvents(t, call, finalOf(reason), deltas...)
		require.Equal(t, events[len(events)-1]["response"], any(responseBody(t, call, finalOf(reason), deltas...)))

		parse := func(fields string) *openai.Call {
			call, err := openai.ParseChat([]byte(chat(chatTool+fields)), toolProfile(), envelope())
			require.NoError(t, err)
			return call
		}
		var whole struct{ Choices []chatChoice }
		require.NoError(t, json.Unmarshal([]byte(body(parse(""), &infer.Final{}, deltas...)), &whole))
		want := whole.Choices[0]
		got := joinChunks(t, stream(parse(`,"stream":true`), &infer.Final{}, deltas...))
		require.Equal(t, want.Message, got.Message)
		require.Equal(t, want.FinishReason, got.FinishReason)
	})
}

type chatChoice struct {
	Message, Delta chatMessage
	FinishReason   string `json:"finish_reason"`
}

type chatMessage struct {
	Content, Reasoning string
	ToolCalls          []struct {
		Index    int
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// joinChunks makes of a stream's chunks what a client would.
func joinChunks(t require.TestingT, text string) (joined chatChoice) {
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n\ndata: [DONE]\n\n"), "\n\n") {
		var chunk struct{ Choices []chatChoice }
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &chunk), line)
		c, m := chunk.Choices[0], &joined.Message
		joined.FinishReason = c.FinishReason
		m.Content, m.Reasoning = m.Content+c.Delta.Content, m.Reasoning+c.Delta.Reasoning
		for _, call := range c.Delta.ToolCalls {
			if call.ID != "" {
				require.Equal(t, len(m.ToolCalls), call.Index)
				call.Index = 0 // bodies have none
				m.ToolCalls = append(m.ToolCalls, call)
				continue
			}
			m.ToolCalls[call.Index].Function.Arguments += call.Function.Arguments
		}
	}
	return joined
}
