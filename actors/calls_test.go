package actors_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/actors"
	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

// chatDevice answers a prompt that ends in "?" with a text.
func chatDevice(answer string) *testkit.Device {
	return testkit.NewDevice(testkit.DeviceOptions{Next: func(history []int32, _ *infer.SamplingParams) int32 {
		for i := len(history) - 1; i >= 0; i-- {
			if n := len(history) - 1 - i; history[i] == '?' && n < len(answer) {
				return int32(answer[n])
			}
		}
		return testkit.EOS
	}})
}

func chatConfig(t *testing.T) func(*actors.Config) {
	t.Helper()
	template, err := chat.Parse("{{ messages[0].content }}?", chat.Options{})
	require.NoError(t, err)
	return func(c *actors.Config) { c.Template, c.ToolCallParser, c.ReasoningParser = template, "hermes", "glm45" }
}

func chatRequest(tools *infer.ToolUse) *infer.Request {
	req := testkit.Completion("", 100)
	req.Prompts, req.Tools = nil, tools
	req.Chat = &infer.ChatInput{Messages: []json.RawMessage{json.RawMessage(`{"role":"user","content":"hi"}`)}, AddGenerationPrompt: true}
	return req
}

// pieces reads a stream and returns the kinds of its pieces, and their text by kind.
func pieces(t *testing.T, e infer.Generator, req *infer.Request) (kinds []infer.PieceKind, texts map[infer.PieceKind]string, f *infer.Final) {
	t.Helper()
	s, err := e.Generate(context.Background(), req)
	require.NoError(t, err)
	texts = map[infer.PieceKind]string{}
	for range s.Ready() {
		for _, event := range s.Drain(nil) {
			if event.Final != nil {
				return kinds, texts, event.Final
			}
			require.NotNil(t, event.Delta.Parsed)
			for _, p := range event.Delta.Parsed.Pieces {
				if len(kinds) == 0 || kinds[len(kinds)-1] != p.Kind {
					kinds = append(kinds, p.Kind)
				}
				texts[p.Kind] += p.Text + p.Name
			}
		}
	}
	return nil, nil, nil
}

func TestThoughtsAndCallsOfAChat(t *testing.T) {
	e := startEngine(t, chatDevice(`<think>hm</think><tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>`), chatConfig(t))
	kinds, texts, final := pieces(t, e, chatRequest(&infer.ToolUse{Tools: []infer.Tool{{Name: "f"}}}))
	require.Equal(t, []infer.PieceKind{infer.PieceReasoning, infer.PieceCall, infer.PieceArguments, infer.PieceCallEnd}, kinds)
	require.Equal(t, map[infer.PieceKind]string{infer.PieceReasoning: "hm", infer.PieceCall: "f", infer.PieceArguments: `{"a": 1}`, infer.PieceCallEnd: ""}, texts)
	require.Equal(t, 2, final.Usage.NumReasoningTokens)

	kinds, texts, _ = pieces(t, e, chatRequest(nil))
	require.Equal(t, []infer.PieceKind{infer.PieceReasoning, infer.PieceContent}, kinds)
	require.Contains(t, texts[infer.PieceContent], "<tool_call>", "calls are looked for only if there are tools")
}

func TestPlainTextIsNotTakenApart(t *testing.T) {
	e := newScripted(t, func(c *actors.Config) { c.ReasoningParser, c.ToolCallParser = "glm45", "hermes" })
	s, err := e.Generate(context.Background(), testkit.Completion("hello", 4))
	require.NoError(t, err)
	for range s.Ready() {
		for _, event := range s.Drain(nil) {
			if event.Final != nil {
				return
			}
			require.Nil(t, event.Delta.Parsed)
		}
	}
}

func TestForcedCallsThatCannotBe(t *testing.T) {
	e := startEngine(t, chatDevice("x"), chatConfig(t))
	tool := func(name, schema string) *infer.ToolUse {
		return &infer.ToolUse{Forced: true, Tools: []infer.Tool{{Name: name, Parameters: json.RawMessage(schema), Param: "tools[0].function.parameters"}}}
	}
	for _, tc := range []struct {
		use         *infer.ToolUse
		param, part string
	}{
		{tool("f", `{"type":"object","$dynamicRef":"#x"}`), "tools[0].function.parameters", "$dynamicRef"},
		{tool("f", `{"type":"object","properties":{"a":{"type":"string","enum":[]}},"required":["a"]}`), "tools[0].function.parameters", "no value"},
		{&infer.ToolUse{Forced: true, Name: "g", Tools: tool("f", "{}").Tools}, "tool_choice", "not among the tools"},
	} {
		_, err := e.Generate(context.Background(), chatRequest(tc.use))
		require.Equal(t, tc.param, requireError(t, err, infer.CodeInvalid, tc.part).Param)
	}
	for _, schema := range []string{`{}`, ` { } `, `{"type":"object"}`, ``, `{"type":"object","properties":{}}`} {
		s, err := e.Generate(context.Background(), chatRequest(tool("f", schema)))
		require.NoError(t, err, schema)
		_, err = read(s)
		require.NoError(t, err)
	}
}
