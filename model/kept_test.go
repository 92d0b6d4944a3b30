//go:build unix

package model_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
)

// keeper counts the matrices that a backend makes and takes.
type keeper struct {
	*cpu.Backend
	made, taken int
}

func (k *keeper) NewMatrix(parts ...compute.RawTensor) (compute.Matrix, error) {
	k.made++
	return k.Backend.NewMatrix(parts...)
}

func (k *keeper) KeptMatrix(parts ...compute.RawTensor) (compute.Matrix, bool) {
	m, ok := k.Backend.KeptMatrix(parts...)
	if ok {
		k.taken++
	}
	return m, ok
}

// kept is a load with a folder of kept weights.
type kept struct {
	keeper
	model   *model.Model
	notices []string
}

func loadKept(t *testing.T, path, dir string, change func(o *model.Options)) *kept {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	k := &kept{keeper: keeper{Backend: b}}
	o := model.Options{
		Backend: &k.keeper, MaxNumSeqs: 64, MaxNumBatchedTokens: 1024, WeightsCache: dir,
		Notice: func(line string) { k.notices = append(k.notices, line) },
	}
	if change != nil {
		change(&o)
	}
	k.model = load(t, path, o)
	return k
}

// keptFiles returns the paths of what is kept.
func keptFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return paths
}

// The second load makes no matrix, and the model says what it said.
func TestKeptWeights(t *testing.T) {
	g, dir := readGolden(t), t.TempDir()
	path := writeGGUF(t, modelkit.ConvertLlama(t, understudy.Embedded(), "BF16"))
	first := loadKept(t, path, dir, nil)
	require.Zero(t, first.taken)
	require.Positive(t, first.made)
	second := loadKept(t, path, dir, nil)
	require.Zero(t, second.made)
	require.Equal(t, first.made, second.taken)
	requireGolden(t, g, second.model)
	require.Len(t, keptFiles(t, dir), 1)
	require.Empty(t, append(first.notices, second.notices...))
}

// What else the weights are made of, or made into, is kept apart.
func TestKeptWeightsOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	path := writeGGUF(t, smallGGUF(t))
	require.Positive(t, loadKept(t, path, dir, nil).made)
	for i, change := range []func(o *model.Options){
		func(o *model.Options) { o.DType = "bfloat16" },
		func(*model.Options) { require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))) },
	} {
		k := loadKept(t, path, dir, change)
		require.Zero(t, k.taken)
		require.Len(t, keptFiles(t, dir), 2+i)
	}
	require.Zero(t, loadKept(t, path, dir, nil).made, "the last one")
}

// A file that is damaged costs a line, is not used, and is written anew.
func TestKeptWeightsThatAreDamaged(t *testing.T) {
	dir := t.TempDir()
	path := writeGGUF(t, smallGGUF(t))
	loadKept(t, path, dir, nil)
	file := keptFiles(t, dir)[0]
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(file, b, 0o644))
	k := loadKept(t, path, dir, nil)
	require.Zero(t, k.taken)
	require.Len(t, k.notices, 1)
	require.Contains(t, k.notices[0], filepath.Base(file)+" is damaged")
	require.Zero(t, loadKept(t, path, dir, nil).made)
}

// A folder that cannot be written to costs a line and nothing else.
func TestKeptWeightsWithoutAFolder(t *testing.T) {
	path := writeGGUF(t, smallGGUF(t))
	k := loadKept(t, path, filepath.Join(path, "below"), nil)
	require.Positive(t, k.made)
	require.Contains(t, k.notices[len(k.notices)-1], "The weights are not kept for the next start")
}

// What is part of the binary is there already in the form that it has.
func TestNothingOfTheBinaryIsKept(t *testing.T) {
	dir := t.TempDir()
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	loadFolder(t, understudy.Embedded(), model.Options{Backend: b, MaxNumSeqs: 1, MaxNumBatchedTokens: 16, WeightsCache: dir})
	require.Empty(t, keptFiles(t, dir))
}
