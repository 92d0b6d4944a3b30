package tokenizer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/tokenizer"
)

func TestEncodingStopsWhenNobodyWantsIt(t *testing.T) {
	tok := understudy(t)
	text := strings.Repeat("one two three ", 10_000)
	done := make(chan struct{})
	whole := tok.Encode(text, tokenizer.EncodeOptions{Done: done})
	require.Equal(t, tok.Encode(text, tokenizer.EncodeOptions{}), whole)
	close(done)
	require.Less(t, len(tok.Encode(text, tokenizer.EncodeOptions{Done: done})), len(whole)/4)
}
