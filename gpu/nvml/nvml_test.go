//go:build linux && !nocuda && (amd64 || arm64)

package nvml_test

import (
	"errors"
	"flag"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/nvml"
)

var libraries = flag.String("libraries", "", "a folder with the libraries of a driver, on a machine without a GPU")

// build compiles testdata/stub.c and returns the library.
func build(t *testing.T, defines ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "libnvidia-ml-stub.so")
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", out, "testdata/stub.c"}, defines...)
	log, err := exec.Command("gcc", args...).CombinedOutput()
	require.NoError(t, err, string(log))
	return out
}

func is(v float64) nvml.Value { return nvml.Value{Known: true, V: v} }

func TestAGPUIsRead(t *testing.T) {
	path := build(t)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	require.NoError(t, err)
	var lose func()
	var opened func() int32
	purego.RegisterLibFunc(&lose, handle, "stub_lose")
	purego.RegisterLibFunc(&opened, handle, "stub_open")
	r, err := nvml.Open(path)
	require.NoError(t, err)
	require.Equal(t, 2, r.NumDevices())
	require.Equal(t, "GPU-500", r.UUID(0))

	got, err := r.Read(0)
	require.NoError(t, err)
	require.InDelta(t, 5e9+1.5, got.Energy.V, 1e-3)
	got.Energy = nvml.Value{}
	require.Equal(t, nvml.Reading{
		MemoryUsed: is(30), MemoryTotal: is(80), GPUUtilization: is(0.75), MemoryUtilization: is(0.4), Power: is(123.456),
		PowerLimit: is(700), Temperature: is(61), ECCCorrected: is(7), ECCNotFixed: is(1), ClockSM: is(1.98e9), ClockMemory: is(3.201e9),
	}, got)

	got, err = r.Read(1)
	require.NoError(t, err, "what it does not support is no error")
	require.Equal(t, nvml.Reading{MemoryUsed: is(30), MemoryTotal: is(80)}, got)

	lose()
	_, err = r.Read(0)
	var e *nvml.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Lost())
	require.EqualError(t, err, "nvml: nvmlDeviceGetMemoryInfo: NVML_ERROR_GPU_IS_LOST")
	require.NoError(t, r.Close())
	require.Zero(t, opened())
}

func TestALibraryWithoutASensorServesWithoutIt(t *testing.T) {
	r, err := nvml.Open(build(t, "-DOLD"))
	require.NoError(t, err)
	got, err := r.Read(0)
	require.NoError(t, err)
	require.False(t, got.ClockSM.Known)
	require.True(t, got.ECCCorrected.Known)
}

func TestALibraryThatCannotStartSaysWhy(t *testing.T) {
	_, err := nvml.Open(build(t, "-DINIT=18"))
	require.EqualError(t, err, "nvml: nvmlInit_v2: NVML_ERROR_LIB_RM_VERSION_MISMATCH")
	var missing *gpu.MissingDriverError
	_, err = nvml.Open("libnvidia-ml-that-is-not-there.so")
	require.ErrorAs(t, err, &missing)
	_, err = nvml.Open("libc.so.6")
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "no function nvmlInit_v2")
}

// With -libraries there must be a good one, that finds no driver in the kernel.
func TestOpeningWithoutAGPUIsAnErrorThatSaysWhy(t *testing.T) {
	path := ""
	if *libraries != "" {
		path = filepath.Join(*libraries, nvml.Library)
	}
	r, err := nvml.Open(path)
	var refused *nvml.Error
	if path != "" {
		require.ErrorAs(t, err, &refused)
		require.True(t, refused.NoDriver())
		return
	}
	var missing *gpu.MissingDriverError
	require.True(t, errors.As(err, &missing) || errors.As(err, &refused) || r.NumDevices() > 0, "%v", err)
}
