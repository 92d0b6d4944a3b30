package ptxsim_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

var oneBlock = gpu.LaunchConfig{Grid: [3]int{1, 1, 1}, Block: [3]int{32, 1, 1}}

// fill enqueues fill_ok on n words at p.
func (r *rig) fill(s gpu.Stream, p gpu.Ptr, n int) error {
	f, err := r.mod.Func("fill_ok")
	require.NoError(r.t, err)
	return s.Launch(f, oneBlock, []uint64{uint64(p), uint64(n)})
}

func TestOperationsRunWhenSomebodyWaits(t *testing.T) {
	for _, seed := range seeds {
		r := newRig(t, planted, ptxsim.Options{Seed: seed})
		pinned, err := r.dev.AllocHost(8)
		require.NoError(t, err)
		p := r.room(2)
		copy(pinned, "early   ")
		require.NoError(t, r.stream.CopyToDevice(p, pinned))
		if seed == 0 {
			copy(pinned, "too soon") // what a host may not do is seen
		}
		require.NoError(t, r.stream.Sync())
		back := make([]byte, 8)
		require.NoError(t, r.dev.Download(back, p))
		require.Equal(t, map[bool]string{true: "too soon", false: "early   "}[seed == 0], string(back))
		require.ErrorIs(t, r.stream.CopyToHost(back, p), gpu.InvalidValue, "not pinned")
		require.NoError(t, r.dev.FreeHost(pinned))
		require.ErrorIs(t, r.stream.CopyToDevice(p, pinned), gpu.InvalidValue)
	}
}

func TestEventsOrderStreams(t *testing.T) {
	for _, seed := range seeds {
		r := newRig(t, planted, ptxsim.Options{Seed: seed})
		other, err := r.dev.NewStream()
		require.NoError(t, err)
		e, err := r.dev.NewEvent()
		require.NoError(t, err)
		done, err := e.Done()
		require.NoError(t, err)
		require.True(t, done, "it was never recorded")

		p, out := r.room(32), r.room(32)
		sum, err := r.mod.Func("sum")
		require.NoError(t, err)
		require.NoError(t, r.fill(other, p, 32))
		require.NoError(t, other.Record(e))
		require.NoError(t, r.stream.WaitEvent(e))
		require.NoError(t, r.stream.Launch(sum, oneBlock, []uint64{uint64(out), uint64(p)}))
		require.NoError(t, r.stream.Sync())
		require.Equal(t, []float32{32}, r.readFloats(out, 1))
	}
}

func TestAnybodyMayWaitForAnEvent(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{})
	start, err := r.dev.NewEvent()
	require.NoError(t, err)
	end, err := r.dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, r.stream.Record(start))
	require.NoError(t, r.fill(r.stream, r.room(32), 32))
	require.NoError(t, r.stream.Record(end))
	_, err = end.Since(start)
	require.ErrorIs(t, err, gpu.NotReady)
	waited := make(chan error)
	go func() { waited <- end.Wait() }()
	require.NoError(t, <-waited)
	ms, err := end.Since(start)
	require.NoError(t, err)
	require.Positive(t, ms)
	require.EqualValues(t, 1, r.driver.Stats(0)["fill_ok"].Launches)
	require.Positive(t, r.driver.Stats(0)["fill_ok"].Instructions)
}

func TestDoneGetsOn(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{})
	e, err := r.dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, r.fill(r.stream, r.room(32), 32))
	require.NoError(t, r.stream.Record(e))
	polls := 0
	for done := false; !done; polls++ {
		done, err = e.Done()
		require.NoError(t, err)
		require.Less(t, polls, 3)
	}
}

func TestAGraphDoesTheSameAgain(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{Seed: 3})
	p, out := r.room(32), r.room(1)
	sum, err := r.mod.Func("sum")
	require.NoError(t, err)
	require.NoError(t, r.stream.BeginCapture())
	require.ErrorIs(t, r.stream.BeginCapture(), gpu.InvalidValue)
	require.NoError(t, r.fill(r.stream, p, 32))
	require.NoError(t, r.stream.Launch(sum, oneBlock, []uint64{uint64(out), uint64(p)}))
	g, err := r.stream.EndCapture()
	require.NoError(t, err)
	require.Equal(t, 2, g.NumNodes())
	require.Zero(t, r.driver.Stats(0)["sum"].Launches)
	for range 3 {
		require.NoError(t, r.dev.Upload(out, make([]byte, 4)))
		require.NoError(t, r.stream.LaunchGraph(g))
		require.NoError(t, r.stream.Sync())
		require.Equal(t, []float32{32}, r.readFloats(out, 1))
	}
	require.EqualValues(t, 3, r.driver.Stats(0)["sum"].Launches)
}

func TestWaitingBreaksACapture(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{})
	require.NoError(t, r.stream.BeginCapture())
	require.ErrorIs(t, r.stream.Sync(), gpu.CaptureUnsupported)
	_, err := r.stream.EndCapture()
	require.ErrorIs(t, err, gpu.CaptureInvalidated)
	_, err = r.stream.EndCapture()
	require.ErrorIs(t, err, gpu.InvalidValue)
	e, err := r.dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, r.stream.BeginCapture())
	require.ErrorIs(t, r.stream.WaitEvent(e), gpu.CaptureIsolation)
	_, err = r.stream.EndCapture()
	require.ErrorIs(t, err, gpu.CaptureInvalidated)
}

func TestLaunchesAreChecked(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{Devices: 2})
	p := uint64(r.room(32))
	for _, c := range []struct {
		config gpu.LaunchConfig
		params []uint64
		detail string
	}{
		{gpu.LaunchConfig{Grid: [3]int{0, 1, 1}, Block: [3]int{1, 1, 1}}, []uint64{p, 1}, "a grid of [0 1 1] blocks"},
		{gpu.LaunchConfig{Grid: [3]int{1, 65536, 1}, Block: [3]int{1, 1, 1}}, []uint64{p, 1}, "a grid of"},
		{gpu.LaunchConfig{Grid: [3]int{1 << 23, 1, 1}, Block: [3]int{1, 1, 1}}, []uint64{p, 1}, "the simulator runs at most"},
		{gpu.LaunchConfig{Grid: [3]int{1, 1, 1}, Block: [3]int{0, 1, 1}}, []uint64{p, 1}, "blocks of [0 1 1] threads"},
		{gpu.LaunchConfig{Grid: [3]int{1, 1, 1}, Block: [3]int{16, 17, 1}}, []uint64{p, 1}, "blocks of 272 threads; it takes 256"},
		{oneBlock, []uint64{p}, "1 parameters; it takes 2"},
	} {
		require.ErrorContains(t, r.launchShared("fill_ok", c.config, c.params...), c.detail)
	}
	f, err := r.mod.Func("fill_ok")
	require.NoError(t, err)
	stream, err := r.open(1).NewStream()
	require.NoError(t, err)
	require.ErrorIs(t, stream.Launch(f, oneBlock, []uint64{p, 1}), gpu.InvalidHandle)
	_, err = r.mod.Func("nobody")
	require.ErrorIs(t, err, gpu.NotFound)
}

func TestMemoryIsChecked(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{Memory: 1 << 20})
	_, err := r.dev.Alloc(2 << 20)
	require.ErrorIs(t, err, gpu.OutOfMemory)
	p := r.room(16)
	free, total, err := r.dev.MemInfo()
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, total)
	require.EqualValues(t, 1<<20-64, free)
	require.ErrorContains(t, r.dev.Download(make([]byte, 4), p), "never written")
	require.ErrorContains(t, r.dev.Upload(p+60, make([]byte, 8)), "8 bytes at offset 60 are too many for the allocation of 64 bytes")
	require.ErrorContains(t, r.dev.Upload(12, make([]byte, 8)), "in no allocation")
	require.NoError(t, r.dev.Free(p))
	require.ErrorIs(t, r.dev.Free(p), gpu.InvalidValue)
	require.ErrorContains(t, r.dev.Upload(p, make([]byte, 8)), "have been freed")

	from, to := r.words(1, 2), r.room(2)
	require.NoError(t, r.stream.CopyOnDevice(to, from, 8))
	require.NoError(t, r.stream.Memset(to, 7, 2))
	require.NoError(t, r.stream.Sync())
	require.Equal(t, []uint32{0x0707, 2}, r.read(to, 2))
	require.NoError(t, r.stream.CopyOnDevice(to, to+4, 4))
	require.NoError(t, r.stream.CopyOnDevice(to, to+2, 4))
	require.ErrorContains(t, r.stream.Sync(), "overlap")
}

func TestNothingWorksUnbound(t *testing.T) {
	dev, err := ptxsim.New(ptxsim.Options{}).Open(0)
	require.NoError(t, err)
	_, err = dev.Alloc(1)
	require.ErrorIs(t, err, gpu.InvalidContext)
	_, err = ptxsim.New(ptxsim.Options{}).Open(1)
	require.ErrorIs(t, err, gpu.InvalidDevice)
}

func TestALostContextComesBackAfterAReset(t *testing.T) {
	r := newRig(t, planted, ptxsim.Options{Devices: 2, Inject: []ptxsim.Injection{{Device: 0, Point: ptxsim.OnLaunch, Nth: 3, Code: gpu.ECCUncorrectable}}})
	p := r.room(32)
	require.NoError(t, r.fill(r.stream, p, 32))
	require.NoError(t, r.fill(r.stream, p, 32))
	require.NoError(t, r.stream.Sync())
	require.NoError(t, r.fill(r.stream, p, 32), "it fails when it runs")
	err := r.stream.Sync()
	require.ErrorIs(t, err, gpu.ECCUncorrectable)
	require.ErrorContains(t, err, "injected at number 3")
	_, _, err = r.dev.MemInfo()
	require.ErrorIs(t, err, gpu.ECCUncorrectable, "it sticks")
	_, _, err = r.open(1).MemInfo()
	require.NoError(t, err, "to one device")

	require.NoError(t, r.dev.Reset())
	require.ErrorIs(t, r.stream.Memset(p, 0, 4), gpu.ContextDestroyed)
	r.stream, r.mod = r.must(r.dev, planted)
	require.NoError(t, r.fill(r.stream, r.room(32), 32))
	require.NoError(t, r.stream.Sync())
}

func TestFaultsCanBeInjectedWhereTheDriverFails(t *testing.T) {
	var held, entered sync.WaitGroup
	held.Add(1)
	entered.Add(1)
	r := newRig(t, planted, ptxsim.Options{Inject: []ptxsim.Injection{
		{Point: ptxsim.OnAlloc, Nth: 2, Code: gpu.OutOfMemory},
		{Point: ptxsim.OnLoad, Nth: 2, Code: gpu.UnsupportedPTX},
		{Point: ptxsim.OnLaunch, Nth: 1, Run: func() { entered.Done(); held.Wait() }},
	}})
	p := r.room(32)
	_, err := r.dev.Alloc(1)
	require.ErrorIs(t, err, gpu.OutOfMemory)
	r.room(1)
	_, err = r.dev.LoadModule("m", planted)
	require.ErrorIs(t, err, gpu.UnsupportedPTX)
	_, err = r.dev.LoadModule("m", planted)
	require.NoError(t, err)

	require.NoError(t, r.fill(r.stream, p, 32))
	synced := make(chan error)
	go func() { synced <- r.stream.Sync() }()
	entered.Wait() // the step is slow
	require.NoError(t, r.fill(r.stream, p, 32), "enqueueing does not wait for it")
	held.Done()
	require.NoError(t, <-synced)
}

func TestTheSameSeedGivesTheSameReport(t *testing.T) {
	report := func(seed uint64) string {
		r := newRig(t, planted, ptxsim.Options{Seed: seed})
		return r.launch("neighbour_race", 16, 256, uint64(r.room(4096))).Error()
	}
	require.Equal(t, report(5), report(5))
	reports := map[string]bool{}
	for seed := range uint64(8) {
		reports[report(seed)] = true
	}
	require.Greater(t, len(reports), 1, "other seeds find it elsewhere")
}
