package ptxsim_test

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/gpu"
	"github.com/troupe-llm/troupe/gpu/ptxsim"
)

//go:embed testdata/planted.ptx
var planted string

//go:embed testdata/planted.cu
var source string

//go:embed testdata/MANIFEST
var manifest string

func TestPlantedKernelsAreOfTheirSource(t *testing.T) {
	for name, text := range map[string]string{"source planted.cu": source, "ptx planted.ptx": planted} {
		sum := sha256.Sum256([]byte(text))
		require.Contains(t, strings.Split(manifest, "\n"), name+" "+hex.EncodeToString(sum[:]))
	}
}

// rig is a bound device with a stream and a module.
type rig struct {
	t      testing.TB
	driver *ptxsim.Driver
	dev    gpu.Device
	stream gpu.Stream
	mod    gpu.Module
}

func newRig(t testing.TB, ptx string, o ptxsim.Options) *rig {
	t.Helper()
	r := &rig{t: t, driver: ptxsim.New(o)}
	r.dev = r.open(0)
	r.stream, r.mod = r.must(r.dev, ptx)
	return r
}

// open binds a device for the length of the test.
func (r *rig) open(i int) gpu.Device {
	dev, err := r.driver.Open(i)
	require.NoError(r.t, err)
	require.NoError(r.t, dev.Bind())
	r.t.Cleanup(dev.Unbind)
	return dev
}

func (r *rig) must(dev gpu.Device, ptx string) (gpu.Stream, gpu.Module) {
	stream, err := dev.NewStream()
	require.NoError(r.t, err)
	mod, err := dev.LoadModule("test", ptx)
	require.NoError(r.t, err)
	return stream, mod
}

// words returns device memory with the bits of 32-bit numbers.
func (r *rig) words(v ...uint32) gpu.Ptr {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	p := r.room(len(v))
	require.NoError(r.t, r.dev.Upload(p, b))
	return p
}

func (r *rig) floats(n int, f func(i int) float32) gpu.Ptr {
	v := make([]uint32, n)
	for i := range v {
		v[i] = math.Float32bits(f(i))
	}
	return r.words(v...)
}

// room returns device memory for n words that nobody has written.
func (r *rig) room(n int) gpu.Ptr {
	p, err := r.dev.Alloc(int64(4 * n))
	require.NoError(r.t, err)
	return p
}

func (r *rig) read(p gpu.Ptr, n int) []uint32 {
	b := make([]byte, 4*n)
	require.NoError(r.t, r.dev.Download(b, p))
	v := make([]uint32, n)
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return v
}

func (r *rig) readFloats(p gpu.Ptr, n int) []float32 {
	v := make([]float32, n)
	for i, b := range r.read(p, n) {
		v[i] = math.Float32frombits(b)
	}
	return v
}

func (r *rig) launch(name string, blocks, threads int, params ...uint64) error {
	return r.launchShared(name, gpu.LaunchConfig{Grid: [3]int{blocks, 1, 1}, Block: [3]int{threads, 1, 1}}, params...)
}

func (r *rig) launchShared(name string, c gpu.LaunchConfig, params ...uint64) error {
	f, err := r.mod.Func(name)
	require.NoError(r.t, err)
	if err := r.stream.Launch(f, c, params); err != nil {
		return err
	}
	return r.stream.Sync()
}

// seeds are orders of warps and blocks to try; 0 is by number.
var seeds = []uint64{0, 1, 2, 3}
