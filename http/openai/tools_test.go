package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/http/openai"
	"github.com/troupe-llm/troupe/infer"
)

const (
	chatTool     = `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"z":1,"a":2}}},{"type":"function","function":{"name":"g"}}]`
	responseTool = `"tools":[{"type":"function","name":"f"}]`
)

func toolProfile() *openai.Profile {
	p := profile()
	p.AutoToolChoice, p.ReasoningTokens = true, true
	return p
}

func parseTools(t *testing.T, fields string) *openai.Call {
	t.Helper()
	call, err := openai.ParseChat([]byte(chat(fields)), toolProfile(), envelope())
	require.NoError(t, err, fields)
	return call
}

func TestToolChoices(t *testing.T) {
	both := []infer.Tool{
		{Name: "f", Parameters: json.RawMessage(`{"z":1,"a":2}`), Param: "tools[0].function.parameters"},
		{Name: "g", Param: "tools[1].function.parameters"},
	}
	for fields, want := range map[string]*infer.ToolUse{
		``:                     nil,
		`"tool_choice":"none"`: nil,
		chatTool:               {Tools: both},
		chatTool + `,"tool_choice":"auto","parallel_tool_calls":false`:                  {Tools: both, Single: true},
		chatTool + `,"tool_choice":"none"`:                                              nil,
		chatTool + `,"tool_choice":"required"`:                                          {Tools: both, Forced: true},
		chatTool + `,"tool_choice":{"type":"function","function":{"name":"g"}}`:         {Tools: both, Forced: true, Name: "g"},
		chatTool + `,"tool_choice":"required","response_format":{"type":"json_object"}`: {Tools: both, Forced: true},
	} {
		call := parseTools(t, fields)
		require.Equal(t, want, call.Request.Tools, fields)
		require.Equal(t, strings.Contains(fields, "tools"), call.Request.Chat.Tools != nil, fields)
		require.Nil(t, call.Request.Structured, "a forced call has a form of its own")
	}
	p := toolProfile()
	p.ExcludeToolsWhenNone = true
	call, err := openai.ParseChat([]byte(chat(chatTool+`,"tool_choice":"none"`)), p, envelope())
	require.NoError(t, err)
	require.Nil(t, call.Request.Chat.Tools)
	auto := parseTools(t, chatTool+`,"response_format":{"type":"json_object"}`)
	require.True(t, auto.Request.Structured.JSONObject)
}

var toolRefusals = []struct{ fields, param, part string }{
	{`"tools":[]`, "tools", "empty"}, {`"tools":[5]`, "tools[0]", "an object"},
	{`"tools":[{"function":{"name":"f"}}]`, "tools[0].type", "required"}, {`"tools":[{"type":"x","function":{"name":"f"}}]`, "tools[0].type", "not supported"},
	{`"tools":[{"type":"function"}]`, "tools[0].function", "required"}, {`"tools":[{"type":"function","function":{}}]`, "tools[0].function.name", "required"},
	{`"tools":[{"type":"function","function":{"name":"` + strings.Repeat("x", 65) + `"}}]`, "tools[0].function.name", "limit is 64"},
	{`"tools":[{"type":"function","function":{"name":"f x"}}]`, "tools[0].function.name", "letters, digits, _ and - only"},
	{`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`, "tools", "two functions have the name \"f\""},
	{`"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`, "tools[0].function.parameters", "an object"},
	{`"tools":[` + manyTools(1024) + `{}]`, "tools", "more than 1024"},
	{`"tool_choice":"auto"`, "tool_choice", "only allowed with tools"}, {`"tool_choice":"required"`, "tool_choice", "only allowed with tools"},
	{chatTool + `,"tool_choice":"any"`, "tool_choice", "none, auto, required"}, {chatTool + `,"tool_choice":5`, "tool_choice", "none, auto, required"},
	{chatTool + `,"tool_choice":{}`, "tool_choice.type", "required"}, {chatTool + `,"tool_choice":{"type":"function"}`, "tool_choice.function", "required"},
	{chatTool + `,"tool_choice":{"type":"function","function":{"name":"h"}}`, "tool_choice", "not among the tools"},
	{chatTool + `,"tool_choice":"required","structured_outputs":{"regex":"a"}`, "structured_outputs", "cannot be combined"},
	{chatTool + `,"tool_choice":{"type":"function","function":{"name":"f"}},"structured_outputs":{"regex":"a"}`, "structured_outputs", "cannot be combined"},
	{chatTool + `,"parallel_tool_calls":1`, "parallel_tool_calls", "boolean"}, {`"include_reasoning":1`, "include_reasoning", "boolean"},
	{`"functions":[{}]`, "functions", "not supported"},
}

func TestToolRefusals(t *testing.T) {
	for _, test := range toolRefusals {
		_, err := openai.ParseChat([]byte(chat(test.fields)), toolProfile(), envelope())
		var coded *infer.Error
		require.True(t, errors.As(err, &coded), test.fields)
		require.Equal(t, test.param, coded.Param, test.fields)
		require.Contains(t, coded.Message, test.part, test.fields)
	}
	for _, tools := range []string{chatTool, chatTool + `,"tool_choice":"auto"`} {
		_, err := openai.ParseChat([]byte(chat(tools)), profile(), envelope())
		require.ErrorContains(t, err, `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`)
		p := profile()
		p.KnowsToolCalls = true
		_, err = openai.ParseChat([]byte(chat(tools)), p, envelope())
		require.ErrorContains(t, err, `"auto" tool choice requires --enable-auto-tool-choice to be set`)
	}
}

func parsed(pieces ...infer.Piece) infer.Delta {
	return infer.Delta{Parsed: &infer.Parsed{Pieces: pieces}}
}

func content(text string) infer.Piece { return infer.Piece{Text: text} }

func thought(text string) infer.Piece { return infer.Piece{Kind: infer.PieceReasoning, Text: text} }

// callPieces are those of one call.
func callPieces(index int, cut bool, arguments ...string) []infer.Piece {
	pieces := []infer.Piece{{Kind: infer.PieceCall, Index: index, ID: "id" + string(rune('0'+index)), Name: "f\""}}
	for _, text := range arguments {
		pieces = append(pieces, infer.Piece{Kind: infer.PieceArguments, Index: index, Text: text})
	}
	return append(pieces, infer.Piece{Kind: infer.PieceCallEnd, Index: index, Incomplete: cut})
}

func ended(d infer.Delta, reason infer.FinishReason) infer.Delta {
	d.FinishReason = reason
	return d
}

func TestParsedStreamExactly(t *testing.T) {
	call := parseTools(t, chatTool+`,"stream":true,"stream_options":{"include_usage":true}`)
	plain := `},"logprobs":null,"finish_reason":null}]}`
	got := stream(call, &infer.Final{Usage: infer.Usage{NumPromptTokens: 9, NumCompletionTokens: 8, NumReasoningTokens: 3}},
		parsed(thought("hm")), parsed(), parsed(thought("."), content("Hi")),
		parsed(callPieces(0, false, `{"a"`, `:1}`)...), ended(parsed(callPieces(1, false, `{}`)...), infer.FinishStop))
	require.Equal(t, lines(
		chatHead+`{"index":0,"delta":{"role":"assistant","content":""`+plain,
		chatHead+`{"index":0,"delta":{"reasoning":"hm"`+plain,
		chatHead+`{"index":0,"delta":{"reasoning":"."`+plain,
		chatHead+`{"index":0,"delta":{"content":"Hi"`+plain,
		chatHead+`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"id0","type":"function","function":{"name":"f\"","arguments":""}}]`+plain,
		chatHead+`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]`+plain,
		chatHead+`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]`+plain,
		chatHead+`{"index":0,"delta":{"tool_calls":[{"index":1,"id":"id1","type":"function","function":{"name":"f\"","arguments":""}}]`+plain,
		chatHead+`{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null}]}`,
		chatHead+`],"usage":{"prompt_tokens":9,"total_tokens":17,"completion_tokens":8,"completion_tokens_details":{"reasoning_tokens":3}}}`,
		`data: [DONE]`), got)
}

func TestParsedBodyExactly(t *testing.T) {
	call := parseTools(t, chatTool)
	got := body(call, &infer.Final{Usage: infer.Usage{NumPromptTokens: 9, NumCompletionTokens: 8, NumReasoningTokens: 3}},
		parsed(thought("h")), parsed(thought("m")), parsed(callPieces(0, false, `{"a"`, `:1}`)...), ended(parsed(callPieces(1, false, `{}`)...), infer.FinishStop))
	require.Contains(t, got, `"message":{"role":"assistant","content":null,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":"hm",`+
		`"tool_calls":[{"id":"id0","type":"function","function":{"name":"f\"","arguments":"{\"a\":1}"}},{"id":"id1","type":"function","function":{"name":"f\"","arguments":"{}"}}]},`+
		`"logprobs":null,"finish_reason":"tool_calls","stop_reason":null,"token_ids":null}]`)
	require.Contains(t, got, `"completion_tokens_details":{"reasoning_tokens":3}`)
}

// The reason why a choice has ended, whole and streamed.
func TestFinishReasonsOfCalls(t *testing.T) {
	const named = chatTool + `,"tool_choice":{"type":"function","function":{"name":"f"}}`
	whole, cut := parsed(callPieces(0, false, `{}`)...), parsed(callPieces(0, true, `{"a`)...)
	for _, test := range []struct {
		fields string
		delta  infer.Delta
		want   string
	}{
		{chatTool, ended(whole, infer.FinishStop), "tool_calls"},
		{chatTool + `,"tool_choice":"required"`, ended(whole, infer.FinishStop), "tool_calls"},
		{named, ended(whole, infer.FinishStop), "stop"},
		{chatTool, ended(whole, infer.FinishLength), "length"},
		{chatTool, ended(cut, infer.FinishLength), "length"},
		{chatTool, ended(cut, infer.FinishStop), "stop"}, // nobody should run half a call
		{chatTool, ended(parsed(content("Hi")), infer.FinishStop), "stop"},
	} {
		require.Contains(t, body(parseTools(t, test.fields), &infer.Final{}, test.delta), `"finish_reason":"`+test.want+`"`)
		require.Contains(t, stream(parseTools(t, test.fields+`,"stream":true`), &infer.Final{}, test.delta), `"finish_reason":"`+test.want+`"`)
	}
}

func TestMessagesWithoutContent(t *testing.T) {
	end := infer.Delta{FinishReason: infer.FinishLength, Parsed: &infer.Parsed{}}
	require.Contains(t, body(parseTools(t, chatTool), &infer.Final{}, end), `"content":""`)
	require.Contains(t, body(parseTools(t, chatTool+`,"tool_choice":"required"`), &infer.Final{}, end), `"content":null`)
	require.Contains(t, body(parseTools(t, ""), &infer.Final{}, parsed(thought("a")), end), `"content":null`)
	hidden := parseTools(t, `"include_reasoning":false`)
	require.Contains(t, body(hidden, &infer.Final{}, parsed(thought("a"), content("b")), end), `"content":"b"`)
	require.NotContains(t, body(hidden, &infer.Final{}, parsed(thought("a")), end), `"reasoning":"`)
	hidden = parseTools(t, `"include_reasoning":false,"stream":true`)
	require.NotContains(t, stream(hidden, &infer.Final{}, parsed(thought("a")), end), `"reasoning":`)
}

// Log-probabilities are the delta's: they come once, whatever it is cut into.
func TestParsedLogprobs(t *testing.T) {
	d := parsed(thought("a"), content("b"))
	d.Logprobs, d.TokenIDs = []infer.TokenLogprobs{token(7, "ab")}, []int32{7}
	held := parsed()
	held.Logprobs, held.TokenIDs = []infer.TokenLogprobs{token(8, "<")}, []int32{8}
	got := stream(parseTools(t, `"stream":true,"logprobs":true,"return_token_ids":true`), &infer.Final{}, d, held)
	require.Equal(t, 2, strings.Count(got, `"logprobs":{"content":[`))
	require.Contains(t, got, `{"index":0,"delta":{"content":"b"},"logprobs":{"content":[{"token":"ab"`)
	require.Contains(t, got, `{"index":0,"delta":{},"logprobs":{"content":[{"token":"<"`)
	require.Equal(t, 1, strings.Count(got, `"token_ids":[8]`))
}

func FuzzTools(f *testing.F) {
	for _, r := range toolRefusals {
		f.Add([]byte(chat(r.fields)))
	}
	f.Add([]byte(chat(chatTool + `,"tool_choice":"required"`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := openai.ParseChat(body, toolProfile(), envelope())
		if err != nil {
			checkError(t, err)
			return
		}
		checkCall(t, call)
		if use := call.Request.Tools; use != nil {
			require.NotEmpty(t, use.Tools)
			require.True(t, json.Valid(call.Request.Chat.Tools))
		}
	})
}

func TestReasoningEffort(t *testing.T) {
	for fields, want := range map[string]string{
		``: ``, `"chat_template_kwargs":{"a":1}`: `{"a":1}`,
		`"reasoning_effort":"low"`:  `{"reasoning_effort":"low"}`,
		`"reasoning_effort":"none"`: `{"reasoning_effort":"none","enable_thinking":false}`,
		`"reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true}`: `{"enable_thinking":true,"reasoning_effort":"none"}`,
	} {
		require.Equal(t, want, string(parseTools(t, fields).Request.Chat.TemplateKwargs))
	}
	_, err := openai.ParseChat([]byte(chat(`"reasoning_effort":"huge"`)), toolProfile(), envelope())
	require.ErrorContains(t, err, `reasoning_effort: unknown: "huge"`)
}

func manyTools(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"f%d"}},`, i)
	}
	return b.String()
}
