//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared/constant"
	"github.com/stretchr/testify/require"
)

// weather is a tool, as chats have it.
var weather = []obj{{"type": "function", "function": obj{
	"name": "get_weather", "description": "Weather of a city", "parameters": obj{
		"type": "object", "properties": obj{"city": obj{"type": "string", "maxLength": 40}}, "required": []string{"city"}, "additionalProperties": false,
	},
}}}

// withTools is a request for the weather; fields come on top.
func withTools(question string, fields obj) obj {
	return with(obj{"model": "understudy", "messages": user(question), "tools": weather, "temperature": 0, "max_tokens": 200}, fields)
}

var named = obj{"type": "function", "function": obj{"name": "get_weather"}}

// toolMessage is what is looked at of a message, or of the deltas that make one.
type toolMessage struct {
	Content, Reasoning *string
	ToolCalls          []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type toolChoice struct {
	Message, Delta toolMessage
	FinishReason   string `json:"finish_reason"`
}

type toolReply struct {
	Choices []toolChoice
	Usage   *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			ReasoningTokens int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	Metrics *obj
}

func whole(t *testing.T, s *server, request obj) toolReply {
	t.Helper()
	r := s.do("POST", "/v1/chat/completions", body(request))
	require.Equal(t, 200, r.Status, "%s", r.Body)
	var reply toolReply
	require.NoError(t, json.Unmarshal(r.Body, &reply))
	return reply
}

// streamed reads a stream into one reply. It checks what accumulators of clients rely
// on: a call begins once, with its id, type and name, and goes on by its index.
func streamed(t *testing.T, s *server, request obj) (joined toolReply, chunks int) {
	t.Helper()
	request = with(request, obj{"stream": true, "stream_options": obj{"include_usage": true}})
	r := s.do("POST", "/v1/chat/completions", body(request))
	require.Equal(t, 200, r.Status, "%s", r.Body)
	events := strings.Split(strings.TrimSpace(string(r.Body)), "\n\n")
	require.Equal(t, "data: [DONE]", events[len(events)-1])
	joined.Choices = make([]toolChoice, 1)
	message := &joined.Choices[0].Message
	for i, event := range events[:len(events)-1] {
		var chunk toolReply
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &chunk), event)
		if len(chunk.Choices) == 0 {
			require.Equal(t, len(events)-2, i, "usage comes last")
			joined.Usage, joined.Metrics = chunk.Usage, chunk.Metrics
			continue
		}
		c := chunk.Choices[0]
		require.Empty(t, joined.Choices[0].FinishReason, "nothing but usage comes behind the end")
		joined.Choices[0].FinishReason = c.FinishReason
		message.Content, message.Reasoning = join(message.Content, c.Delta.Content), join(message.Reasoning, c.Delta.Reasoning)
		for _, call := range c.Delta.ToolCalls {
			chunks++
			require.NotNil(t, call.Index, event)
			if call.ID != "" {
				require.Equal(t, []any{len(message.ToolCalls), "function", ""}, []any{*call.Index, call.Type, call.Function.Arguments}, event)
				require.NotEmpty(t, call.Function.Name)
				message.ToolCalls = append(message.ToolCalls, call)
				continue
			}
			require.NotContains(t, event, `"id":"chatcmpl-tool`)
			require.NotContains(t, event, `"name"`)
			require.NotContains(t, event, `"type"`)
			message.ToolCalls[*call.Index].Function.Arguments += call.Function.Arguments
		}
	}
	return joined, chunks
}

func join(a, b *string) *string {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	s := *a + *b
	return &s
}

func requireSameCalls(t *testing.T, a, b toolMessage) {
	t.Helper()
	require.Len(t, b.ToolCalls, len(a.ToolCalls))
	for i := range a.ToolCalls {
		require.Equal(t, a.ToolCalls[i].Function, b.ToolCalls[i].Function)
		require.NotEqual(t, a.ToolCalls[i].ID, b.ToolCalls[i].ID, "ids differ between requests")
		require.True(t, json.Valid([]byte(a.ToolCalls[i].Function.Arguments)), a.ToolCalls[i].Function.Arguments)
	}
}

func TestO16ToolsAndUsage(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	plain := whole(t, s, obj{"model": "understudy", "messages": user("What is the weather in Oslo?"), "max_tokens": 2})
	request := withTools("What is the weather in Oslo?", obj{"tool_choice": named, "max_tokens": 48})
	body := whole(t, s, request)
	stream, _ := streamed(t, s, request)
	require.Greater(t, stream.Usage.PromptTokens, plain.Usage.PromptTokens)
	require.Greater(t, stream.Usage.CompletionTokens, 5)
	require.NotNil(t, stream.Metrics)
	require.Equal(t, body.Usage, stream.Usage)
	require.Equal(t, "stop", body.Choices[0].FinishReason, "a named function is no news")
	require.Equal(t, "stop", stream.Choices[0].FinishReason)
	requireSameCalls(t, body.Choices[0].Message, stream.Choices[0].Message)
}

func TestO28CutCallsAreLength(t *testing.T) {
	s := serve(t)
	for _, maxTokens := range []int{6, 14} { // in the name, in the arguments
		request := withTools("Weather in Oslo?", obj{"tool_choice": "required", "max_tokens": maxTokens})
		body := whole(t, s, request)
		require.Equal(t, "length", body.Choices[0].FinishReason)
		require.Nil(t, body.Choices[0].Message.Content)
		stream, _ := streamed(t, s, request)
		require.Equal(t, "length", stream.Choices[0].FinishReason)
		require.Equal(t, maxTokens, stream.Usage.CompletionTokens)
	}
	stream, _ := streamed(t, s, withTools("Weather in Oslo?", obj{"tool_choice": "required"}))
	require.Equal(t, "tool_calls", stream.Choices[0].FinishReason)
	require.True(t, json.Valid([]byte(stream.Choices[0].Message.ToolCalls[0].Function.Arguments)))
}

func TestO43DeltasOfCalls(t *testing.T) {
	s := serve(t, "--enable-auto-tool-choice", "--tool-call-parser", "hermes")
	for _, choice := range []any{"required", "auto"} {
		request := withTools("What is the weather in Oslo?", obj{"tool_choice": choice})
		body := whole(t, s, request)
		stream, chunks := streamed(t, s, request)
		require.Equal(t, "tool_calls", body.Choices[0].FinishReason)
		require.Equal(t, "tool_calls", stream.Choices[0].FinishReason)
		require.Nil(t, body.Choices[0].Message.Content)
		require.Empty(t, *stream.Choices[0].Message.Content, "but for the empty one of the role")
		require.Len(t, body.Choices[0].Message.ToolCalls, 1)
		require.JSONEq(t, `{"city":"Oslo"}`, body.Choices[0].Message.ToolCalls[0].Function.Arguments)
		require.Greater(t, chunks, 3, "not one lump at the end")
		requireSameCalls(t, body.Choices[0].Message, stream.Choices[0].Message)
	}
	r := whole(t, s, withTools("What is the capital of France?", obj{"tool_choice": "none"}))
	require.Empty(t, r.Choices[0].Message.ToolCalls)
	require.Equal(t, "stop", r.Choices[0].FinishReason)
}

func TestO44ParallelCalls(t *testing.T) {
	s := serve(t)
	tools := json.RawMessage(`[{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":` +
		`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}]`) // in the order that the model knows
	request := withTools("What is the weather in Oslo and in Lima? Call the tool for both.", obj{"tools": tools, "tool_choice": "required"})
	stream, _ := streamed(t, s, request)
	calls := stream.Choices[0].Message.ToolCalls
	require.Len(t, calls, 2)
	require.NotEqual(t, calls[0].ID, calls[1].ID)
	requireSameCalls(t, whole(t, s, request).Choices[0].Message, stream.Choices[0].Message)
	require.Len(t, whole(t, s, with(request, obj{"parallel_tool_calls": false})).Choices[0].Message.ToolCalls, 1)

	// The results go back in either order, and the model answers.
	turns := append(user("What is the weather in Oslo and in Lima?"), obj{"role": "assistant", "content": nil, "tool_calls": calls},
		obj{"role": "tool", "tool_call_id": calls[1].ID, "content": `{"temperature": 25, "condition": "sunny"}`},
		obj{"role": "tool", "tool_call_id": calls[0].ID, "content": `{"temperature": 4, "condition": "rainy"}`})
	r := whole(t, s, withTools("", obj{"messages": turns, "tool_choice": "none"}))
	require.NotEmpty(t, *r.Choices[0].Message.Content)

	call := obj{"id": "c", "type": "function", "function": obj{"name": "get_weather", "arguments": "{"}}
	refusedFor(s, "/v1/chat/completions", body(obj{"messages": append(user("x"), obj{"role": "assistant", "tool_calls": []obj{call}})}), "messages[1].tool_calls[0].function.arguments")
}

// refusedFor asserts a 400 about a field.
func refusedFor(s *server, path, raw, param string, parts ...string) {
	s.t.Helper()
	e := s.refused(400, path, raw)
	require.Equal(s.t, param, e["param"])
	for _, part := range parts {
		require.Contains(s.t, e["message"], part)
	}
}

func TestToolRefusalsOfTheServer(t *testing.T) {
	s := serve(t)
	refusedFor(s, "/v1/chat/completions", body(withTools("x", nil)), "tool_choice", `"auto" tool choice requires --enable-auto-tool-choice to be set`)
	refusedFor(s, "/v1/responses", body(obj{"input": "x", "tools": []obj{{"type": "function", "name": "f"}}}), "tool_choice")
	refusedFor(s, "/v1/chat/completions", body(withTools("x", obj{"tool_choice": named, "structured_outputs": obj{"regex": "a"}})), "structured_outputs")
	unsupported := []obj{{"type": "function", "function": obj{"name": "f", "parameters": obj{"type": "object", "$dynamicRef": "#x"}}}}
	refusedFor(s, "/v1/chat/completions", body(withTools("x", obj{"tools": unsupported, "tool_choice": "required"})), "tools[0].function.parameters", "$dynamicRef")
}

func TestThoughtsAreApart(t *testing.T) {
	s := serve(t, "--reasoning-parser", "glm45", "--speculative-config", `{"method":"ngram","num_speculative_tokens":3}`)
	thinking := obj{"enable_thinking": true}
	request := obj{"model": "understudy", "messages": user("What is 58 + 67?"), "temperature": 0, "max_tokens": 200, "chat_template_kwargs": thinking}
	body := whole(t, s, request)
	require.Contains(t, *body.Choices[0].Message.Reasoning, "carry")
	require.Contains(t, *body.Choices[0].Message.Content, "125")
	require.NotContains(t, *body.Choices[0].Message.Content, "think>")
	require.Positive(t, body.Usage.Details.ReasoningTokens)
	require.Less(t, body.Usage.Details.ReasoningTokens, body.Usage.CompletionTokens)
	stream, _ := streamed(t, s, request)
	require.Equal(t, body.Choices[0].Message, stream.Choices[0].Message)
	require.Equal(t, body.Usage, stream.Usage)
	require.Nil(t, whole(t, s, with(request, obj{"include_reasoning": false})).Choices[0].Message.Reasoning)
	plain := whole(t, s, with(request, obj{"chat_template_kwargs": obj{"enable_thinking": false}}))
	require.Nil(t, plain.Choices[0].Message.Reasoning)
	require.Zero(t, plain.Usage.Details.ReasoningTokens)

	// Forms begin behind the thoughts.
	formed := whole(t, s, with(request, obj{"structured_outputs": obj{"regex": "[0-9]{1,3}"}}))
	require.NotEmpty(t, *formed.Choices[0].Message.Reasoning)
	require.Regexp(t, "^[0-9]{1,3}$", *formed.Choices[0].Message.Content)
	forced := whole(t, s, with(withTools("What is the weather in Oslo?", nil), obj{"tool_choice": "required", "chat_template_kwargs": thinking}))
	require.NotEmpty(t, *forced.Choices[0].Message.Reasoning)
	require.Len(t, forced.Choices[0].Message.ToolCalls, 1)
}

// TestEveryFormatIsForced: whatever the parser, required calls keep to their schema.
func TestEveryFormatIsForced(t *testing.T) {
	for _, format := range []string{"llama3_json", "mistral", "deepseek_v31", "qwen3_xml", "pythonic", "generic"} {
		s := serve(t, "--tool-call-parser", format)
		r, _ := streamed(t, s, withTools("What is the weather in Oslo?", obj{"tool_choice": "required", "parallel_tool_calls": false}))
		require.Equal(t, "tool_calls", r.Choices[0].FinishReason, format)
		require.Len(t, r.Choices[0].Message.ToolCalls, 1, format)
		var arguments map[string]string
		require.NoError(t, json.Unmarshal([]byte(r.Choices[0].Message.ToolCalls[0].Function.Arguments), &arguments), format)
		require.Contains(t, arguments, "city", format)
	}
}

func TestGoClientCallsTools(t *testing.T) {
	s := serve(t, "--enable-auto-tool-choice")
	c, ctx := goClient(s, "unused"), context.Background()
	params := openai.ChatCompletionNewParams{
		Model: "understudy", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the weather in Lisbon?")}, Temperature: openai.Float(0),
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "get_weather", Parameters: openai.FunctionParameters(weather[0]["function"].(obj)["parameters"].(obj)),
		})},
	}
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	acc, finished := openai.ChatCompletionAccumulator{}, 0
	for stream.Next() {
		require.True(t, acc.AddChunk(stream.Current()))
		if call, ok := acc.JustFinishedToolCall(); ok {
			finished++
			require.Equal(t, "get_weather", call.Name)
			require.JSONEq(t, `{"city":"Lisbon"}`, call.Arguments)
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, 1, finished)
	first := acc.Choices[0].Message
	require.Equal(t, "tool_calls", acc.Choices[0].FinishReason)
	params.Messages = append(params.Messages, first.ToParam(), openai.ToolMessage(`{"temperature": 21, "condition": "sunny"}`, first.ToolCalls[0].ID))
	answer, err := c.Chat.Completions.New(ctx, params)
	require.NoError(t, err)
	require.Contains(t, answer.Choices[0].Message.Content, "21")
}

func TestO46ResponseCalls(t *testing.T) {
	s := serve(t, "--enable-auto-tool-choice", "--enable-response-store", "--reasoning-parser", "glm45")
	c, ctx := goClient(s, "unused"), context.Background()
	params := ask("What is the weather in Oslo and in Lima?")
	params.MaxOutputTokens = openai.Int(200)
	params.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", weather[0]["function"].(obj)["parameters"].(obj), false)}
	params.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	types, joined, last := collect(t, c, params)
	require.Len(t, last.Output, 2)
	require.Equal(t, "created in_progress output_item.added function_call_arguments.delta", strings.Join(types[:4], " "))
	require.Equal(t, "function_call_arguments.done output_item.done completed", strings.Join(types[len(types)-3:], " "))
	arguments, outputs := "", responses.ResponseInputParam{}
	for i, item := range last.Output {
		call := item.AsFunctionCall()
		require.Equal(t, constant.FunctionCall("function_call"), call.Type)
		require.Equal(t, fmt.Sprintf(`{"city": "%s"}`, []string{"Oslo", "Lima"}[i]), call.Arguments)
		arguments += call.Arguments
		output := responses.ResponseInputItemParamOfFunctionCallOutput(`{"temperature": 4, "condition": "rainy"}`)
		output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		outputs = append(outputs, output)
	}
	require.Equal(t, arguments, joined)
	require.NotEqual(t, last.Output[0].AsFunctionCall().CallID, last.Output[1].AsFunctionCall().CallID)

	next := params
	next.PreviousResponseID = openai.String(last.ID)
	next.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: outputs}
	next.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsNone)}
	answer, err := c.Responses.New(ctx, next)
	require.NoError(t, err)
	require.NotEmpty(t, answer.OutputText())
	require.NotContains(t, answer.OutputText(), "tool_call")

	named := ask("What is the weather in Oslo?")
	named.Tools = params.Tools
	named.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "get_weather"}}
	whole, err := c.Responses.New(ctx, named)
	require.NoError(t, err)
	require.JSONEq(t, `{"city":"Oslo"}`, whole.Output[0].AsFunctionCall().Arguments)
}

func TestResponseThoughts(t *testing.T) {
	s := serve(t, "--reasoning-parser", "glm45", "--default-chat-template-kwargs", `{"enable_thinking":true}`)
	c := goClient(s, "unused")
	types, _, last := collect(t, c, ask("What is 58 + 67?"))
	require.Contains(t, types, "reasoning_text.delta")
	require.Len(t, last.Output, 2)
	require.Contains(t, last.Output[0].AsReasoning().Content[0].Text, "carry")
	require.Contains(t, last.OutputText(), "125")
	require.Positive(t, last.Usage.OutputTokensDetails.ReasoningTokens)
}

// TestAnswersOfAFormOrCalls: agents send tools and a form of the answer at once.
func TestAnswersOfAFormOrCalls(t *testing.T) {
	s := serve(t, "--enable-auto-tool-choice")
	form := obj{"type": "json_schema", "json_schema": obj{"name": "n", "schema": obj{
		"type": "object", "properties": obj{"summary": obj{"type": "string", "maxLength": 60}}, "required": []string{"summary"}, "additionalProperties": false,
	}}}
	request := withTools("What is the weather in Oslo?", obj{"response_format": form})
	called := whole(t, s, request).Choices[0]
	require.Equal(t, "tool_calls", called.FinishReason)
	require.JSONEq(t, `{"city":"Oslo"}`, called.Message.ToolCalls[0].Function.Arguments)
	turns := append(user("What is the weather in Oslo?"), obj{"role": "assistant", "tool_calls": called.Message.ToolCalls},
		obj{"role": "tool", "tool_call_id": called.Message.ToolCalls[0].ID, "content": `{"temperature": 4, "condition": "rainy"}`})
	answered := whole(t, s, with(request, obj{"messages": turns})).Choices[0]
	if len(answered.Message.ToolCalls) == 0 { // the model is free to ask again
		var answer map[string]string
		require.NoError(t, json.Unmarshal([]byte(*answered.Message.Content), &answer))
		require.Contains(t, answer, "summary")
	}
}
