package ptxsim_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

// faults are kernels that are wrong, what they do wrong and where: a part of the
// instruction, and of the explanation.
var faults = []struct {
	name            string
	blocks, threads int
	params          func(r *rig) []uint64
	kind            ptxsim.Kind
	code            gpu.Code
	inst, detail    string
}{
	{"reverse_race", 1, 128, inOut, ptxsim.RaceInBlock, gpu.LaunchFailed, ".shared.f32", "no barrier between"},
	{"reverse_twice_race", 1, 128, inOut, ptxsim.RaceInBlock, gpu.LaunchFailed, ".shared.f32", "no barrier between"},
	{"pass_on_race", 1, 64, func(r *rig) []uint64 { return []uint64{uint64(r.room(64))} },
		ptxsim.RaceInBlock, gpu.LaunchFailed, "shared", "no barrier between"},
	{"swap_race", 1, 128, inOut, ptxsim.RaceInBlock, gpu.LaunchFailed, "ld.shared.f32", "no barrier between"},
	{"fill_beyond", 8, 128, func(r *rig) []uint64 { return []uint64{uint64(r.room(1000)), 1000} },
		ptxsim.OutOfBounds, gpu.IllegalAddress, "st.global.u32", "4 bytes at offset 4000 of the allocation of 4000 bytes"},
	{"shared_beyond", 1, 128, func(r *rig) []uint64 { return []uint64{uint64(r.room(128))} },
		ptxsim.OutOfBounds, gpu.IllegalAddress, "st.shared.u32", "of the 256 bytes of shared memory"},
	{"reverse_ok", 1, 128, func(r *rig) []uint64 { return []uint64{uint64(r.room(128)), uint64(r.room(128))} },
		ptxsim.Unwritten, gpu.LaunchFailed, "ld.global.f32", "byte 0 of 4 bytes at offset"},
	{"reverse_ok", 1, 128, func(r *rig) []uint64 { return []uint64{uint64(r.room(128)), freed(r)} },
		ptxsim.UseAfterFree, gpu.IllegalAddress, "ld.global.f32", "of the allocation of 512 bytes"},
	{"reverse_ok", 1, 128, func(r *rig) []uint64 { return []uint64{uint64(r.room(128)), 0x1234} },
		ptxsim.OutOfBounds, gpu.IllegalAddress, "ld.global.f32", "in no allocation"},
	{"reverse_ok", 1, 64, func(r *rig) []uint64 { return []uint64{uint64(r.room(128)), uint64(r.floats(128, index)) + 2} },
		ptxsim.Misaligned, gpu.MisalignedAddress, "ld.global.f32", "4 bytes at address"},
	{"barrier_in_branch", 1, 64, func(r *rig) []uint64 { return []uint64{uint64(r.room(64)), 16} },
		ptxsim.DivergedBarrier, gpu.LaunchFailed, "bar.sync 0", "lane 16"},
	{"barrier_in_branch", 1, 64, func(r *rig) []uint64 { return []uint64{uint64(r.room(64)), 32} },
		ptxsim.DivergedBarrier, gpu.LaunchFailed, "bar.sync 0", "waits there, warp"},
	{"barrier_by_guard", 1, 32, func(r *rig) []uint64 { return []uint64{uint64(r.room(32))} },
		ptxsim.DivergedBarrier, gpu.LaunchFailed, "bar.sync 0", "only lanes 0x7f of 0xffffffff"},
	{"neighbour_race", 4, 64, func(r *rig) []uint64 { return []uint64{uint64(r.room(256))} },
		ptxsim.RaceOfBlocks, gpu.LaunchFailed, "st.global.u32", "in the same launch"},
	{"read_other_block", 2, 64, func(r *rig) []uint64 { return []uint64{uint64(r.floats(64, index)), uint64(r.room(64))} },
		ptxsim.RaceOfBlocks, gpu.LaunchFailed, ".global.", "in the same launch"},
	{"exchange_race", 1, 64, inOut, ptxsim.RaceInBlock, gpu.LaunchFailed, "global", "no barrier between"},
	{"halves_race", 2, 64, func(r *rig) []uint64 { return []uint64{uint64(r.room(128))} },
		ptxsim.RaceOfBlocks, gpu.LaunchFailed, "st.global.u16", "in the same launch"},
	{"count_and_read", 2, 64, func(r *rig) []uint64 { return []uint64{uint64(r.words(0)), uint64(r.room(128))} },
		ptxsim.RaceInBlock, gpu.LaunchFailed, "ld.volatile.global.u32", "has written"},
	{"tiles_weak_wait", 1, 32, func(r *rig) []uint64 { return []uint64{uint64(r.room(128)), uint64(r.floats(256, index))} },
		ptxsim.Pending, gpu.LaunchFailed, "ld.shared", "of the 1024 bytes of shared memory"},
	{"tiles_early_copy", 1, 128, inOut, ptxsim.RaceInBlock, gpu.LaunchFailed, "cp.async.cg.shared.global", "no barrier between"},
	{"forever", 1, 32, func(r *rig) []uint64 { return []uint64{uint64(r.words(0))} },
		ptxsim.TooLong, gpu.LaunchTimeout, "bra", "branches"},
}

func index(i int) float32 { return float32(i) }

func inOut(r *rig) []uint64 {
	return []uint64{uint64(r.floats(128, index)), uint64(r.floats(128, index))}
}

func freed(r *rig) uint64 {
	p := r.floats(128, index)
	require.NoError(r.t, r.dev.Free(p))
	return uint64(p)
}

func TestPlantedFaultsAreCaughtInEveryOrder(t *testing.T) {
	for i, c := range faults {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("%d %s, seed %d", i, c.name, seed), func(t *testing.T) {
				r := newRig(t, planted, ptxsim.Options{Seed: seed, MaxBranches: 1000})
				err := r.launch(c.name, c.blocks, c.threads, c.params(r)...)
				var f *ptxsim.Fault
				require.ErrorAs(t, err, &f)
				require.ErrorIs(t, err, c.code)
				require.Equal(t, c.kind, f.Kind, f)
				require.Equal(t, c.name, f.Kernel)
				require.Contains(t, f.Inst, c.inst)
				require.Contains(t, f.Detail, c.detail)
				require.Less(t, f.Block[0], c.blocks)
				require.Less(t, f.Thread, c.threads)
				require.Equal(t, f.Thread%32, f.Lane)
				var e *gpu.Error
				require.True(t, errors.As(err, &e) && e.Sticky())
				_, again := r.dev.Alloc(1)
				require.ErrorIs(t, again, c.code, "the context is lost")
			})
		}
	}
}

func TestAReportNamesItsPlace(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{})
	err := r.launch("fill_beyond", 8, 128, uint64(r.room(1000)), 1000)
	require.ErrorContains(t, err, "out of bounds: kernel fill_beyond, block (7,0,0), thread 104 (lane 8), line ")
}

func TestKernelsThatAreRightRun(t *testing.T) {
	for _, seed := range seeds {
		r := newRig(t, planted, ptxsim.Options{Seed: seed})
		in, out := r.floats(256, index), r.room(256)
		require.NoError(t, r.launch("reverse_ok", 1, 100, uint64(out), uint64(in)))
		for i, v := range r.readFloats(out, 100) {
			require.Equal(t, float32(99-i), v)
		}
		require.NoError(t, r.launch("pass_on_ok", 1, 96, uint64(out)))
		require.Equal(t, []float32{4, 4}, r.readFloats(out+94*4, 2))
		require.NoError(t, r.launch("swap_ok", 1, 128, uint64(out), uint64(in)))
		require.Equal(t, []float32{1, 0, 3, 2}, r.readFloats(out, 4))
		require.NoError(t, r.launch("tiles_ok", 1, 32, uint64(out), uint64(in)))
		require.Equal(t, []float32{4, 5, 6, 7, 0, 1, 2, 3, 12}, r.readFloats(out, 9))
		require.NoError(t, r.launch("sum", 2, 64, uint64(out), uint64(in)))
		require.Equal(t, []float32{496, 1520, 2544, 3568}, r.readFloats(out, 4))
		require.NoError(t, r.launch("fill_ok", 2, 128, uint64(out), 256))
		require.Equal(t, []float32{1, 1}, r.readFloats(out+254*4, 2))

		require.NoError(t, r.launch("exchange_ok", 1, 64, uint64(out), uint64(r.room(64))))
		require.Equal(t, []float32{32, 33}, r.readFloats(out, 2))
		require.NoError(t, r.launch("halves_ok", 2, 64, uint64(in), uint64(in)+512, uint64(out)))
		require.Equal(t, []uint32{1 << 16, 3<<16 | 2}, r.read(in, 2))
		require.Equal(t, []uint32{63, 62}, r.read(out+64*4, 2))

		values := make([]uint32, 256)
		for i := range values {
			values[i] = uint32(i * i)
		}
		bins := r.words(0, 0, 0, 0, 0, 0, 0, 0)
		require.NoError(t, r.launch("count", 2, 128, uint64(bins), uint64(r.words(values...))))
		require.Equal(t, []uint32{64, 128, 0, 0, 64, 0, 0, 0}, r.read(bins, 8))
	}
}

func TestTensorCoresMultiplyTiles(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{})
	matrix := func(rows int, f func(i, k int) float32) []uint32 { // [rows, 16] of bf16
		var m []uint32
		for i := range rows {
			for k := 0; k < 16; k += 2 {
				m = append(m, math.Float32bits(f(i, k))>>16|math.Float32bits(f(i, k+1))&0xffff0000)
			}
		}
		return m
	}
	a := func(i, k int) float32 { return float32(i - 2*k) }
	b := func(j, k int) float32 { return float32(j*k%7) / 4 }
	c := r.room(128)
	require.NoError(t, r.launch("tile", 1, 32, uint64(c), uint64(r.words(matrix(16, a)...)), uint64(r.words(matrix(8, b)...))))
	for i, v := range r.readFloats(c, 128) {
		want := float32(1)
		for k := range 16 {
			want += a(i/8, k) * b(i%8, k)
		}
		require.Equal(t, want, v, "element %d, %d", i/8, i%8)
	}

	var halves []uint32
	for i := range uint32(32) {
		halves = append(halves, 2*i|(2*i+1)<<16)
	}
	out := r.room(32)
	require.NoError(t, r.launch("transpose", 1, 32, uint64(out), uint64(r.words(halves...))))
	for i, v := range r.read(out, 32) { // word i holds elements 2i and 2i+1 of the transposed
		row, col := uint32(i/4), uint32(i%4*2)
		require.Equal(t, col*8+row|((col+1)*8+row)<<16, v)
	}
}

func TestLanesThatPartMeetAgain(t *testing.T) {
	start := make([]uint32, 100)
	for i := range start {
		start[i] = uint32(i + 1)
	}
	r := newRig(t, planted, ptxsim.Options{Seed: 1})
	out := r.room(100)
	require.NoError(t, r.launch("collatz", 1, 100, uint64(out), uint64(r.words(start...))))
	for i, n := range r.read(out, 100) {
		var want uint32
		for v := i + 1; v != 1; want++ {
			if v%2 == 1 {
				v = 3*v + 1
			} else {
				v /= 2
			}
		}
		require.Equal(t, want, n, "from %d", i+1)
	}
}

func TestDynamicSharedMemoryIsAsLargeAsTheLaunchSays(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{})
	out := uint64(r.room(300))
	c := gpu.LaunchConfig{Grid: [3]int{1, 1, 1}, Block: [3]int{64, 1, 1}, Shared: 1200}
	require.NoError(t, r.launchShared("dynamic_ok", c, out, 300))
	require.Equal(t, []float32{299, 298}, r.readFloats(gpu.Ptr(out), 2))
	f, err := r.mod.Func("dynamic_ok")
	require.NoError(t, err)
	c.Shared = 100 << 10
	require.ErrorIs(t, r.launchShared("dynamic_ok", c, out, 300), gpu.InvalidValue)
	require.ErrorIs(t, f.SetMaxShared(1<<20), gpu.InvalidValue)
	require.NoError(t, f.SetMaxShared(100<<10))
	require.NoError(t, r.stream.Launch(f, c, []uint64{out, 300}))
	require.NoError(t, r.stream.Sync())
	c.Shared = 1196
	require.ErrorContains(t, r.launchShared("dynamic_ok", c, out, 300), "offset 1196 of the 1196 bytes of shared memory")
}

func TestBuffersOfAnArenaAreToldApart(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{})
	a, err := gpu.NewArena(r.dev, 4096)
	require.NoError(t, err)
	p, err := a.Alloc(1000)
	require.NoError(t, err)
	mark := a.Used()
	q, err := a.Alloc(1000)
	require.NoError(t, err)
	require.NoError(t, r.launch("fill_ok", 2, 128, uint64(p), 250))
	require.NoError(t, r.launch("fill_ok", 2, 128, uint64(q), 250))
	require.NoError(t, a.Release(mark))
	require.ErrorIs(t, r.dev.Download(make([]byte, 4), q), gpu.InvalidValue)
	err = r.launch("fill_beyond", 2, 128, uint64(p), 250)
	require.ErrorContains(t, err, "out of bounds")
	require.ErrorContains(t, err, "offset 1000 of the allocation of 4096 bytes")
	require.ErrorContains(t, err, "of no buffer")
	require.NoError(t, r.dev.Reset())

	r.stream, r.mod = r.must(r.dev, planted)
	a, err = gpu.NewArena(r.dev, 4096)
	require.NoError(t, err)
	p, err = a.Alloc(1000)
	require.NoError(t, err)
	require.NoError(t, a.Release(0))
	require.ErrorContains(t, r.launch("fill_ok", 2, 128, uint64(p), 250), "use after free")
}
