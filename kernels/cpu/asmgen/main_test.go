package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommittedFilesAreCurrent fails when the generator was changed and
// go generate was not run.
func TestCommittedFilesAreCurrent(t *testing.T) {
	for name, want := range generate() {
		got, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s is not what asmgen writes: run go generate in kernels/cpu", name)
	}
}
