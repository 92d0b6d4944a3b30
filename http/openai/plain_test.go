package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/troupe-llm/troupe/infer"
)

// Chunks from prepared parts are those of the other choices, which are written
// field by field.
func TestPlainChunksOfCompletions(t *testing.T) {
	call := parseCompletion(t, completion(`"prompt":["a","b"],"stream":true`))
	const text = " é\n\"\x80"
	got := stream(call, &infer.Final{},
		infer.Delta{Text: text, NumOutputTokens: 1}, infer.Delta{Index: 1, Text: text, NumOutputTokens: 1},
		infer.Delta{NumOutputTokens: 2}, // nothing to say
		infer.Delta{NumOutputTokens: 3, FinishReason: infer.FinishStop})
	rest := `,"text":" é\n\"` + "\uFFFD" + `","logprobs":null,"finish_reason":null}]}`
	require.Equal(t, lines(
		textHead+`{"index":0`+rest, textHead+`{"index":1`+rest,
		textHead+`{"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":null}]}`, `data: [DONE]`), got)
}
