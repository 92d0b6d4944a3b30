package randommodel_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/randommodel"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/gguf"
)

func small(tied bool) randommodel.Shape {
	return randommodel.Shape{Name: "small", Hidden: 64, Intermediate: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16,
		Vocab: 512, Context: 128, RopeTheta: 1e4, Tied: tied}
}

// A file of every type loads, with the parameters that the shape has, and has the
// size that was foretold.
func TestFilesLoad(t *testing.T) {
	for _, name := range []string{"bf16", "f16", "q8_0", "q4_0"} {
		for _, tied := range []bool{false, true} {
			s := small(tied)
			typ, err := randommodel.FindType(name)
			require.NoError(t, err)
			path := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, (&randommodel.Model{Shape: s, Type: typ, Seed: 1}).WriteFile(t.Context(), path))
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.InDelta(t, s.Bytes(typ), info.Size(), 64<<10, "but for the vocabulary")
			folder, err := model.OpenDir(path)
			require.NoError(t, err)
			backend, err := cpu.New(cpu.Options{Threads: 1})
			require.NoError(t, err)
			m, err := model.Load(folder, model.Options{Backend: backend, MaxNumSeqs: 1, MaxNumBatchedTokens: 16})
			require.NoError(t, err)
			require.Equal(t, s.NumParameters(), m.NumParameters())
			require.Equal(t, s.Vocab, m.Config().VocabSize)
			require.NoError(t, backend.Close())
		}
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	file := func(seed uint64) []byte {
		var b bytes.Buffer
		require.NoError(t, (&randommodel.Model{Shape: small(false), Type: gguf.Q4_0, Seed: seed}).Write(t.Context(), &b))
		return b.Bytes()
	}
	require.Equal(t, file(1), file(1))
	require.NotEqual(t, file(1), file(2))
}

func TestNothingStaysOfAnInterruptedFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	err := (&randommodel.Model{Shape: small(false), Type: gguf.Q4_0, Seed: 1}).WriteFile(ctx, filepath.Join(dir, "m.gguf"))
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The sizes of public models, to the percent.
func TestShapes(t *testing.T) {
	for name, billions := range map[string]float64{"110m": 0.11, "1.1b": 1.1, "3b": 3.21, "8b": 8.03, "14b": 14.7, "32b": 32.8, "70b": 70.6} {
		s, err := randommodel.Find(name)
		require.NoError(t, err)
		require.InEpsilon(t, billions*1e9, s.NumParameters(), 0.02, name)
	}
	_, err := randommodel.Find("9b")
	require.ErrorContains(t, err, `no shape "9b": the shapes are 110m`)
	_, err = randommodel.FindType("q5_1")
	require.ErrorContains(t, err, "q5_1")
}
