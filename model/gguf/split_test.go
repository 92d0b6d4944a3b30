package gguf_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/model/gguf"
)

func TestPartNames(t *testing.T) {
	want := []string{"a-b-00001-of-00003.gguf", "a-b-00002-of-00003.gguf", "a-b-00003-of-00003.gguf"}
	for _, name := range want {
		require.Equal(t, want, gguf.PartNames(name))
	}
	require.Equal(t, []string{"x-00001-of-00001.GGUF"}, gguf.PartNames("x-00001-of-00001.GGUF"))
	for _, name := range []string{
		"a.gguf", "", "a-00000-of-00003.gguf", "a-00004-of-00003.gguf", "a-1-of-3.gguf", "a-00001-of-99999.gguf", "a-00001-of-00003.safetensors", "a-00001-of-00000.gguf",
	} {
		require.Nil(t, gguf.PartNames(name), name)
	}
}
