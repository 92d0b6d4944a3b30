package testkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit"
	"github.com/troupe-llm/troupe/tokenizer"
)

func TestTokenizerIsOneTokenPerByte(t *testing.T) {
	tok := testkit.Tokenizer()
	require.Equal(t, testkit.NumTokens, tok.VocabSize())
	require.Equal(t, []int32{'a', 195, 169, testkit.EOS, 0}, tok.Encode("aé<|end|>\x00", tokenizer.EncodeOptions{}))
	require.Equal(t, "aé", tok.Decode([]int32{'a', 195, 169, testkit.EOS}, true))
	for b := range 256 {
		require.Equal(t, []byte{byte(b)}, tok.TokenBytes(int32(b)))
	}
}
