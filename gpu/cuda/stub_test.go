//go:build linux && !nocuda && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/cuda"
)

// plain is the stub as it is, built once.
var plain = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "stub")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "stub.so")
	if log, err := compile(out); err != nil {
		return nil, fmt.Errorf("%w: %s", err, log)
	}
	return os.ReadFile(out)
})

func compile(out string, defines ...string) ([]byte, error) {
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", out, "testdata/stub.c"}, defines...)
	return exec.Command("gcc", args...).CombinedOutput()
}

// buildStub compiles testdata/stub.c and returns the library.
func buildStub(t *testing.T, defines ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "libcuda-stub.so")
	log, err := compile(out, defines...)
	require.NoError(t, err, string(log))
	return out
}

// stub is the library with what tests ask of it.
type stub struct {
	driver gpu.Driver
	dev    gpu.Device
	notes  func() string
	clear  func()
	fail   func(name string, code int32)
}

// openStub returns the library and its first device, bound.
func openStub(t *testing.T) *stub {
	t.Helper()
	library, err := plain()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "libcuda-stub.so") // a copy: its state is its own
	require.NoError(t, os.WriteFile(path, library, 0o700))
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	require.NoError(t, err)
	s := &stub{}
	purego.RegisterLibFunc(&s.notes, handle, "stub_notes")
	purego.RegisterLibFunc(&s.clear, handle, "stub_clear")
	purego.RegisterLibFunc(&s.fail, handle, "stub_fail")
	s.driver, err = cuda.Open(path)
	require.NoError(t, err)
	s.dev, err = s.driver.Open(0)
	require.NoError(t, err)
	require.NoError(t, s.dev.Bind())
	t.Cleanup(s.dev.Unbind)
	s.clear()
	return s
}

// take returns what was called since the last time.
func (s *stub) take() []string {
	defer s.clear()
	return strings.Split(strings.TrimSpace(s.notes()), "\n")
}

const source = ".version 7.8\n.target sm_80\n.visible .entry scale(.param .u64 p, .param .u32 n, .param .f32 f)\n{ ret; }"

func TestADriverThatIsNotThereIsMissing(t *testing.T) {
	_, err := cuda.Open("libcuda-that-is-not-there.so")
	var missing *gpu.MissingDriverError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "libcuda-that-is-not-there.so", missing.Library)
	_, err = cuda.Open("libc.so.6") // a library, but not of a driver
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "no function cuInit")
}

func TestADriverThatIsTooOldSaysWhatItLacks(t *testing.T) {
	var old *gpu.OldDriverError
	_, err := cuda.Open(buildStub(t, "-DVERSION=11040"))
	require.ErrorAs(t, err, &old)
	require.ErrorContains(t, err, "it speaks CUDA 11.4 (at least CUDA 11.8 is needed)")
	_, err = cuda.Open(buildStub(t, "-DVERSION=11020", "-DOLD"))
	require.ErrorAs(t, err, &old)
	require.Equal(t, "cuGraphInstantiateWithFlags", old.Symbol)
}

func TestNoDeviceIsNoDriverEither(t *testing.T) {
	_, err := cuda.Open(buildStub(t, "-DDEVICES=0"))
	require.ErrorIs(t, err, gpu.NoDevice)
}

func TestDevicesAreDescribed(t *testing.T) {
	s := openStub(t)
	require.Equal(t, 2, s.driver.NumDevices())
	require.Equal(t, 12040, s.driver.Version())
	require.Equal(t, gpu.Properties{
		Index: 0, Name: "Stub 0", UUID: "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", PCIBusID: "0000:28:00.0", Major: 75, Minor: 76,
		TotalMemory: 80 << 30, NumSMs: 16, WarpSize: 10, MaxThreads: 1, SharedPerBlock: 8, SharedPerBlockMax: 97, L2Bytes: 38, MemoryBusBits: 37,
	}, s.dev.Properties())
	_, err := s.driver.Open(2)
	require.ErrorIs(t, err, gpu.InvalidDevice)
	again, err := s.driver.Open(0)
	require.NoError(t, err)
	require.Equal(t, s.dev, again)
	require.NoError(t, again.Close())
	require.NotContains(t, s.take(), "cuDevicePrimaryCtxRelease_v2", "somebody uses it still")
	require.NoError(t, s.dev.Close())
	require.Equal(t, []string{"cuDevicePrimaryCtxRelease_v2"}, s.take())
	require.NoError(t, s.dev.Close())
}

func TestMemoryGoesThroughTheDriver(t *testing.T) {
	s := openStub(t)
	free, total, err := s.dev.MemInfo()
	require.NoError(t, err)
	require.Equal(t, []int64{70 << 30, 80 << 30}, []int64{free, total})
	p, err := s.dev.Alloc(64)
	require.NoError(t, err)
	_, err = s.dev.Alloc(2 << 20)
	require.ErrorIs(t, err, gpu.OutOfMemory)
	require.ErrorContains(t, err, "gpu: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory): 2097152 bytes asked for")
	_, err = s.dev.Alloc(0)
	require.ErrorIs(t, err, gpu.InvalidValue)
	pinned, err := s.dev.AllocHost(64)
	require.NoError(t, err)
	require.Len(t, pinned, 64)
	copy(pinned, "through pinned memory")

	stream, err := s.dev.NewStream()
	require.NoError(t, err)
	require.NoError(t, stream.CopyToDevice(p, pinned[:32]))
	require.NoError(t, stream.CopyOnDevice(p+32, p, 32))
	require.NoError(t, stream.Memset(p+40, '-', 1))
	clear(pinned)
	require.NoError(t, stream.CopyToHost(pinned[:16], p+32))
	require.NoError(t, stream.Sync())
	require.Equal(t, "through -inned m", string(pinned[:16]))
	require.ErrorIs(t, stream.CopyToDevice(p, make([]byte, 8)), gpu.InvalidValue, "the collector could take it away")
	require.NoError(t, s.dev.Upload(p, []byte("at once")))
	back := make([]byte, 7)
	require.NoError(t, s.dev.Download(back, p))
	require.Equal(t, "at once", string(back))

	require.NoError(t, s.dev.FreeHost(pinned))
	require.ErrorIs(t, s.dev.FreeHost(pinned), gpu.InvalidValue)
	require.NoError(t, s.dev.Free(p))
	require.NoError(t, stream.Close())
	require.NoError(t, stream.Close())
}

func TestAModuleHasTheCompilersLog(t *testing.T) {
	s := openStub(t)
	m, err := s.dev.LoadModule("m", source)
	require.NoError(t, err)
	require.Equal(t, "compiled 102 bytes", m.Log())
	_, err = s.dev.LoadModule("m", source+"bad")
	require.ErrorIs(t, err, gpu.InvalidPTX)
	require.ErrorContains(t, err, "module m: ptxas fatal: bad")
	_, err = s.dev.LoadModule("m", ".entry")
	require.ErrorIs(t, err, gpu.InvalidPTX)

	f, err := m.Func("scale")
	require.NoError(t, err)
	require.Equal(t, gpu.FuncInfo{Name: "scale", MaxThreads: 1, StaticShared: 11, Local: 31, Registers: 41, Params: []gpu.Param{
		{Name: "p", Type: "u64", Size: 8}, {Name: "n", Type: "u32", Size: 4}, {Name: "f", Type: "f32", Size: 4}}}, f.Info())
	_, err = m.Func("other")
	require.ErrorIs(t, err, gpu.NotFound)
	s.clear()
	require.NoError(t, f.SetMaxShared(100000))
	require.Equal(t, []string{"cuFuncSetAttribute", " 8=100000"}, s.take())
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	require.Equal(t, []string{"cuModuleUnload"}, s.take())
}

func (s *stub) launchable(t *testing.T) (gpu.Stream, gpu.Func) {
	t.Helper()
	m, err := s.dev.LoadModule("m", source)
	require.NoError(t, err)
	f, err := m.Func("scale")
	require.NoError(t, err)
	stream, err := s.dev.NewStream()
	require.NoError(t, err)
	s.clear()
	return stream, f
}

func TestALaunchPassesItsParameters(t *testing.T) {
	s := openStub(t)
	stream, f := s.launchable(t)
	c := gpu.LaunchConfig{Grid: [3]int{7, 2, 1}, Block: [3]int{128, 1, 2}, Shared: 64}
	require.NoError(t, stream.Launch(f, c, []uint64{0xabcdef0123, uint64(uint32(0xfffffffb)), uint64(math.Float32bits(2.5))}))
	require.Equal(t, []string{"cuLaunchKernel", " 7,2,1 x 128,1,2, 64 bytes: abcdef0123 -5 2.5"}, s.take())
	require.ErrorIs(t, stream.Launch(f, c, []uint64{1}), gpu.InvalidValue)
	require.ErrorIs(t, stream.Launch(f, gpu.LaunchConfig{}, []uint64{1, 2, 3}), gpu.InvalidValue)
	require.ErrorIs(t, stream.Launch(nil, c, []uint64{1}), gpu.InvalidHandle)

	params := []uint64{1, 2, 3}
	var err error
	allocated := testing.AllocsPerRun(100, func() { err = stream.Launch(f, c, params) })
	require.NoError(t, err)
	require.LessOrEqual(t, allocated, 1.0, "what there is is purego's")
}

func TestEventsAndGraphs(t *testing.T) {
	s := openStub(t)
	stream, f := s.launchable(t)
	require.NoError(t, stream.BeginCapture())
	require.NoError(t, stream.Launch(f, gpu.LaunchConfig{Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}, []uint64{1, 2, 3}))
	require.ErrorIs(t, stream.Sync(), gpu.CaptureUnsupported)
	g, err := stream.EndCapture()
	require.NoError(t, err)
	require.Equal(t, 7, g.NumNodes())
	require.NoError(t, stream.LaunchGraph(g))
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.ErrorIs(t, stream.LaunchGraph(g), gpu.InvalidHandle)

	e, err := s.dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, stream.Record(e))
	require.NoError(t, stream.WaitEvent(e))
	waited := make(chan error)
	go func() { waited <- e.Wait() }() // on a thread that has no context yet
	require.NoError(t, <-waited)
	done, err := e.Done()
	require.NoError(t, err)
	require.True(t, done)
	s.fail("cuEventQuery", int32(gpu.NotReady))
	done, err = e.Done()
	require.NoError(t, err)
	require.False(t, done)
	ms, err := e.Since(e)
	require.NoError(t, err)
	require.Equal(t, float32(1.5), ms)
	require.NoError(t, e.Close())
	require.ErrorIs(t, stream.Record(e), gpu.InvalidHandle)
}

func TestAResetVoidsWhatWasMadeBefore(t *testing.T) {
	s := openStub(t)
	stream, f := s.launchable(t)
	e, err := s.dev.NewEvent()
	require.NoError(t, err)
	s.fail("cuLaunchKernel", int32(gpu.IllegalAddress))
	c := gpu.LaunchConfig{Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}
	err = stream.Launch(f, c, []uint64{1, 2, 3})
	var typed *gpu.Error
	require.ErrorAs(t, err, &typed)
	require.True(t, typed.Sticky())
	require.Equal(t, "kernel scale", typed.Detail)

	require.NoError(t, s.dev.Reset())
	for _, err := range []error{
		stream.Launch(f, c, []uint64{1, 2, 3}), stream.Sync(), stream.Memset(1, 0, 1), stream.BeginCapture(), e.Wait(), f.SetMaxShared(1),
	} {
		require.ErrorIs(t, err, gpu.ContextDestroyed)
	}
	require.NoError(t, stream.Close())
	require.NoError(t, e.Close())
	stream, f = s.launchable(t)
	require.NoError(t, stream.Launch(f, c, []uint64{1, 2, 3}))
}

func TestErrorsThatAreNotInOurTableHaveTheDriversWords(t *testing.T) {
	s := openStub(t)
	s.fail("cuMemGetInfo_v2", 304)
	_, _, err := s.dev.MemInfo()
	require.EqualError(t, err, "gpu: cuMemGetInfo_v2: CUDA_ERROR_OPERATING_SYSTEM (OS call failed or operation not supported on this OS)")
	s.fail("cuMemGetInfo_v2", 31337)
	_, _, err = s.dev.MemInfo()
	require.EqualError(t, err, "gpu: cuMemGetInfo_v2: CUDA error 31337")
}
