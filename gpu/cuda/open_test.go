package cuda_test

import (
	"errors"
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/cuda"
)

var libraries = flag.String("libraries", "", "a folder with the libraries of a driver, on a machine without a GPU")

// Where there is no driver, or no GPU, opening says so; nothing crashes. With
// -libraries the one there must be good but for the GPU.
func TestOpeningWithoutAGPUIsAnErrorThatSaysWhy(t *testing.T) {
	path := ""
	if *libraries != "" {
		path = filepath.Join(*libraries, "libcuda.so.1")
	}
	driver, err := cuda.Open(path)
	if path != "" {
		require.ErrorIs(t, err, gpu.NoDevice)
		return
	}
	var missing *gpu.MissingDriverError
	var old *gpu.OldDriverError
	var refused *gpu.Error
	known := errors.As(err, &missing) || errors.As(err, &old) || errors.As(err, &refused)
	require.True(t, known || driver.NumDevices() > 0, "%v", err)
}
