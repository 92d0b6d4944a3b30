package model_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/modelkit"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
)

// writeGGUF writes a file and returns its path.
func writeGGUF(tb testing.TB, g *modelkit.GGUF) string {
	tb.Helper()
	dir := tb.TempDir()
	modelkit.WriteFile(tb, dir, "model.gguf", g.Bytes(tb))
	return filepath.Join(dir, "model.gguf")
}

// The built-in model says the same as a GGUF file: the names, the order of rows
// and the metadata are understood.
func TestGoldenContinuationsOfGGUF(t *testing.T) {
	g := readGolden(t)
	for _, dtype := range []string{"F32", "F16", "BF16"} {
		t.Run(dtype, func(t *testing.T) {
			path := writeGGUF(t, modelkit.ConvertLlama(t, understudy.Embedded(), dtype))
			m := load(t, path, options(t))
			want := loadFolder(t, understudy.Embedded(), options(t)).Config()
			want.RMSNormEps, want.EOSTokenIDs = float64(float32(1e-5)), []int32{2043}
			require.Equal(t, want, m.Config())
			require.Equal(t, int64(2_828_736), m.NumParameters())
			requireGolden(t, g, m)
		})
	}
}

// requireGolden compares continuations with the golden ones, up to the first
// end-of-sequence id of the golden file.
func requireGolden(t *testing.T, g *golden, m *model.Model) {
	t.Helper()
	seqs := make([]*sequence, len(g.Cases))
	for i, c := range g.Cases {
		seqs[i] = &sequence{prompt: c.PromptIDs, params: greedy(-1), max: goldenMaxTokens, stop: g.EOSTokenIDs, chunk: 1 + i%24}
	}
	(&driver{runner: newRunner(t, m)}).run(t, seqs...)
	for i, c := range g.Cases {
		require.Equal(t, c.GreedyIDs, seqs[i].output, "case %d: %q", i, c.Prompt)
	}
}

func TestGGUFAloneInAFolder(t *testing.T) {
	dir := modelkit.Small(1).Write(t, "F32", 1)
	folder, err := model.OpenDir(dir)
	require.NoError(t, err)
	path := writeGGUF(t, modelkit.ConvertLlama(t, folder, "F32"))
	m := load(t, filepath.Dir(path), options(t))
	require.Equal(t, 67, m.Config().VocabSize)
	require.False(t, m.Config().TieWordEmbeddings)

	modelkit.WriteFile(t, filepath.Dir(path), "other.gguf", nil)
	require.ErrorContains(t, loadError(t, filepath.Dir(path), options(t)), "holds 2 GGUF files; name one of them: model.gguf, other.gguf")
	require.ErrorContains(t, loadError(t, filepath.Join(filepath.Dir(path), "other.gguf"), options(t)), "other.gguf: ends at byte 0")
}

func TestGGUFMatchesFloat64Oracle(t *testing.T) {
	small := modelkit.Small(3)
	folder, err := model.OpenDir(small.Write(t, "F32", 1))
	require.NoError(t, err)
	m := load(t, writeGGUF(t, modelkit.ConvertLlama(t, folder, "F16")), exactOptions(t))
	s := scored(small, 40)
	(&driver{runner: newRunner(t, m)}).run(t, s)
	requireOracle(t, small, s, 2e-4)
}

func TestGGUFRefused(t *testing.T) {
	folder, err := model.OpenDir(modelkit.Small(1).Write(t, "F32", 1))
	require.NoError(t, err)
	cases := []struct {
		name   string
		change func(g *modelkit.GGUF)
		want   string
	}{
		{"architecture", func(g *modelkit.GGUF) { g.Set("general.architecture", "gptj") }, `"general.architecture" is "gptj", which is not supported; supported: llama`},
		{"no architecture", func(g *modelkit.GGUF) { g.Keys = g.Keys[1:] }, `"general.architecture" is missing`},
		{"part of several", func(g *modelkit.GGUF) { g.Set("split.count", uint32(3)) }, "is one of 3 parts, but its name does not say so"},
		{"no heads", func(g *modelkit.GGUF) { g.Set("llama.attention.head_count", uint32(0)) }, "num_attention_heads is 0"},
		{"heads in words", func(g *modelkit.GGUF) { g.Set("llama.attention.head_count", "six") }, `"llama.attention.head_count" is no integer`},
		{"negative layers", func(g *modelkit.GGUF) { g.Set("llama.block_count", int32(-1)) }, `"llama.block_count" is no integer from 0`},
		{"unequal heads", func(g *modelkit.GGUF) { g.Set("llama.attention.value_length", uint32(8)) }, "differs from the keys' 10"},
		{"experts", func(g *modelkit.GGUF) {
			g.Set("general.architecture", "gemma2")
			g.Set("gemma2.expert_count", uint32(8))
		}, `is "gemma2", whose mixtures of experts are not supported; supported: llama, qwen2`},
		{"how many experts", func(g *modelkit.GGUF) { g.Set("llama.expert_count", uint32(8)) }, "num_experts_per_tok is missing"},
		{"scaling", func(g *modelkit.GGUF) { g.Set("llama.rope.scaling.type", "su") }, `"llama.rope.scaling.type" is "su"`},
		{"rows that heads cannot share", func(g *modelkit.GGUF) { g.Set("llama.attention.head_count", uint32(14)) }, `tensor "blk.0.attn_q.weight" has 60 rows, which 14 heads`},
		{"quantisation", func(g *modelkit.GGUF) {
			x := g.Tensor("blk.1.ffn_down.weight")
			x.Type, x.Dims, x.Data = 3, []uint64{64, 40}, make([]byte, 80*20)
		}, `"model.layers.1.mlp.down_proj.weight" has shape [40 64]`},
		{"missing", func(g *modelkit.GGUF) { g.Tensor("blk.2.ffn_up.weight").Name = "blk.2.ffn_upp.weight" }, `"model.layers.2.mlp.up_proj.weight" is missing`},
		{"unknown", func(g *modelkit.GGUF) {
			g.Tensors = append(g.Tensors, modelkit.GGUFTensor{Name: "blk.0.attn_q.bias", Dims: []uint64{60}, Data: make([]byte, 240)})
		}, `the first is "model.layers.0.self_attn.q_proj.bias"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := modelkit.ConvertLlama(t, folder, "F32")
			c.change(g)
			require.ErrorContains(t, loadError(t, writeGGUF(t, g), options(t)), c.want)
		})
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	modelkit.WriteFile(t, filepath.Dir(path), "x.gguf", []byte("version https://git-lfs.github.com/spec/v1\n"))
	require.ErrorContains(t, loadError(t, path, options(t)), "x.gguf: this is a git-lfs pointer")
}
