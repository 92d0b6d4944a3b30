//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
)

// TestNpmClients runs the npm SDKs' tests of e2e/clients; `make e2e` installs them.
func TestNpmClients(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics", "--enable-auto-tool-choice", "--reasoning-parser", "glm45")
	cmd := exec.Command("npm", "test", "--silent")
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "TROUPE_URL="+s.URL)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "# fail 0")
}

func TestGoClient(t *testing.T) {
	s := serve(t, "--enable-per-request-metrics")
	c := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
	params := openai.ChatCompletionNewParams{
		Model:         "understudy",
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the capital of France?")},
		Temperature:   openai.Float(0),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{},
	}
	ctx := context.Background()
	whole, err := c.Chat.Completions.New(ctx, params)
	require.NoError(t, err)
	require.Contains(t, whole.Choices[0].Message.Content, "Paris")
	requireRawMetrics(t, whole.JSON.ExtraFields["metrics"].Raw())

	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	acc := openai.ChatCompletionAccumulator{}
	var raw string
	for stream.Next() {
		chunk := stream.Current()
		require.True(t, acc.AddChunk(chunk))
		if f, ok := chunk.JSON.ExtraFields["metrics"]; ok {
			require.Empty(t, raw, "metrics came twice")
			require.Empty(t, chunk.Choices)
			raw = f.Raw()
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, whole.Choices[0].Message.Content, acc.Choices[0].Message.Content)
	require.Equal(t, whole.Usage.CompletionTokens, acc.Usage.CompletionTokens)
	requireRawMetrics(t, raw)

	_, err = c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "nope", Messages: params.Messages})
	var apiErr *openai.Error
	require.ErrorAs(t, err, &apiErr)
	require.Equal(t, 404, apiErr.StatusCode)

	text, err := c.Completions.New(ctx, openai.CompletionNewParams{Model: "understudy",
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("The capital of France is")}, MaxTokens: openai.Int(4), Temperature: openai.Float(0)})
	require.NoError(t, err)
	require.NotEmpty(t, text.Choices[0].Text)
}

func requireRawMetrics(t *testing.T, raw string) {
	t.Helper()
	var m map[string]*float64
	require.NoError(t, json.Unmarshal([]byte(raw), &m), "%q", raw)
	for _, f := range metricFields {
		require.NotNil(t, m[f], f)
	}
}
