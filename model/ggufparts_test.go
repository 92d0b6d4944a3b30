package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
)

// smallGGUF is a model of a few tensors.
func smallGGUF(t *testing.T) *modelkit.GGUF {
	t.Helper()
	folder, err := model.OpenDir(modelkit.Small(1).Write(t, "F32", 1))
	require.NoError(t, err)
	return modelkit.ConvertLlama(t, folder, "F32")
}

// A model in parts says what the whole one does, whichever part is named, and
// alone in its folder.
func TestGoldenContinuationsOfGGUFInParts(t *testing.T) {
	g, dir := readGolden(t), t.TempDir()
	names := modelkit.WriteParts(t, dir, "m", modelkit.ConvertLlama(t, understudy.Embedded(), "BF16").Parts(3))
	requireGolden(t, g, load(t, dir, options(t)))
	require.Equal(t, int64(2_828_736), load(t, filepath.Join(dir, names[2]), options(t)).NumParameters())
}

func TestGGUFPartsRefused(t *testing.T) {
	whole := smallGGUF(t)
	for want, change := range map[string]func(dir string, names []string, parts []*modelkit.GGUF){
		"m-00002-of-00003.gguf is missing in ": func(dir string, names []string, _ []*modelkit.GGUF) {
			require.NoError(t, os.Remove(filepath.Join(dir, names[1])))
		},
		"m-00001-of-00003.gguf is missing in ": func(dir string, names []string, _ []*modelkit.GGUF) {
			require.NoError(t, os.Remove(filepath.Join(dir, names[0])))
		},
		"m-00003-of-00003.gguf: ends at byte 0": func(dir string, names []string, _ []*modelkit.GGUF) {
			modelkit.WriteFile(t, dir, names[2], nil)
		},
		"m-00003-of-00003.gguf: says that it is part 2 of 3, but its name says part 3 of 3": func(dir string, names []string, parts []*modelkit.GGUF) {
			modelkit.WriteFile(t, dir, names[2], parts[1].Bytes(t))
		},
		"m-00002-of-00003.gguf: says that it is part 2 of 2, but its name says part 2 of 3": func(dir string, names []string, _ []*modelkit.GGUF) {
			modelkit.WriteFile(t, dir, names[1], whole.Parts(2)[1].Bytes(t))
		},
		"is in m-00001-of-00003.gguf, too": func(dir string, names []string, parts []*modelkit.GGUF) {
			parts[1].Tensors = parts[0].Tensors
			modelkit.WriteFile(t, dir, names[1], parts[1].Bytes(t))
		},
		"but the 3 parts have": func(dir string, names []string, parts []*modelkit.GGUF) {
			parts[1].Tensors = parts[1].Tensors[1:]
			modelkit.WriteFile(t, dir, names[1], parts[1].Bytes(t))
		},
		"metadata key \"split.no\" must be an integer from 0 to 65535": func(dir string, names []string, parts []*modelkit.GGUF) {
			parts[1].Set("split.no", "two")
			modelkit.WriteFile(t, dir, names[1], parts[1].Bytes(t))
		},
	} {
		dir, parts := t.TempDir(), whole.Parts(3)
		names := modelkit.WriteParts(t, dir, "m", parts)
		change(dir, names, parts)
		require.ErrorContains(t, loadError(t, dir, options(t)), want)
	}
}

// A part under a name that says nothing of parts is no model.
func TestGGUFPartUnderAnotherName(t *testing.T) {
	path := writeGGUF(t, smallGGUF(t).Parts(2)[0])
	require.ErrorContains(t, loadError(t, path, options(t)),
		"model.gguf: is one of 2 parts, but its name does not say so: parts are named NAME-00001-of-00002.gguf and so on")
}
