package gpu_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
)

// memory is a device that only allocates.
type memory struct {
	gpu.Device
	freed int
}

func (m *memory) Alloc(int64) (gpu.Ptr, error) { return 4096, nil }
func (m *memory) Free(gpu.Ptr) error           { m.freed++; return nil }

// carving also notes what is whose.
type carving struct {
	memory
	log []string
}

func (c *carving) Carve(p gpu.Ptr, n int64) error   { return c.note("+%d:%d", p, n) }
func (c *carving) Uncarve(p gpu.Ptr, n int64) error { return c.note("-%d:%d", p, n) }
func (c *carving) note(f string, a ...any) error {
	c.log = append(c.log, fmt.Sprintf(f, a...))
	return nil
}

func TestArenaHandsOutAlignedPartsAndNoMoreThanItHas(t *testing.T) {
	dev := &memory{}
	a, err := gpu.NewArena(dev, 1024)
	require.NoError(t, err)
	p, err := a.Alloc(1)
	require.NoError(t, err)
	require.EqualValues(t, 4096, p)
	mark := a.Used()
	p, err = a.Alloc(768)
	require.NoError(t, err)
	require.EqualValues(t, 4096+256, p)
	_, err = a.Alloc(1)
	require.ErrorIs(t, err, gpu.OutOfMemory)
	require.ErrorContains(t, err, "1 bytes asked for, 0 of 1024 left")
	require.NoError(t, a.Release(mark))
	_, err = a.Alloc(512)
	require.NoError(t, err)
	_, err = a.Alloc(-1)
	require.ErrorIs(t, err, gpu.InvalidValue)
	require.ErrorIs(t, a.Release(2000), gpu.InvalidValue)
	require.NoError(t, a.Free())
	require.NoError(t, a.Free())
	require.Equal(t, 1, dev.freed)
}

func TestArenaLeavesGapsWhereADeviceWatchesThem(t *testing.T) {
	dev := &carving{}
	a, err := gpu.NewArena(dev, gpu.Room(300, 2))
	require.NoError(t, err)
	for _, n := range []int64{200, 100} {
		_, err = a.Alloc(n)
		require.NoError(t, err)
	}
	used := a.Used()
	require.NoError(t, a.Release(512))
	require.Equal(t, []string{"-4096:1324", "+4096:200", "+4608:100", fmt.Sprintf("-4608:%d", used-512)}, dev.log)
}

func TestErrorsAreFoundByCode(t *testing.T) {
	cause := errors.New("kernel k, line 3")
	err := error(gpu.NewError("cuLaunchKernel", gpu.IllegalAddress, "lane 4"))
	require.EqualError(t, err, "gpu: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered): lane 4")
	err.(*gpu.Error).Cause = cause
	err = fmt.Errorf("step: %w", err)
	require.ErrorIs(t, err, gpu.IllegalAddress)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, gpu.OutOfMemory)
	var typed *gpu.Error
	require.ErrorAs(t, err, &typed)
	require.True(t, typed.Sticky())
	require.Equal(t, "CUDA error 12345", gpu.Code(12345).Error())
}

func TestWhichErrorsTakeTheContextAlong(t *testing.T) {
	for code, sticky := range map[gpu.Code]bool{
		gpu.OutOfMemory: false, gpu.InvalidPTX: false, gpu.LaunchOutOfResources: false, 711: false, gpu.CaptureUnsupported: false,
		gpu.IllegalAddress: true, gpu.LaunchFailed: true, gpu.ECCUncorrectable: true, gpu.MisalignedAddress: true, gpu.LaunchTimeout: true,
		gpu.NVLinkUncorrectable: true, gpu.Unknown: true,
	} {
		require.Equal(t, sticky, code.Sticky(), code.Name())
	}
}

func TestDriverErrorsSayWhatIsMissing(t *testing.T) {
	err := &gpu.OldDriverError{Library: "libcuda.so.1", Have: 10020, Need: 11080, Symbol: "cuGraphLaunch"}
	require.EqualError(t, err, "gpu: the driver libcuda.so.1 is too old: it speaks CUDA 10.2: it has no function cuGraphLaunch (at least CUDA 11.8 is needed)")
}

func TestEntriesReadsSignatures(t *testing.T) {
	got, err := gpu.Entries(".version 7.8\n.visible .entry scale(\n\t.param .u64 .ptr .global .align 4 scale_param_0,\n\t.param .f32 scale_param_1\n)\n.maxntid 256, 1, 1\n{\n ret; }\n.entry none()\n{ ret; }\n.entry bare\n{ ret; }")
	require.NoError(t, err)
	require.Equal(t, []gpu.Entry{
		{Name: "scale", Params: []gpu.Param{{Name: "scale_param_0", Type: "u64", Size: 8}, {Name: "scale_param_1", Type: "f32", Size: 4}}},
		{Name: "none"}, {Name: "bare"},
	}, got)
	for _, bad := range []string{".entry", ".entry k(", ".entry k(.param .u64)", ".entry k(.param .b8 p[16])", ".entry k(.param .pred p)"} {
		_, err := gpu.Entries(bad)
		require.Error(t, err, bad)
	}
}

func FuzzEntries(f *testing.F) {
	f.Add(".entry k(.param .u64 a, .param .f32 b) { ret; }")
	f.Fuzz(func(t *testing.T, ptx string) {
		all, err := gpu.Entries(ptx)
		if err == nil {
			for _, e := range all {
				require.NotEmpty(t, e.Name)
				require.LessOrEqual(t, len(e.Params), gpu.MaxParams)
			}
		}
	})
}
