package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/enginebench"
	"github.com/troupe-llm/troupe/cmd/troupe/internal/randommodel"
	"github.com/troupe-llm/troupe/model/gguf"
)

// A model of random weights is written and measured beside the embedded one: every
// row has as many values as there are repetitions.
func TestBenchEngine(t *testing.T) {
	small := randommodel.Shape{Name: "small", Hidden: 256, Intermediate: 512, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 64,
		Vocab: 4096, Context: 512, RopeTheta: 1e4, Tied: true}
	file := filepath.Join(t.TempDir(), "random.gguf")
	require.NoError(t, (&randommodel.Model{Shape: small, Type: gguf.Q4_0, Seed: 1}).WriteFile(t.Context(), file))
	code, stdout, stderr := execute(t, "", "bench", "engine", "understudy", file, "--prefill", "9", "--decode", "1,3", "--context", "5",
		"--tokens", "2", "--repetitions", "2", "--read-mib", "1", "--json", "-")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stderr, "decode 3")
	var r enginebench.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.False(t, r.Interrupted)
	require.Positive(t, r.Bandwidth.Min)
	require.Len(t, r.Engines, 2)
	for i, e := range r.Engines {
		require.Equal(t, []string{"bfloat16", "q4_0 and q8_0"}[i], e.Types)
		require.Positive(t, e.LoadingSeconds)
		require.Len(t, e.Rows, 3)
		for _, row := range e.Rows {
			s := row.TokensPerSecond
			require.Positive(t, s.Min)
			require.True(t, s.Min <= s.Median && s.Median <= s.Max)
			require.Equal(t, row.Kind == "decode", row.BandwidthShare > 0)
			require.Equal(t, row.Kind == "decode", row.KVBytes > 0)
		}
	}
	random := r.Engines[1].Rows
	position := float64(small.KVBytesPerToken(2))
	require.InDelta(t, position*(6+7)/2, random[1].KVBytes, 1, "the steps see 6 and 7 positions")
	require.Greater(t, random[2].KVBytes, 3*random[1].KVBytes-1, "three sequences, of which some decode while others prefill")
	require.InEpsilon(t, small.DecodeBytes(gguf.Q4_0), r.Engines[1].DecodeBytes, 0.02, "the table is the output matrix, in eight bits")
}

// A model of a hub is fetched, and measured as it is and quantised.
func TestBenchEngineOfAHubByQuantization(t *testing.T) {
	_, env := hubOf(t)
	args := []string{"bench", "engine", "troupe/understudy", "--quantization", "none,q8_0", "--prefill", "3", "--decode", "1", "--context", "3",
		"--tokens", "1", "--repetitions", "1", "--read-mib", "1", "--json", "-"}
	code, stdout, stderr := executeIn(env, nil, args...)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stderr, "Fetching troupe/understudy: model.safetensors")
	var r enginebench.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Len(t, r.Engines, 2)
	require.Equal(t, "bfloat16", r.Engines[0].Types)
	require.Contains(t, r.Engines[1].Types, "q8_0")
	require.Less(t, r.Engines[1].DecodeBytes, r.Engines[0].DecodeBytes)
}

// What cannot be loaded is not written either.
func TestBenchEngineOfAShapeThatDoesNotFit(t *testing.T) {
	m, err := randommodel.FindModel("1.1b", "bf16", 1)
	require.NoError(t, err)
	require.NoError(t, checkRoom(&m, []string{"none"}, 3e9))
	require.NoError(t, checkRoom(&m, []string{"q4_0", "q8_0"}, 15e8))
	err = checkRoom(&m, []string{"q8_0", "none"}, 15e8)
	require.ErrorContains(t, err, "the weights of a random 1.1b in bf16 take 2200")
	require.ErrorContains(t, err, "only 1500000000 are available")
	m.Type = gguf.Q4_0
	require.NoError(t, checkRoom(&m, []string{"q8_0"}, 8e8), "what is quantised stays as it is")
}

func TestBenchModelInterrupted(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	dir := t.TempDir()
	code, _, stderr := executeIn(nil, signals, "bench", "model", filepath.Join(dir, "m.gguf"), "--shape", "8b")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "interrupted")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBenchModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "random.gguf")
	code, _, stderr := execute(t, "", "bench", "model", file, "--type", "q4_0")
	require.Equal(t, exitOK, code, stderr)
	code, stdout, stderr := execute(t, "", "doctor", file, "--read-mib", "1")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "110M parameters in q4_0 and q8_0")
}

func TestBenchEngineWithoutAModel(t *testing.T) {
	code, _, stderr := execute(t, "", "bench", "engine", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "none")
	code, _, stderr = execute(t, "", "bench", "model", filepath.Join(t.TempDir(), "no", "m.gguf"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "no such file or directory")
}
