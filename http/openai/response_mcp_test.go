package openai_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func withServers() openai.Envelope {
	e := envelope()
	tool := func(name string) infer.ServerTool {
		return infer.ServerTool{Name: name, Function: strings.ReplaceAll(name, ".", "_"), Description: "Does " + name, Schema: json.RawMessage(`{"type":"object"}`)}
	}
	noted := tool("tides")
	noted.Annotations = json.RawMessage(`{"readOnlyHint":true}`)
	e.ToolServers = []infer.ToolServer{
		{Label: "almanac", Tools: []infer.ServerTool{tool("get.weather"), noted}},
		{Label: "books", Tools: []infer.ServerTool{tool("find"), tool("tides")}},
	}
	return e
}

const (
	almanacEntry = `{"type":"mcp","server_label":"almanac","require_approval":"never"}`
	almanac      = `"tools":[` + almanacEntry + `]`
)

func parseWithServers(t *testing.T, fields string) *openai.Call {
	t.Helper()
	call, err := openai.ParseResponse([]byte(`{"input":"Hi",`+fields+`}`), toolProfile(), withServers())
	require.NoError(t, err)
	return call
}

// calls is the pieces of a call of get.weather.
func calls(id string, more ...infer.Piece) []infer.Piece {
	return append([]infer.Piece{
		{Kind: infer.PieceCall, ID: id, Name: "get_weather"}, {Kind: infer.PieceArguments, Text: `{"a"`},
		{Kind: infer.PieceArguments, Text: `:1}`}, {Kind: infer.PieceCallEnd},
	}, more...)
}

func resultOf(id, text string, isFailed bool) infer.Delta {
	return infer.Delta{Text: text, Parsed: &infer.Parsed{Pieces: []infer.Piece{{Kind: infer.PieceOutput, ID: id, Text: text, IsFailed: isFailed}}}}
}

// twoTurns is two calls, their results in another order, and the answer.
func twoTurns() []infer.Delta {
	return []infer.Delta{
		parsed(append([]infer.Piece{thought("h")}, append(calls("c0"), calls("c1")...)...)...),
		resultOf("c1", "no such city", true), resultOf("c0", `{"t":21}`, false),
		ended(parsed(content("Sunny.")), infer.FinishStop),
	}
}

func TestEventsOfServerCalls(t *testing.T) {
	call := parseWithServers(t, almanac+`,"stream":true`)
	events := responseEvents(t, call, finalOf(infer.FinishStop), twoTurns()...)
	opening := "output_item.added mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.delta mcp_call_arguments.done "
	require.Equal(t, "created in_progress output_item.added mcp_list_tools.in_progress mcp_list_tools.completed output_item.done "+
		"output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done "+
		opening+opening+"mcp_call.failed output_item.done mcp_call.completed output_item.done "+
		"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed", names(events))

	last := events[len(events)-1]["response"].(obj)
	output := last["output"].([]any)
	for _, e := range events {
		index, isAbout := e["output_index"].(float64)
		if !isAbout {
			continue
		}
		item := output[int(index)].(obj)
		if e["item"] == nil {
			require.Equal(t, item["id"], e["item_id"], e["type"])
		}
		if e["type"] == "response.output_item.done" {
			require.Equal(t, any(item), e["item"])
		}
	}
	require.Equal(t, obj{"id": "mcpl_01230", "type": "mcp_list_tools", "server_label": "almanac", "error": nil, "tools": []any{
		obj{"name": "get.weather", "description": "Does get.weather", "input_schema": obj{"type": "object"}, "annotations": nil},
		obj{"name": "tides", "description": "Does tides", "input_schema": obj{"type": "object"}, "annotations": obj{"readOnlyHint": true}},
	}}, output[0])
	require.Equal(t, obj{"id": "mcp_01232", "type": "mcp_call", "status": "completed", "server_label": "almanac", "name": "get.weather",
		"arguments": `{"a":1}`, "output": `{"t":21}`, "error": nil, "approval_request_id": nil}, output[2])
	require.Equal(t, obj{"id": "mcp_01233", "type": "mcp_call", "status": "failed", "server_label": "almanac", "name": "get.weather",
		"arguments": `{"a":1}`, "output": nil, "error": "no such city", "approval_request_id": nil}, output[3])
	require.Equal(t, any(last), any(responseBody(t, call, finalOf(infer.FinishStop), twoTurns()...)))
	require.Empty(t, events[1]["response"].(obj)["output"], "nothing is there at the start")
}

func TestTypedEventsOfServerCalls(t *testing.T) {
	call := parseWithServers(t, almanac+`,"stream":true`)
	seen := map[string]bool{}
	for _, e := range responseEvents(t, call, finalOf(infer.FinishStop), twoTurns()...) {
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		var event responses.ResponseStreamEventUnion
		require.NoError(t, json.Unmarshal(raw, &event))
		seen[event.Type] = true
		require.NotNil(t, event.AsAny(), "%s", raw)
		if done, ok := event.AsAny().(responses.ResponseOutputItemDoneEvent); ok {
			require.NotNil(t, done.Item.AsAny(), "%s", raw)
		}
	}
	require.True(t, seen["response.mcp_call.failed"] && seen["response.mcp_call_arguments.done"])
}

// TestCallsThatAreNeverRun: the response ends, or breaks off, before they are.
func TestCallsThatAreNeverRun(t *testing.T) {
	call := parseWithServers(t, almanac+`,"stream":true`)
	deltas := []infer.Delta{ended(parsed(calls("c0")...), infer.FinishStop)}
	exhausted := finalOf(infer.FinishLength)
	exhausted.Loop = &infer.Loop{Turns: make([]infer.Turn, 1), CallsExhausted: true}
	events := responseEvents(t, call, exhausted, deltas...)
	require.True(t, strings.HasSuffix(names(events), "mcp_call_arguments.done output_item.done incomplete"), names(events))
	last := events[len(events)-1]["response"].(obj)
	require.Equal(t, obj{"reason": "max_tool_calls"}, last["incomplete_details"])
	item := last["output"].([]any)[1].(obj)
	require.Equal(t, []any{"incomplete", nil, nil}, []any{item["status"], item["output"], item["error"]})
	require.Equal(t, any(last), any(responseBody(t, call, exhausted, deltas...)))

	broken := finalOf(infer.FinishError)
	broken.Err = infer.Errorf(infer.CodeOverloaded, "", "full")
	events = responseEvents(t, call, broken, parsed(calls("c0")...))
	require.True(t, strings.HasSuffix(names(events), "mcp_call_arguments.done error failed"), names(events))
	item = events[len(events)-1]["response"].(obj)["output"].([]any)[1].(obj)
	require.Equal(t, "incomplete", item["status"])

	b := call.NewResponseBody()
	b.Add(&deltas[0])
	require.Len(t, b.Conversation(), 1, "a call without a result is no part of it")
	silent := responseBody(t, call, finalOf(infer.FinishStop), ended(parsed(), infer.FinishStop))
	require.Len(t, silent["output"], 2, "there is a message even if nothing was said")
}

func TestTurns(t *testing.T) {
	call := parseWithServers(t, almanac+`,"max_output_tokens":50,"include":["message.output_text.logprobs"]`)
	first := *call.Request
	turns := call.NewTurns()
	deltas := twoTurns()
	require.Empty(t, turns.Calls())
	deltas[0].FinishReason = infer.FinishStop
	turns.Add(&deltas[0])
	require.Equal(t, []infer.ServerCall{
		{ID: "c0", Server: "almanac", Tool: "get.weather", Arguments: json.RawMessage(`{"a":1}`)},
		{ID: "c1", Server: "almanac", Tool: "get.weather", Arguments: json.RawMessage(`{"a":1}`)},
	}, turns.Calls())
	require.False(t, turns.AwaitsClient())
	turns.Add(&deltas[1])
	turns.Add(&deltas[2])
	require.Empty(t, turns.Calls())
	next := turns.Next(&first, toolProfile(), 20)
	require.Equal(t, 30, *next.MaxTokens)
	require.Equal(t, 50, *first.MaxTokens)
	require.Len(t, first.Chat.Messages, 1)
	made := `{"id":"c0","type":"function","function":{"name":"get_weather","arguments":"{\"a\":1}"}}`
	require.Equal(t, []string{`{"role":"user","content":"Hi"}`,
		`{"role":"assistant","reasoning":"h","content":null,"tool_calls":[` + made + `,` + strings.Replace(made, "c0", "c1", 1) + `]}`,
		`{"role":"tool","tool_call_id":"c0","content":"{\"t\":21}"}`,
		`{"role":"tool","tool_call_id":"c1","content":"Error: no such city"}`}, texts(next.Chat.Messages))

	again := parsed(calls("c0")...) // of the next turn, with the same id
	turns.Add(&again)
	require.Len(t, turns.Calls(), 1)
	result := resultOf("c0", "2", false)
	turns.Add(&result)
	messages := texts(turns.Next(&first, toolProfile(), 20).Chat.Messages)
	require.Equal(t, []string{`{"role":"assistant","content":null,"tool_calls":[` + made + `]}`, `{"role":"tool","tool_call_id":"c0","content":"2"}`}, messages[4:])
	client := parsed(callPieces(0, false, `{}`)...)
	turns.Add(&client)
	require.True(t, turns.AwaitsClient())
}

func texts(list []json.RawMessage) []string {
	var out []string
	for _, raw := range list {
		out = append(out, string(raw))
	}
	return out
}

func TestCallsAreForcedOnce(t *testing.T) {
	for choice, name := range map[string]string{`"required"`: "", `{"type":"mcp","server_label":"almanac","name":"get.weather"}`: "get_weather"} {
		call := parseWithServers(t, almanac+`,"text":{"format":{"type":"json_object"}},"tool_choice":`+choice)
		require.Equal(t, name, call.Request.Tools.Name)
		require.True(t, call.Request.Tools.Forced)
		require.Nil(t, call.Request.Structured, "a call comes first")
		next := call.NewTurns().Next(call.Request, toolProfile(), 0)
		require.False(t, next.Tools.Forced)
		require.Len(t, next.Tools.Tools, 2)
		require.NotNil(t, next.Structured, "then the answer, in its form")
		shy := toolProfile()
		shy.AutoToolChoice = false
		require.Nil(t, call.NewTurns().Next(call.Request, shy, 0).Tools, "the model may not choose")
	}
}

func TestWhatServerToolsAreOffered(t *testing.T) {
	for _, test := range []struct{ tools, functions, repeated string }{
		{almanacEntry, "get_weather tides", `[{"type":"mcp","server_label":"almanac","allowed_tools":null,"require_approval":"never","headers":null}]`},
		{`{"type":"mcp","server_label":"almanac","allowed_tools":["get.weather"]}`, "get_weather", ""},
		{`{"type":"mcp","server_label":"almanac","allowed_tools":{"tool_names":["tides"]}}`, "tides", ""},
		{`{"type":"mcp","server_label":"almanac","allowed_tools":{}}`, "get_weather tides", ""},
		{almanacEntry + `,{"type":"function","name":"mine"},{"type":"mcp","server_label":"books","allowed_tools":["find"]}`, "get_weather tides mine find", ""},
		{`{"type":"mcp","server_label":"almanac","allowed_tools":[]}`, "", ""},
	} {
		call := parseWithServers(t, `"tools":[`+test.tools+`]`)
		var names []string
		if call.Request.Tools != nil {
			for _, tool := range call.Request.Tools.Tools {
				names = append(names, tool.Name)
			}
		}
		require.Equal(t, test.functions, strings.Join(names, " "))
		require.Equal(t, test.functions != "", call.Response.HasServerTools())
		var started obj
		require.NoError(t, json.Unmarshal(call.NewResponseBody().AppendStarted(nil), &started))
		if test.repeated != "" {
			raw, err := json.Marshal(started["tools"])
			require.NoError(t, err)
			require.JSONEq(t, test.repeated, string(raw))
			require.JSONEq(t, `[{"type":"function","function":{"name":"get_weather","description":"Does get.weather","parameters":{"type":"object"}}},`+
				`{"type":"function","function":{"name":"tides","description":"Does tides","parameters":{"type":"object"}}}]`, string(call.Request.Chat.Tools))
		}
	}
}

func TestServerToolsThatAreRefused(t *testing.T) {
	for tools, param := range map[string]string{
		`{"type":"mcp","server_label":"almanac","server_url":"http://169.254.169.254/"}`:                   "tools[0].server_url",
		`{"type":"mcp","server_label":"almanac","authorization":"x"}`:                                      "tools[0].authorization",
		`{"type":"mcp","server_label":"almanac","headers":{"a":"b"}}`:                                      "tools[0].headers",
		`{"type":"mcp","server_label":"almanac","connector_id":"x"}`:                                       "tools[0].connector_id",
		`{"type":"mcp","server_label":"nobody"}`:                                                           "tools[0].server_label",
		`{"type":"mcp"}`:                                                                                   "tools[0].server_label",
		`{"type":"mcp","server_label":"almanac","require_approval":"always"}`:                              "tools[0].require_approval",
		`{"type":"mcp","server_label":"almanac","require_approval":{"never":{"tool_names":["tides"]}}}`:    "tools[0].require_approval",
		`{"type":"mcp","server_label":"almanac","allowed_tools":["rain"]}`:                                 "tools[0].allowed_tools",
		`{"type":"mcp","server_label":"almanac","allowed_tools":{"read_only":true}}`:                       "tools[0].allowed_tools.read_only",
		almanacEntry + `,` + almanacEntry:                                                                  "tools",
		almanacEntry + `,{"type":"mcp","server_label":"books"}`:                                            "tools",
		`{"type":"code_interpreter"}`:                                                                      "tools[0].type",
		almanacEntry + `],"tool_choice":{"type":"mcp","server_label":"almanac","name":"rain"},"include":[`: "tool_choice.name",
		almanacEntry + `],"tool_choice":{"type":"mcp","server_label":"almanac"},"include":[`:               "tool_choice.name",
		almanacEntry + `],"max_tool_calls":0,"include":[`:                                                  "max_tool_calls",
	} {
		_, err := openai.ParseResponse([]byte(`{"input":"Hi","tools":[`+tools+`]}`), toolProfile(), withServers())
		var refused *infer.Error
		require.True(t, errors.As(err, &refused), tools)
		require.Equal(t, param, refused.Param, tools)
		require.NotContains(t, refused.Message, "169.254")
	}
	_, err := openai.ParseResponse([]byte(`{"input":"Hi",`+almanac+`}`), toolProfile(), envelope())
	require.ErrorContains(t, err, "--tool-server")
}

func TestServerCallsAsInput(t *testing.T) {
	items := []string{
		`{"role":"user","content":"Hi"}`,
		`{"id":"l","type":"mcp_list_tools","server_label":"almanac","tools":[]}`,
		`{"id":"m0","type":"mcp_call","server_label":"almanac","name":"get.weather","arguments":"{\"a\":1}","output":"21","error":null,"status":"completed"}`,
		`{"id":"m1","type":"mcp_call","server_label":"almanac","name":"tides","arguments":"{","output":null,"error":"no"}`,
		`{"id":"m2","type":"mcp_call","server_label":"almanac","name":"tides","arguments":"{}","output":null}`,
		`{"type":"message","role":"assistant","content":"Sunny."}`, `{"role":"user","content":"And?"}`,
	}
	call, err := openai.ParseResponse([]byte(`{"input":[`+strings.Join(items, ",")+`]}`), toolProfile(), envelope())
	require.NoError(t, err)
	require.Equal(t, `{"role":"user","content":"Hi"}`+"\n"+
		`{"role":"assistant","content":null,"tool_calls":[{"id":"m0","type":"function","function":{"name":"get_weather","arguments":"{\"a\":1}"}},`+
		`{"id":"m1","type":"function","function":{"name":"tides","arguments":"{}"}}]}`+"\n"+
		`{"role":"tool","tool_call_id":"m0","content":"21"}`+"\n"+`{"role":"tool","tool_call_id":"m1","content":"Error: no"}`+"\n"+
		`{"role":"assistant","content":"Sunny."}`+"\n"+`{"role":"user","content":"And?"}`, messagesOf(call))
	require.Contains(t, string(call.Response.TakeInput()[2]), `"server_label":"almanac"`)
	for item, param := range map[string]string{
		`{"type":"mcp_call","server_label":"a","name":"n","arguments":"{}"}`:                   "input[0].id",
		`{"type":"mcp_call","id":"x","name":"n","arguments":"{}"}`:                             "input[0].server_label",
		`{"type":"mcp_call","id":"x","server_label":"a","name":"n"}`:                           "input[0].arguments",
		`{"type":"mcp_call","id":"x","server_label":"a","arguments":"{}","output":"1"}`:        "input[0].name",
		`{"type":"mcp_call","id":"x","server_label":"a","name":"n","arguments":{}}`:            "input[0].arguments",
		`{"type":"mcp_call","id":"x","server_label":"a","name":"n","arguments":"","output":1}`: "input[0].output",
	} {
		_, err := openai.ParseResponse([]byte(`{"input":[`+item+`]}`), toolProfile(), envelope())
		var refused *infer.Error
		require.True(t, errors.As(err, &refused), item)
		require.Equal(t, param, refused.Param, item)
	}
}

func TestMetricsPerTurn(t *testing.T) {
	p := toolProfile()
	p.PerTurnMetrics = true
	call := parseResponse(t, p, "")
	f := finalOf(infer.FinishStop)
	f.Usage = infer.Usage{NumPromptTokens: 7, NumCompletionTokens: 2}
	f.Metrics = &infer.RequestMetrics{QueueTimeMs: infer.NullFloat{Value: 1.5, Valid: true}}
	times := func(queued any) obj {
		return obj{"queue_time_ms": queued, "time_to_first_token_ms": nil, "generation_time_ms": nil, "mean_itl_ms": nil, "tokens_per_second": nil}
	}
	hello := infer.Delta{Text: "x", FinishReason: infer.FinishStop}
	body := responseBody(t, call, f, hello)
	require.NotContains(t, body, "metrics", "that is another flag")
	require.Equal(t, []any{obj{"input_tokens": 7., "output_tokens": 2., "metrics": times(1.5), "tool_time_ms": nil, "tool_calls": []any{}}}, body["metrics_per_turn"])

	f.Metrics = nil
	f.Loop = &infer.Loop{Turns: []infer.Turn{
		{Usage: infer.Usage{NumPromptTokens: 3, NumCompletionTokens: 1}, Metrics: &infer.RequestMetrics{}, ToolMs: 4.5,
			Calls: []infer.TimedCall{{ServerCall: infer.ServerCall{Server: "almanac", Tool: "tides"}, Ms: 4.25, IsFailed: true}}},
		{Usage: infer.Usage{NumPromptTokens: 4, NumCompletionTokens: 1}},
	}}
	require.Equal(t, []any{
		obj{"input_tokens": 3., "output_tokens": 1., "metrics": times(nil), "tool_time_ms": 4.5,
			"tool_calls": []any{obj{"server_label": "almanac", "name": "tides", "failed": true, "tool_time_ms": 4.25}}},
		obj{"input_tokens": 4., "output_tokens": 1., "metrics": nil, "tool_time_ms": nil, "tool_calls": []any{}},
	}, responseBody(t, call, f, hello)["metrics_per_turn"])
	f.Err = infer.Errorf(infer.CodeOverloaded, "", "full")
	require.NotContains(t, responseBody(t, call, f, hello), "metrics_per_turn")
}
