package actors_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/infer"
	"github.com/troupe-llm/troupe/internal/testkit"
)

func TestTokenizingIsBounded(t *testing.T) {
	e := newScripted(t, nil)
	ctx := context.Background()
	limit := e.Model().MaxListedTokens()
	fits, more := strings.Repeat("a", limit), strings.Repeat("a", 4*limit)

	result, err := e.Tokenize(ctx, &infer.TokenizeRequest{Text: &fits})
	require.NoError(t, err, "longer than the context, and legitimate")
	require.Len(t, result.TokenIDs, limit)
	_, err = e.Tokenize(ctx, &infer.TokenizeRequest{Text: &more})
	refused := requireError(t, err, infer.CodeInvalid, "prompt: at most 1048576 tokens are listed at once, got a text of 4194304 bytes")
	require.Equal(t, "prompt", refused.Param)
	_, err = e.Detokenize(ctx, make([]int32, limit+1))
	requireError(t, err, infer.CodeInvalid, "tokens: may have at most 1048576 entries, got 1048577")

	req := testkit.Completion(more, 4)
	req.TruncatePromptTokens = new(int)
	*req.TruncatePromptTokens = 8
	_, err = e.Generate(ctx, req)
	requireError(t, err, infer.CodeInvalid, "at most 1048576 tokens, got a text of 4194304 bytes")
	req.TruncateRight = true
	require.Nil(t, generate(t, e, req).final.Err, "what is kept is at the beginning")
}

func TestTokenizingEndsWithItsClient(t *testing.T) {
	e := newScripted(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	text := strings.Repeat("some words ", 1000)
	for name, call := range map[string]func() error{
		"tokenize": func() error {
			_, err := e.Tokenize(ctx, &infer.TokenizeRequest{Text: &text})
			return err
		},
		"detokenize": func() error {
			_, err := e.Detokenize(ctx, make([]int32, 10_000))
			return err
		},
	} {
		require.ErrorIs(t, call(), context.Canceled, name)
	}
}
