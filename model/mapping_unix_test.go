//go:build unix

package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
)

// Opening a pipe that nobody writes to would wait for ever.
func TestPipesAreNotWaitedFor(t *testing.T) {
	for _, name := range []string{"config.json", "generation_config.json", "model-00002-of-00002.safetensors"} {
		t.Run(name, func(t *testing.T) {
			dir := modelkit.Small(1).Write(t, "F32", 2)
			modelkit.WriteFile(t, dir, name, nil)
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
			require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
			require.ErrorContains(t, loadError(t, dir, options(t)), name+" is not a regular file")
		})
	}
}
