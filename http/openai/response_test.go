package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

func messagesOf(call *openai.Call) string {
	var list []string
	for _, m := range call.Request.Chat.Messages {
		list = append(list, string(m))
	}
	return strings.Join(list, "\n")
}

func TestResponseInputBecomesMessages(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`"input":"H\u0069"`, `{"role":"user","content":"H\u0069"}`},
		{`"input":"Hi","instructions":"Be \"brief\""`, `{"role":"system","content":"Be \"brief\""}` + "\n" + `{"role":"user","content":"Hi"}`},
		{`"input":[{"role":"developer","content":"x"},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]`,
			`{"role":"developer","content":"x"}` + "\n" + `{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}`},
		{ // one turn of the assistant is one message
			`"input":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"no"}],"content":[{"type":"reasoning_text","text":"a"},{"type":"reasoning_text","text":"\"b"}]},
			{"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"Let me see.","annotations":[]}]},
			{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"z\":1}","id":"fc_1"},{"type":"function_call","call_id":"c2","name":"g","arguments":""},
			{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]}]`,
			`{"role":"assistant","reasoning":"a\n\"b","content":[{"type":"output_text","text":"Let me see.","annotations":[]}],"tool_calls":[` +
				`{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":""}}]}` + "\n" +
				`{"role":"tool","tool_call_id":"c1","content":"1"}` + "\n" + `{"role":"tool","tool_call_id":"c2","content":[{"type":"input_text","text":"2"}]}`},
		{ // what comes after its calls is another turn; a summary stands for hidden reasoning
			`"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"role":"assistant","content":"x"},{"role":"assistant","content":"y"},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"zzz"},{"type":"reasoning","summary":[],"encrypted_content":"zzz"}]`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}` + "\n" +
				`{"role":"assistant","content":"x"}` + "\n" + `{"role":"assistant","content":"y"}` + "\n" + `{"role":"assistant","reasoning":"s","content":null}`},
		{ // messages of the chat endpoint
			`"input":[{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},{"role":"tool","tool_call_id":"c","content":"1"}]`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}` + "\n" + `{"role":"tool","tool_call_id":"c","content":"1"}`},
	} {
		call, err := openai.ParseResponse([]byte("{"+test.body+"}"), profile(), envelope())
		require.NoError(t, err, test.body)
		require.Equal(t, test.want, messagesOf(call))
		for _, m := range call.Request.Chat.Messages {
			require.True(t, json.Valid(m), "%s", m)
		}
	}
}

func TestResponseRequest(t *testing.T) {
	call := parseResponse(t, toolProfile(), `"max_output_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":3,"min_p":0.125,"seed":5,"stop":"END","min_tokens":2,"ignore_eos":true,
		"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,"stop_token_ids":[3],"logit_bias":{"1":2},"cache_salt":"s","stream":true,"stream_options":{"include_obfuscation":true},
		"truncation":"auto","reasoning":{"effort":"none"},"chat_template_kwargs":{"a":1,"enable_thinking":true},"include":["reasoning.encrypted_content"],"top_logprobs":2,
		"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"z":{},"a":{}}},"strict":true}],"tool_choice":"auto"`)
	seven, fit := 7, -1
	require.Equal(t, &infer.Request{
		ID: "resp_0123", Arrival: 7, N: 1, MaxTokens: &seven, MaxTokensParam: "max_output_tokens", SeedGiven: true, CacheSalt: "s", Stream: true, TruncatePromptTokens: &fit,
		Chat: &infer.ChatInput{
			Messages: []json.RawMessage{json.RawMessage(`{"role":"user","content":"Hi"}`)}, AddGenerationPrompt: true,
			Tools:          json.RawMessage(`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"z":{},"a":{}}}}}]`),
			TemplateKwargs: json.RawMessage(`{"a":1,"enable_thinking":true,"reasoning_effort":"none"}`),
		},
		Sampling: infer.SamplingParams{
			Temperature: 0.5, TopP: 0.25, TopK: 3, MinP: 0.125, Seed: 5, Stop: []string{"END"}, MinTokens: 2, IgnoreEOS: true, PresencePenalty: 1, FrequencyPenalty: -1,
			RepetitionPenalty: 1.5, StopTokenIDs: []int32{3}, LogitBias: []infer.TokenBias{{TokenID: 1, Bias: 2}}, NumLogprobs: -1, NumPromptLogprobs: -1, SkipSpecialTokens: true,
		},
		Tools: &infer.ToolUse{Tools: []infer.Tool{{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{"z":{},"a":{}}}`), Param: "tools[0].parameters"}}},
	}, call.Request)
	call = parseResponse(t, profile(), `"include":["message.output_text.logprobs"],"reasoning":{"effort":"low"}`)
	require.Equal(t, 0, call.Request.Sampling.NumLogprobs)
	require.JSONEq(t, `{"reasoning_effort":"low"}`, string(call.Request.Chat.TemplateKwargs))
	require.Nil(t, call.Request.TruncatePromptTokens)
	require.Nil(t, call.Request.MaxTokens)
}

// TestResponseRepeatsTheRequest reads the object with the official types: every
// field that they require is there, whatever the request leaves out.
func TestResponseRepeatsTheRequest(t *testing.T) {
	for _, fields := range []string{"", `"instructions":"x","max_output_tokens":5,"max_tool_calls":3,"metadata":{"k":"v"},"parallel_tool_calls":false,"previous_response_id":"resp_1",
		"prompt_cache_key":"p","reasoning":{"effort":"high","summary":"auto"},"safety_identifier":"s","service_tier":"flex","temperature":0,"text":{"format":{"type":"text"},"verbosity":"low"},
		"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"}}],"tool_choice":"none","top_logprobs":4,"top_p":0.5,"truncation":"auto","user":"u","store":false`} {
		call := parseResponse(t, profile(), fields)
		b := call.NewBody()
		b.Add(&infer.Delta{Text: "Hello", FinishReason: infer.FinishStop})
		raw := b.AppendBody(nil, finalOf(infer.FinishStop))
		var r responses.Response
		require.NoError(t, json.Unmarshal(raw, &r))
		require.Empty(t, r.JSON.ExtraFields["metrics"])
		for name, f := range map[string]interface{ Raw() string }{
			"id": r.JSON.ID, "created_at": r.JSON.CreatedAt, "error": r.JSON.Error, "incomplete_details": r.JSON.IncompleteDetails, "instructions": r.JSON.Instructions,
			"metadata": r.JSON.Metadata, "model": r.JSON.Model, "object": r.JSON.Object, "output": r.JSON.Output, "parallel_tool_calls": r.JSON.ParallelToolCalls,
			"temperature": r.JSON.Temperature, "tool_choice": r.JSON.ToolChoice, "tools": r.JSON.Tools, "top_p": r.JSON.TopP, "status": r.JSON.Status, "usage": r.JSON.Usage,
			"access_programs": r.JSON.AccessPrograms, "text": r.JSON.Text, "truncation": r.JSON.Truncation, "reasoning": r.JSON.Reasoning,
		} {
			require.NotEmpty(t, f.Raw(), name)
		}
		require.Equal(t, "Hello", r.OutputText())
		if fields == "" {
			require.True(t, r.ParallelToolCalls)
			require.EqualValues(t, "disabled", r.Truncation)
			require.InDelta(t, 1, r.Temperature, 0)
			continue
		}
		require.Equal(t, "x", r.Instructions.OfString)
		require.EqualValues(t, []any{int64(5), int64(3), false, "resp_1", "p", "high", "s", "default", "low", "none", int64(4), "auto", "u"},
			[]any{r.MaxOutputTokens, r.MaxToolCalls, r.ParallelToolCalls, r.PreviousResponseID, r.PromptCacheKey, string(r.Reasoning.Effort), r.SafetyIdentifier,
				string(r.ServiceTier), string(r.Text.Verbosity), string(r.ToolChoice.OfToolChoiceMode), r.TopLogprobs, string(r.Truncation), r.User})
		require.Equal(t, "v", r.Metadata["k"])
		require.Equal(t, "f", r.Tools[0].AsFunction().Name)
		require.Equal(t, "d", r.Tools[0].AsFunction().Description)
		require.Contains(t, string(raw), `"store":false`)
	}
}

// responseRefusals are fields beside input, with what is said about them.
var responseRefusals = []struct {
	fields, param string
	code          infer.Code
}{
	{`"input":5`, "input", infer.CodeMalformed}, {`"input":[]`, "input", infer.CodeInvalid}, {`"input":null`, "input", infer.CodeMalformed},
	{`"input":[5]`, "input[0]", infer.CodeMalformed}, {`"input":[{}]`, "input[0].type", infer.CodeMalformed},
	{`"input":[{"type":"item_reference","id":"x"}]`, "input[0].type", infer.CodeInvalid},
	{`"input":[{"role":"robot","content":"x"}]`, "input[0].role", infer.CodeInvalid}, {`"input":[{"role":"function","content":"x"}]`, "input[0].role", infer.CodeInvalid},
	{`"input":[{"role":"user"}]`, "input[0].content", infer.CodeMalformed},
	{`"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]`, "input[0].content[0].type", infer.CodeInvalid},
	{`"input":[{"type":"function_call","name":"f","arguments":"{}"}]`, "input[0].call_id", infer.CodeMalformed},
	{`"input":[{"type":"function_call","name":"f","call_id":"c"}]`, "input[0].arguments", infer.CodeMalformed},
	{`"input":[{"type":"function_call","name":"f","call_id":"c","arguments":"{"}]`, "input[0].arguments", infer.CodeInvalid},
	{`"input":[{"type":"function_call_output","call_id":"c"}]`, "input[0].output", infer.CodeMalformed},
	{`"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_file"}]}]`, "input[0].output[0].type", infer.CodeInvalid},
	{`"input":[{"type":"function_call_output","call_id":"c","output":5}]`, "input[0].output", infer.CodeMalformed},
	{`"input":[{"type":"reasoning","content":[{"type":"text","text":"x"}]}]`, "input[0].content[0].type", infer.CodeInvalid},
	{`"input":[{"type":"reasoning","summary":[{"type":"summary_text"}]}]`, "input[0].summary[0].text", infer.CodeMalformed},
	{`"input":[{"type":"reasoning","summary":[],"encrypted_content":"x"}]`, "input", infer.CodeInvalid},
	{`"instructions":["x"]`, "instructions", infer.CodeMalformed}, {`"model":"nope"`, "model", infer.CodeModelNotFound},
	{`"max_output_tokens":0`, "max_output_tokens", infer.CodeInvalid}, {`"max_tool_calls":0`, "max_tool_calls", infer.CodeMalformed},
	{`"temperature":3`, "temperature", infer.CodeInvalid}, {`"top_p":0`, "top_p", infer.CodeInvalid}, {`"top_logprobs":21`, "top_logprobs", infer.CodeInvalid},
	{`"include":["x"]`, "include", infer.CodeInvalid}, {`"truncation":"x"`, "truncation", infer.CodeInvalid}, {`"n":2`, "n", infer.CodeInvalid},
	{`"metadata":{"k":1}`, "metadata.k", infer.CodeMalformed}, {`"metadata":{"` + strings.Repeat("k", 65) + `":"v"}`, "metadata", infer.CodeInvalid},
	{`"metadata":{"k":"` + strings.Repeat("v", 513) + `"}`, "metadata.k", infer.CodeInvalid},
	{`"user":"` + strings.Repeat("u", 513) + `"`, "user", infer.CodeInvalid}, {`"previous_response_id":"` + strings.Repeat("u", 134) + `"`, "previous_response_id", infer.CodeInvalid},
	{`"reasoning":{"effort":"x"}`, "reasoning.effort", infer.CodeInvalid}, {`"text":{"verbosity":"x"}`, "text.verbosity", infer.CodeInvalid},
	{`"text":{"format":{"type":"json_schema","name":"n"}}`, "text.format.schema", infer.CodeMalformed}, {`"text":{"format":{"type":"x"}}`, "text.format.type", infer.CodeMalformed},
	{`"text":{"format":{}}`, "text.format.type", infer.CodeMalformed}, {`"response_format":{"type":"json_object"}`, "response_format", infer.CodeInvalid},
	{`"tools":[{"type":"web_search"}]`, "tools[0].type", infer.CodeNotImplemented}, {`"tools":[{"name":"f"}]`, "tools[0].type", infer.CodeMalformed},
	{`"tools":[{"type":"function"}]`, "tools[0].name", infer.CodeMalformed}, {`"tools":[{"type":"function","name":"f","parameters":"x"}]`, "tools[0].parameters", infer.CodeMalformed},
	{`"tool_choice":"required"`, "tool_choice", infer.CodeMalformed}, {responseTool, "tool_choice", infer.CodeInvalid},
	{responseTool + `,"tool_choice":{"type":"function","name":"g"}`, "tool_choice", infer.CodeInvalid}, {responseTool + `,"tool_choice":{"type":"function"}`, "tool_choice.name", infer.CodeMalformed},
	{responseTool + `,"tool_choice":{"type":"web_search"}`, "tool_choice.type", infer.CodeInvalid},
	{`"tools":[{"type":"function","name":"f"}],"tool_choice":"x"`, "tool_choice", infer.CodeMalformed},
	{`"background":true,"stream":true`, "background", infer.CodeNotImplemented}, {`"conversation":"x"`, "conversation", infer.CodeNotImplemented}, {`"prompt":{"id":"x"}`, "prompt", infer.CodeInvalid},
}

func TestResponseRefusals(t *testing.T) {
	for _, test := range responseRefusals {
		_, err := openai.ParseResponse([]byte(`{"input":"Hi",`+test.fields+`}`), profile(), envelope())
		var inferErr *infer.Error
		require.True(t, errors.As(err, &inferErr), test.fields)
		require.Equal(t, test.param, inferErr.Param, test.fields)
		require.Equal(t, test.code, inferErr.Code, test.fields)
		require.Contains(t, inferErr.Message, strings.Split(test.param, ".")[0])
	}
	_, err := openai.ParseResponse([]byte(`{"metadata":{`+strings.Repeat(`"k":"v",`, 16)+`"l":"v"},"input":"x"}`), profile(), envelope())
	require.ErrorContains(t, err, "metadata: has more than 16 entries")
}

func TestResponseFollowsAnother(t *testing.T) {
	call := parseResponse(t, profile(), `"instructions":"first"`)
	b := call.NewResponseBody()
	b.Add(&infer.Delta{Text: "Hel\"lo", FinishReason: infer.FinishStop})
	next := parseResponse(t, profile(), `"instructions":"second"`)
	require.NoError(t, next.Follow(b.Conversation()))
	require.Equal(t, `{"role":"system","content":"second"}`+"\n"+`{"role":"user","content":"Hi"}`+"\n"+
		`{"role":"assistant","content":"Hel\"lo"}`+"\n"+`{"role":"user","content":"Hi"}`, messagesOf(next))
	require.Len(t, next.NewResponseBody().Conversation(), 4, "instructions are not carried over")
	err := next.Follow(make([]json.RawMessage, 1<<16))
	require.ErrorContains(t, err, "the limit is 65536")
}

func TestInputItemPages(t *testing.T) {
	call, err := openai.ParseResponse([]byte(`{"input":[{"role":"user","content":"a"},{"id":"x","type":"message","role":"user","content":"b"},{"role":"user","content":"c"}]}`), profile(), envelope())
	require.NoError(t, err)
	items := call.Response.TakeInput()
	for query, want := range map[string]string{
		"":                       `in_01232 x in_01230|false`,
		"order=asc&limit=2":      `in_01230 x|true`,
		"order=asc&after=x":      `in_01232|false`,
		"limit=1&after=in_01230": `|false`,
	} {
		page, err := openai.ParsePage(query)
		require.NoError(t, err)
		var list struct {
			Object  string
			Data    []struct{ ID, Type, Role, Content string }
			FirstID *string `json:"first_id"`
			HasMore bool    `json:"has_more"`
		}
		require.NoError(t, json.Unmarshal(openai.AppendInputItems(nil, items, page), &list))
		var ids []string
		for _, item := range list.Data {
			ids = append(ids, item.ID)
			require.Equal(t, "message", item.Type)
			require.NotEmpty(t, item.Content)
		}
		require.Equal(t, want, fmt.Sprintf("%s|%v", strings.Join(ids, " "), list.HasMore), query)
		require.Equal(t, len(ids) == 0, list.FirstID == nil)
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "order=up", "a=%zz"} {
		_, err := openai.ParsePage(query)
		require.Error(t, err, query)
	}
}

func FuzzResponse(f *testing.F) {
	seeds(f)
	for _, r := range responseRefusals {
		f.Add([]byte(`{"input":"Hi",` + r.fields + `}`))
	}
	f.Add([]byte(`{"input":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"c","output":"1"}],"tools":[{"type":"function","name":"f"}],"metadata":{"a":"b"},"reasoning":{"effort":"none"},"chat_template_kwargs":{"a" : 1} }`))
	f.Add([]byte(`{"input":[{"type":"mcp_call","id":"m","server_label":"almanac","name":"tides","arguments":"{}","output":"1"},{"type":"mcp_list_tools"},{"role":"user","content":"x"}],` +
		`"tools":[{"type":"mcp","server_label":"almanac","allowed_tools":{"tool_names":["tides"]}}],"tool_choice":{"type":"mcp","server_label":"almanac","name":"tides"},"max_tool_calls":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := openai.ParseResponse(body, profile(), withServers())
		if err != nil {
			checkError(t, err)
			return
		}
		checkCall(t, call)
		require.NotEmpty(t, call.Request.Chat.Messages)
		for _, raw := range append(append(call.Response.TakeInput(), call.Request.Chat.Messages...), orEmpty(call.Request.Chat.Tools), orEmpty(call.Request.Chat.TemplateKwargs)) {
			require.True(t, json.Valid(raw), "%s", raw)
		}
		responseEvents(t, call, finalOf(infer.FinishStop), infer.Delta{Text: "x", FinishReason: infer.FinishStop})
		turns := call.NewTurns()
		for _, d := range twoTurns() {
			turns.Add(&d)
		}
		for _, raw := range turns.Next(call.Request, profile(), 0).Chat.Messages {
			require.True(t, json.Valid(raw), "%s", raw)
		}
	})
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}
