package chat_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/chat"
	"github.com/troupe-llm/troupe/infer"
)

type understudy struct {
	Template string
	Cases    []struct {
		Messages            []json.RawMessage
		Tools               json.RawMessage
		AddGenerationPrompt bool            `json:"add_generation_prompt"`
		ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs"`
		Rendered            string
	}
}

func loadUnderstudy(t testing.TB) understudy {
	raw, err := os.ReadFile("testdata/understudy.json")
	require.NoError(t, err)
	var u understudy
	require.NoError(t, json.Unmarshal(raw, &u))
	require.Greater(t, len(u.Cases), 12)
	return u
}

func TestUnderstudyGoldens(t *testing.T) {
	u := loadUnderstudy(t)
	tmpl, err := chat.Parse(u.Template, chat.Options{})
	require.NoError(t, err)
	for _, c := range u.Cases {
		got, err := tmpl.Render(chat.Input{Chat: &infer.ChatInput{
			Messages: c.Messages, Tools: c.Tools,
			AddGenerationPrompt: c.AddGenerationPrompt, TemplateKwargs: c.ChatTemplateKwargs,
		}, ControlTokens: []string{"<|endoftext|>", "<|im_end|>", "<|im_start|>"}})
		require.NoError(t, err)
		require.Equal(t, c.Rendered, got.Text)
		require.Empty(t, got.Literal)
	}
}
