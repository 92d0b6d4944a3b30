//go:build unix

package cpu_test

import (
	"encoding/binary"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
)

// keptParts are the parts of three matrices, the second of which is held in two types.
func keptParts() [][]compute.RawTensor {
	r := rand.New(rand.NewPCG(1, 2))
	raw := func(name string, rows, cols int, quantize compute.DType) compute.RawTensor {
		var data []byte
		for range rows * cols {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(r.Float32()-0.5))
		}
		return compute.RawTensor{Name: name, DType: compute.F32, Rows: rows, Cols: cols, Data: data, Quantize: quantize}
	}
	return [][]compute.RawTensor{
		{raw("a", 20, 64, compute.Q8_0)}, {raw("b", 16, 64, compute.F32), raw("c", 33, 64, compute.Q4_0)}, {raw("d", 5, 7, compute.F32)},
	}
}

// withoutData returns parts as KeptMatrix takes them.
func withoutData(parts []compute.RawTensor) []compute.RawTensor {
	bare := append([]compute.RawTensor{}, parts...)
	for i := range bare {
		bare[i].Data = nil
	}
	return bare
}

// rowsOf reads all rows of a matrix.
func rowsOf(t *testing.T, b *cpu.Backend, m compute.Matrix) []float32 {
	t.Helper()
	buf, err := b.NewBuffer(m.Rows(), m.Cols())
	require.NoError(t, err)
	ids := make([]int32, m.Rows())
	for i := range ids {
		ids[i] = int32(i)
	}
	b.Embed(buf, m, ids)
	return append([]float32{}, b.Host(buf, 0, m.Rows())...)
}

// keep writes a file of keptParts and returns its path, key and rows.
func keep(t *testing.T) (path string, key [32]byte, rows [][]float32) {
	t.Helper()
	path, key = filepath.Join(t.TempDir(), "sub", "m.weights"), [32]byte{1, 2, 3}
	b := newBackend(t, cpu.Options{Threads: 2})
	require.ErrorIs(t, b.OpenKept(path, key), fs.ErrNotExist)
	require.NoError(t, b.KeepMatrices(path, key))
	for _, parts := range keptParts() {
		m, err := b.NewMatrix(parts...)
		require.NoError(t, err)
		rows = append(rows, rowsOf(t, b, m))
	}
	require.NoFileExists(t, path, "it is not there before it is whole")
	require.NoError(t, b.EndKept(true))
	return path, key, rows
}

// TestKeptMatrices takes matrices from a file, which all who do share, and which may
// be removed meanwhile.
func TestKeptMatrices(t *testing.T) {
	path, key, rows := keep(t)
	info, err := os.Stat(path)
	require.NoError(t, err)
	b := newBackend(t, cpu.Options{Threads: 2})
	require.NoError(t, b.OpenKept(path, key))
	require.NoError(t, os.Remove(path))
	for i, parts := range keptParts() {
		m, ok := b.KeptMatrix(withoutData(parts)...)
		require.True(t, ok)
		require.Equal(t, rows[i], rowsOf(t, b, m))
	}
	_, shared := b.Mapped()
	require.Equal(t, info.Size(), shared, "nothing but the file")
	_, ok := b.KeptMatrix(withoutData(keptParts()[0])...)
	require.False(t, ok, "there were three")
	require.NoError(t, b.EndKept(true))
	_, ok = b.KeptMatrix(withoutData(keptParts()[0])...)
	require.False(t, ok)
	require.NoError(t, b.Close())
	_, shared = b.Mapped()
	require.Zero(t, shared)
}

// TestKeptMatrixOfAnotherShape stops at the first matrix that is not what is wanted.
func TestKeptMatrixOfAnotherShape(t *testing.T) {
	path, key, _ := keep(t)
	for _, change := range []func(p *compute.RawTensor){
		func(p *compute.RawTensor) { p.Rows++ },
		func(p *compute.RawTensor) { p.Cols = 32 },
		func(p *compute.RawTensor) { p.Quantize = compute.Q4_0 },
		func(p *compute.RawTensor) { p.Quantize = compute.F32 },
	} {
		b := newBackend(t, cpu.Options{Threads: 1})
		require.NoError(t, b.OpenKept(path, key))
		other := withoutData(keptParts()[0])
		change(&other[0])
		_, ok := b.KeptMatrix(other...)
		require.False(t, ok)
		_, ok = b.KeptMatrix(withoutData(keptParts()[0])...)
		require.False(t, ok)
		require.NoError(t, b.EndKept(true))
	}
}

// TestKeptFileIsNotTrusted opens files that are damaged at every place, cut short,
// empty, or of something else: none is used, none is mapped afterwards.
func TestKeptFileIsNotTrusted(t *testing.T) {
	path, key, _ := keep(t)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	b := newBackend(t, cpu.Options{Threads: 2})
	refused := func(content []byte, key [32]byte, want string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, content, 0o644))
		err := b.OpenKept(path, key)
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, fs.ErrNotExist)
		_, shared := b.Mapped()
		require.Zero(t, shared)
	}
	for at := 0; at < len(whole); at++ {
		if at > 2048 && at < len(whole)-512 && at%97 != 0 {
			continue // of the bands a few bytes do
		}
		damaged := append([]byte{}, whole...)
		damaged[at] ^= 0x40
		require.NoError(t, os.WriteFile(path, damaged, 0o644))
		if err := b.OpenKept(path, key); err == nil {
			t.Fatalf("byte %d of %d is different, and the file was taken", at, len(whole))
		}
	}
	for _, n := range []int{0, 1, 50, len(whole) / 2, len(whole) - 1} {
		refused(whole[:n], key, "is damaged")
	}
	refused(append(append([]byte{}, whole...), 0), key, "is damaged")
	refused(whole, [32]byte{1}, "is of another model")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
	require.ErrorContains(t, b.OpenKept(path, key), "is not a regular file")
}

// TestKeptFileAppearsWholeOrNotAtAll gives up, and removes what others left behind.
func TestKeptFileAppearsWholeOrNotAtAll(t *testing.T) {
	dir, key := t.TempDir(), [32]byte{9}
	path := filepath.Join(dir, "m.weights")
	old, young := path+".1.incomplete", path+".2.incomplete"
	for _, name := range []string{old, young} {
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o644))
	}
	long := time.Now().Add(-3 * time.Hour)
	require.NoError(t, os.Chtimes(old, long, long))
	b := newBackend(t, cpu.Options{Threads: 1})
	require.NoError(t, b.KeepMatrices(path, key))
	_, err := b.NewMatrix(keptParts()[0]...)
	require.NoError(t, err)
	require.NoError(t, b.EndKept(false))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, filepath.Base(young), entries[0].Name(), "its writer may be at work")
	require.Error(t, b.KeepMatrices(filepath.Join(young, "m.weights"), key), "below a file")
}
