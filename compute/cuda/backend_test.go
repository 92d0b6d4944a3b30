package cuda_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cuda"
	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

// watched is a device that counts allocations, or refuses them, and says how many
// processors it has.
type watched struct {
	cuda.Device
	processors, allocs int
	full               bool
}

func (w *watched) NumProcessors() int { return w.processors }

func (w *watched) Alloc(bytes int64) (cuda.Ptr, error) {
	w.allocs++
	if w.full {
		return 0, gpu.NewError("cuMemAlloc", gpu.OutOfMemory, "")
	}
	return w.Device.Alloc(bytes)
}

func open(t *testing.T, o ptxsim.Options) cuda.Device {
	t.Helper()
	dev, err := ptxsim.New(o).Open(0)
	require.NoError(t, err)
	d, err := cuda.Open(dev, "ptxsim:0")
	require.NoError(t, err)
	return d
}

// layer is one of a small decoder, whose only sequence is longer than a tile of attention.
type layer struct {
	b            *cuda.Backend
	spec         compute.AttentionSpec
	x, qkv, attn compute.Buffer
	kv           compute.KVCache
	rope         compute.Rope
	w            compute.Matrix
	batch        compute.Batch
}

const layerTokens = 300

func newLayer(t *testing.T, b *cuda.Backend) *layer {
	t.Helper()
	l := &layer{b: b, spec: compute.AttentionSpec{NumHeads: 4, NumKVHeads: 1, HeadDim: 8, Scale: 0.3}}
	const cols = 6 * 8
	values := make([]float32, layerTokens*cols)
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 2*cols*cols)
	for i := range values {
		values[i] = r.Float32() - 0.5
	}
	for i := range cols * cols {
		data[2*i+1] = byte(0x3c + 0x80*(r.Uint32()&1)) // ±2^-7
	}
	var err error
	l.w, err = b.NewMatrix(compute.RawTensor{Name: "w", DType: compute.BF16, Rows: cols, Cols: cols, Data: data})
	require.NoError(t, err)
	for buffer, n := range map[*compute.Buffer]int{&l.x: cols, &l.qkv: cols, &l.attn: 32} {
		*buffer, err = b.NewBuffer(layerTokens, n)
		require.NoError(t, err)
	}
	l.kv, err = b.NewKVCache(compute.KVSpec{NumLayers: 1, NumBlocks: 20, BlockSize: 16, NumKVHeads: 1, HeadDim: 8, DType: compute.F16})
	require.NoError(t, err)
	angles := make([]float32, 4*layerTokens)
	l.rope, err = b.NewRope(compute.RopeTable{HalfDim: 4, Cos: angles, Sin: angles})
	require.NoError(t, err)
	b.Upload(l.x, 0, values)
	table := make([]int32, 19)
	for i := range table {
		table[i] = int32(18 - i)
	}
	for pos := range int32(layerTokens) {
		l.batch.Positions = append(l.batch.Positions, pos)
		l.batch.SlotMapping = append(l.batch.SlotMapping, table[pos/16]*16+pos%16)
	}
	l.batch.Seqs = []compute.BatchSeq{{QueryStart: layerTokens - 2, QueryLen: 2, ContextLen: layerTokens, BlockTable: table}}
	return l
}

// compute computes the last two tokens' attention.
func (l *layer) compute() error {
	l.b.Linear(l.qkv, l.x, l.w, layerTokens)
	l.b.RopeStore(l.qkv, l.spec, l.rope, l.kv, 0, &l.batch)
	l.b.Attention(l.attn, l.qkv, l.spec, l.kv, 0, &l.batch)
	return l.b.Sync()
}

// step computes and fetches the last two tokens' attention.
func (l *layer) step() ([]float32, error) {
	err := l.compute()
	return append([]float32(nil), l.b.Host(l.attn, layerTokens-2, 2)...), err
}

func TestOptions(t *testing.T) {
	_, err := cuda.New(cuda.Options{})
	require.ErrorContains(t, err, "no device")
	for _, o := range []cuda.Options{{Parts: 4}, {Parts: -1}, {MemoryShare: 1.1}, {MemoryShare: math.NaN()}} {
		o.Device = &watched{}
		_, err := cuda.New(o)
		require.Error(t, err)
	}
}

// One block or many for a query: the bits are the same. After the first step nothing is
// allocated, and nothing is left when all is closed.
func TestStepsAllocateNothingAndSplitsDoNotShow(t *testing.T) {
	w := &watched{Device: open(t, ptxsim.Options{Seed: 3}), processors: 1}
	free, total, err := w.MemInfo()
	require.NoError(t, err)
	first, err := cuda.New(cuda.Options{Device: w, MemoryShare: 0.5})
	require.NoError(t, err)
	available, own := first.AvailableMemory()
	require.True(t, own)
	require.Equal(t, total/2-(total-free), available)
	b, err := first.Fork()
	require.NoError(t, err)
	require.NoError(t, first.Close())

	l := newLayer(t, b.(*cuda.Backend))
	whole, err := l.step()
	require.NoError(t, err)
	w.processors = 1000
	split, err := l.step()
	require.NoError(t, err)
	require.Equal(t, whole, split)
	allocs := w.allocs
	for range 2 {
		again, err := l.step()
		require.NoError(t, err)
		require.Equal(t, whole, again)
	}
	require.Equal(t, allocs, w.allocs)
	l.x.Free()
	l.kv.Free()
	require.NoError(t, b.Close())
}

// What goes wrong on the device is a typed error at Sync, once, and Host still answers.
func TestDeviceErrors(t *testing.T) {
	b, err := cuda.New(cuda.Options{Device: open(t, ptxsim.Options{
		Memory: 1 << 20, Inject: []ptxsim.Injection{{Point: ptxsim.OnLaunch, Nth: 3, Code: gpu.IllegalAddress}},
	})})
	require.NoError(t, err)
	_, err = b.NewBuffer(1<<10, 1<<10)
	require.ErrorIs(t, err, gpu.OutOfMemory)
	require.ErrorContains(t, err, "4194304 bytes for a buffer")
	l := newLayer(t, b)
	got, err := l.step()
	require.ErrorIs(t, err, gpu.IllegalAddress)
	var typed *gpu.Error
	require.ErrorAs(t, err, &typed)
	require.True(t, typed.Sticky())
	require.Len(t, got, 64)
	_, err = l.step()
	require.ErrorIs(t, err, gpu.IllegalAddress, "a lost context stays lost")
	_ = b.Close() // a lost context frees nothing
}

// A step that has no memory for its scratch fails by that, launches nothing on memory
// that is not there, and leaves the device as good as it was.
func TestFullDevice(t *testing.T) {
	w := &watched{Device: open(t, ptxsim.Options{Seed: 4}), processors: 1000}
	b, err := cuda.New(cuda.Options{Device: w})
	require.NoError(t, err)
	l := newLayer(t, b)
	w.full = true
	require.ErrorIs(t, l.compute(), gpu.OutOfMemory)
	w.full = false
	_, err = l.step()
	require.NoError(t, err)
	require.NoError(t, b.Close())
}

func TestRefusedPTX(t *testing.T) {
	dev, err := ptxsim.New(ptxsim.Options{Inject: []ptxsim.Injection{{Point: ptxsim.OnLoad, Nth: 2, Code: gpu.UnsupportedPTX}}}).Open(0)
	require.NoError(t, err)
	_, err = cuda.Open(dev, "cuda:7")
	require.ErrorIs(t, err, gpu.UnsupportedPTX)
	require.ErrorContains(t, err, "cuda:7: module ")
}

// elderly is a driver that says it is older than it is, with such devices.
type elderly struct {
	gpu.Driver
	version, capability int
}

func (e *elderly) Version() int { return e.version }

func (e *elderly) Open(i int) (gpu.Device, error) {
	dev, err := e.Driver.Open(i)
	return &elderlyDevice{dev, e.capability}, err
}

type elderlyDevice struct {
	gpu.Device
	capability int
}

func (e *elderlyDevice) Properties() gpu.Properties {
	p := e.Device.Properties()
	p.Major, p.Minor = e.capability/10, e.capability%10
	return p
}

func TestCheck(t *testing.T) {
	d := &elderly{ptxsim.New(ptxsim.Options{}), 13000, 90}
	require.NoError(t, cuda.Check(d, 0))
	require.ErrorContains(t, cuda.Check(d, 1), "device 1 is asked for, but the number of devices is 1")
	d.capability = 75
	require.ErrorContains(t, cuda.Check(d, 0), "ptxsim:0 (PTX simulator) has compute capability 7.5, and at least 8.0 is needed")
	d.version = 11040
	require.ErrorContains(t, cuda.Check(d, 0), "the driver speaks CUDA 11.4, and at least 11.8 is needed")
}
