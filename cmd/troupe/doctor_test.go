package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/doctor"
)

func TestDoctor(t *testing.T) {
	code, stdout, stderr := execute(t, "", "doctor", "understudy", "--read-mib", "1", "--json", "-")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stderr, "fits, with room for")
	var r doctor.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Positive(t, r.Bandwidth)
	require.Positive(t, r.MemoryAvailable)
	require.True(t, r.Model.Fits)
	require.Equal(t, "bfloat16", r.Model.Type)
	require.Len(t, r.Sizes, 21)
	for _, f := range r.Sizes {
		require.Equal(t, f.Fits, f.MissingBytes == 0)
		require.Equal(t, f.Fits, f.TokensPerSecond > 0)
		if f.Fits {
			require.LessOrEqual(t, f.WeightBytes+f.ContextTokens*f.KVBytesPerToken, r.MemoryAvailable)
		}
	}

	code, stdout, _ = execute(t, "", "doctor", "understudy", "--quantization", "q8_0", "--kv-cache-dtype", "int8", "--read-mib", "1")
	require.Equal(t, exitOK, code)
	require.Regexp(t, `understudy: .* parameters in q8_0`, stdout)
}

// A model of a hub is judged if it has been fetched.
func TestDoctorOfAHub(t *testing.T) {
	h, env := hubOf(t)
	code, _, stderr := executeIn(env, nil, "doctor", "troupe/understudy", "--read-mib", "1")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "fetch it with troupe pull troupe/understudy")
	require.Empty(t, h.Requests())
	code, _, stderr = executeIn(env, nil, "pull", "troupe/understudy")
	require.Equal(t, exitOK, code, stderr)
	code, stdout, stderr := executeIn(env, nil, "doctor", "troupe/understudy", "--read-mib", "1")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "troupe/understudy: 2.")
}

func TestDoctorRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{filepath.Join(t.TempDir(), "none.gguf")}, "none.gguf"},
		{[]string{"understudy", "--kv-cache-dtype", "float4"}, "float4"},
	} {
		code, _, stderr := execute(t, "", append([]string{"doctor"}, tt.args...)...)
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, tt.want)
	}
}
