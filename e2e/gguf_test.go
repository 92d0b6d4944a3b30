//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
)

// asGGUF writes the embedded model as a GGUF file and returns its path.
func asGGUF(t *testing.T, dtype string) string {
	t.Helper()
	source, err := model.OpenDir(folder(t))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "understudy.gguf")
	require.NoError(t, os.WriteFile(path, modelkit.ConvertLlama(t, source, dtype).Bytes(t), 0o644))
	return path
}

// A GGUF file of the same weights answers as the folder does, whether it is named
// itself or lies alone in the folder that is.
func TestGGUFIsServed(t *testing.T) {
	ask := obj{"messages": user("What is the capital of France?"), "temperature": 0, "max_tokens": 32}
	want, _ := serve(t).chat(ask)
	for _, dtype := range []string{"BF16", "F16"} {
		path := asGGUF(t, dtype)
		for _, name := range []string{path, filepath.Dir(path)} {
			got, _ := serve(t, name).chat(ask)
			require.Equal(t, choice(want, 0)["message"], choice(got, 0)["message"], name)
			require.Equal(t, want["usage"], got["usage"])
		}
	}
}

// Quantised weights answer too, from a file and made at load.
func TestQuantisedWeightsAreServed(t *testing.T) {
	ask := obj{"messages": user("What is the capital of France?"), "temperature": 0, "max_tokens": 32}
	for _, flags := range [][]string{
		{asGGUF(t, "Q8_0")}, {asGGUF(t, "Q4_0")}, {asGGUF(t, "Q4_K")}, {asGGUF(t, "Q6_K")}, {folder(t), "--quantization", "q8_0"},
	} {
		got, _ := serve(t, flags...).chat(ask)
		require.Contains(t, choice(got, 0)["message"].(obj)["content"], "Paris", flags)
	}
}

func TestGGUFThatIsBroken(t *testing.T) {
	path := asGGUF(t, "BF16")
	require.NoError(t, os.Truncate(path, 1<<20))
	failsToStart(t, path, "understudy.gguf", "tensor", "it is truncated")
	require.NoError(t, os.Truncate(path, 1000))
	failsToStart(t, path, "understudy.gguf", "metadata key", "it is truncated")
}
