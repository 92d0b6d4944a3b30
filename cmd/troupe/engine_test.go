package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/enginebench"
)

// A model of random weights is written and measured beside the embedded one: every
// row has as many values as there are repetitions.
func TestBenchEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "random.gguf")
	code, _, stderr := execute(t, "", "bench", "model", file, "--type", "q4_0")
	require.Equal(t, exitOK, code, stderr)
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
		}
	}
	require.InEpsilon(t, 85e6*18/32+24.6e6*34/32, r.Engines[1].DecodeBytes, 0.02, "the table is the output matrix, in eight bits")
}

func TestBenchEngineWithoutAModel(t *testing.T) {
	code, _, stderr := execute(t, "", "bench", "engine", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "none")
	code, _, stderr = execute(t, "", "bench", "model", filepath.Join(t.TempDir(), "no", "m.gguf"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "no such file or directory")
}
