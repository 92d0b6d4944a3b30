//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"
)

// countrySchema is the form that the Go client asks for.
var countrySchema = obj{
	"type": "object", "properties": obj{"country": obj{"enum": []string{"Brazil", "Peru"}}, "known": obj{"type": "boolean"}},
	"required": []string{"country", "known"}, "additionalProperties": false,
}

func requireCountry(t *testing.T, text string) {
	t.Helper()
	var answer struct {
		Country string
		Known   *bool
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
	require.Contains(t, []string{"Brazil", "Peru"}, answer.Country)
	require.NotNil(t, answer.Known, text)
}

// TestGoClientAsksForAForm: a JSON schema on chats and responses, whole and streamed.
func TestGoClientAsksForAForm(t *testing.T) {
	s := serve(t)
	c := goClient(s, "unused")
	const question = "Give the capital of Brazil as JSON."
	chat := openai.ChatCompletionNewParams{
		Model: "understudy", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}, Temperature: openai.Float(0),
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: countrySchema, Strict: openai.Bool(true)},
		}},
	}
	whole, err := c.Chat.Completions.New(t.Context(), chat)
	require.NoError(t, err)
	requireCountry(t, whole.Choices[0].Message.Content)
	stream, acc := c.Chat.Completions.NewStreaming(t.Context(), chat), openai.ChatCompletionAccumulator{}
	for stream.Next() {
		require.True(t, acc.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Equal(t, whole.Choices[0].Message.Content, acc.Choices[0].Message.Content)

	params := ask(question)
	params.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("answer", countrySchema)
	r, err := c.Responses.New(t.Context(), params)
	require.NoError(t, err)
	requireCountry(t, r.OutputText())
	_, text, last := collect(t, c, params)
	require.Equal(t, r.OutputText(), text)
	require.Equal(t, r.OutputText(), last.OutputText())
}

// TestGoClientReadsThoughts of chats, which are a field that OpenAI does not know.
func TestGoClientReadsThoughts(t *testing.T) {
	s := serve(t, "--reasoning-parser", "glm45")
	c, thinking := goClient(s, "unused"), option.WithJSONSet("chat_template_kwargs", obj{"enable_thinking": true})
	params := openai.ChatCompletionNewParams{
		Model: "understudy", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is 58 + 67?")}, Temperature: openai.Float(0),
	}
	whole, err := c.Chat.Completions.New(t.Context(), params, thinking)
	require.NoError(t, err)
	require.Contains(t, whole.Choices[0].Message.Content, "125")
	require.Positive(t, whole.Usage.CompletionTokensDetails.ReasoningTokens)
	read := func(raw string) (thoughts string) {
		if raw != "" {
			require.NoError(t, json.Unmarshal([]byte(raw), &thoughts), raw)
		}
		return thoughts
	}
	thoughts := read(whole.Choices[0].Message.JSON.ExtraFields["reasoning"].Raw())
	require.Contains(t, thoughts, "carry")
	stream := c.Chat.Completions.NewStreaming(t.Context(), params, thinking)
	var pieces, text strings.Builder
	for stream.Next() {
		delta := stream.Current().Choices[0].Delta
		pieces.WriteString(read(delta.JSON.ExtraFields["reasoning"].Raw()))
		text.WriteString(delta.Content)
	}
	require.NoError(t, stream.Err())
	require.Equal(t, thoughts, pieces.String())
	require.Equal(t, whole.Choices[0].Message.Content, text.String())
}

// TestGoClientThroughAToolServer: several turns, whole and streamed, and one more that
// goes on from them.
func TestGoClientThroughAToolServer(t *testing.T) {
	s := withServerTools(t, serveTools(t, nil), "--enable-response-store")
	c := goClient(s, "unused")
	tool := responses.ToolParamOfMcp("almanac")
	tool.OfMcp.AllowedTools.OfMcpAllowedTools = []string{"get_weather"}
	tool.OfMcp.RequireApproval.OfMcpToolApprovalSetting = openai.String("never")
	params := ask("What is the weather in Lisbon?")
	params.Tools = []responses.ToolUnionParam{tool}
	whole, err := c.Responses.New(t.Context(), params)
	require.NoError(t, err)
	requireCalled := func(r responses.Response, city string) {
		t.Helper()
		require.Len(t, r.Output, 3)
		require.Len(t, r.Output[0].AsMcpListTools().Tools, 1)
		call := r.Output[1].AsMcpCall()
		require.JSONEq(t, `{"city":"`+city+`"}`, call.Arguments)
		require.Equal(t, sunny, call.Output)
		require.NotEmpty(t, r.OutputText())
	}
	requireCalled(*whole, "Lisbon")
	require.Contains(t, whole.OutputText(), "21")
	types, _, last := collect(t, c, params)
	require.Contains(t, types, "mcp_call_arguments.done")
	require.Contains(t, types, "mcp_call.completed")
	requireCalled(last, "Lisbon")
	require.Equal(t, whole.OutputText(), last.OutputText())

	next := ask("What is the weather in Rome?")
	next.Tools, next.PreviousResponseID = params.Tools, openai.String(whole.ID)
	next.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	second, err := c.Responses.New(t.Context(), next)
	require.NoError(t, err)
	requireCalled(*second, "Rome")
}
