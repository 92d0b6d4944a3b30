package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is committed must come from the sources that are: their hashes, those of the PTX, and
// the launchers, which follow from the manifest.
func TestCommittedFilesAgree(t *testing.T) {
	t.Chdir("..")
	text, err := os.ReadFile("MANIFEST")
	require.NoError(t, err)
	m, err := parseManifest(string(text))
	require.NoError(t, err)
	require.Equal(t, string(text), string(m.format()))

	for pattern, files := range map[string][]file{"src/*": m.Sources, "ptx/*": m.PTX} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		var now []file
		for _, name := range names {
			now, err = addFile(now, name)
			require.NoError(t, err)
		}
		require.Equal(t, files, now, "run go generate ./kernels/cuda")
	}
	for _, f := range m.PTX {
		ptx, err := os.ReadFile(f.Name)
		require.NoError(t, err)
		require.NoError(t, m.checkEntries(filepath.Base(f.Name[:len(f.Name)-len(".ptx")]), string(ptx)))
	}
	code, err := m.render()
	require.NoError(t, err)
	committed, err := os.ReadFile("launch_gen.go")
	require.NoError(t, err)
	require.Equal(t, string(committed), string(code))
}

func TestChangedSignatureIsSeen(t *testing.T) {
	const ptx = ".visible .entry scale(\n\t.param .u64 scale_param_0,\n\t.param .f32 scale_param_1\n)\n.maxntid 256, 1, 1\n{"
	k := kernel{Module: "m", Name: "scale", MaxThreads: "256", Params: []param{{"x", "u64"}, {"by", "f32"}}}
	require.NoError(t, (&manifest{Kernels: []kernel{k}}).checkEntries("m", ptx))
	require.ErrorContains(t, (&manifest{}).checkEntries("m", ptx), "not in the manifest")
	for _, change := range []func(*kernel){
		func(k *kernel) { k.Params = k.Params[:1] },
		func(k *kernel) { k.Params = []param{{"x", "u64"}, {"by", "u32"}} },
		func(k *kernel) { k.MaxThreads = "128" },
		func(k *kernel) { k.Name = "scales" },
	} {
		changed := k
		change(&changed)
		require.Error(t, (&manifest{Kernels: []kernel{changed}}).checkEntries("m", ptx))
	}
}

func TestDeclarations(t *testing.T) {
	kernels, err := declarations(`extern "C" __attribute__((global)) void __attribute__((launch_bounds(64, 1))) gather(float* dst, const C::T* src, int n, float by) { }`)
	require.NoError(t, err)
	require.Equal(t, []kernel{{Name: "gather", MaxThreads: "64", Params: []param{{"dst", "u64"}, {"src", "u64"}, {"n", "u32"}, {"by", "f32"}}}}, kernels)
	_, err = declarations(`__attribute__((global)) void __attribute__((launch_bounds(64, 1))) k(double x) {`)
	require.ErrorContains(t, err, "double x")
	_, err = declarations("")
	require.Error(t, err)
}

func TestFamiliesHaveOneSignature(t *testing.T) {
	m := &manifest{Kernels: []kernel{{Name: "narrow1_f32", Params: []param{{"x", "u64"}}}, {Name: "narrow4_q8_0", Params: []param{{"x", "u64"}}}}}
	all, err := m.families()
	require.NoError(t, err)
	require.Equal(t, []*family{{name: "Narrow", params: []param{{"x", "u64"}}, kernels: []int{0, 1}}}, all)
	m.Kernels[1].Params = nil
	_, err = m.families()
	require.Error(t, err)
}
