package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/internal/testkit/hubkit"
)

// hubOf returns a hub with the embedded model, and the environment that leads there.
func hubOf(t *testing.T) (*hubkit.Hub, map[string]string) {
	t.Helper()
	h := hubkit.New(t)
	h.AddFolder(t, "troupe/understudy", folder(t, nil))
	return h, map[string]string{"HF_ENDPOINT": h.URL, "HF_HOME": t.TempDir()}
}

// executeIn runs a command line in an environment, with signals if there are any.
func executeIn(env map[string]string, signals chan os.Signal, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	m := &Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(k string) string { return env[k] }, Signals: signals}
	code = m.Execute(context.Background(), args)
	return code, out.String(), errs.String()
}

func TestPullCommand(t *testing.T) {
	h, env := hubOf(t)
	code, path, stderr := executeIn(env, nil, "pull", "troupe/understudy")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stderr, "Fetching troupe/understudy: model.safetensors (5.4 MiB)")
	require.FileExists(t, filepath.Join(strings.TrimSpace(path), "config.json"))
	code, again, stderr := executeIn(env, nil, "pull", "troupe/understudy")
	require.Equal(t, exitOK, code)
	require.Equal(t, path, again)
	require.Contains(t, stderr, "All of troupe/understudy is there")

	dir := t.TempDir()
	code, path, stderr = executeIn(env, nil, "pull", "troupe/understudy", "--download-dir", dir, "--revision", "main")
	require.Equal(t, exitOK, code, stderr)
	require.True(t, strings.HasPrefix(path, dir), path)

	h.Requests()
	env["HF_HUB_OFFLINE"] = "1"
	code, _, _ = executeIn(env, nil, "pull", "troupe/understudy")
	require.Equal(t, exitOK, code)
	code, _, stderr = executeIn(env, nil, "pull", "troupe/other")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "HF_HUB_OFFLINE")
	require.Empty(t, h.Requests())
}

func TestPullMistakes(t *testing.T) {
	_, env := hubOf(t)
	for line, want := range map[string]string{
		"pull ../x": "NAME must be ORG/NAME", "pull a/b:v1 --revision v2": "give one of them", "pull a/b --revision ../x": "is no revision",
		"pull troupe/nothing": "there is no such model", "pull troupe/understudy --revision v9": `no revision "v9"`, "pull troupe/understudy:Q8_0": "has no GGUF files",
		"serve troupe/nothing --port 0": `there is no folder "troupe/nothing" here, and at the hub: troupe/nothing: `,
		"serve ./troupe/nothing":        `"./troupe/nothing" does not exist`,
	} {
		code, _, stderr := executeIn(env, nil, strings.Fields(line)...)
		require.Equal(t, exitFailure, code, line)
		require.Contains(t, stderr, want)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
	code, _, stderr := executeIn(env, nil, "pull")
	require.Equal(t, exitUsage, code, stderr)
}

func TestArchitectureIsCheckedBeforeTheWeights(t *testing.T) {
	h, env := hubOf(t)
	h.Add("org/mamba", map[string][]byte{"config.json": []byte(`{"architectures":["MambaForCausalLM"]}`), "model.safetensors": make([]byte, 1000), "tokenizer.json": []byte("{}")})
	code, _, stderr := executeIn(env, nil, "serve", "org/mamba", "--port", "0")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "MambaForCausalLM")
	require.EqualValues(t, 2, hubkit.StoreBytes(h.Requests()), "the tokenizer")
}

func TestPullInterrupted(t *testing.T) {
	h, env := hubOf(t)
	signals := make(chan os.Signal, 1)
	var once sync.Once
	h.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if !h.OfStore(r) {
			return false
		}
		once.Do(func() { signals <- syscall.SIGINT })
		<-r.Context().Done()
		return true
	})
	code, _, stderr := executeIn(env, signals, "pull", "troupe/understudy")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "Error: interrupted: what has come is kept")
	h.SetFault(nil)
	code, _, stderr = executeIn(env, nil, "pull", "troupe/understudy")
	require.Equal(t, exitOK, code, stderr)
}
