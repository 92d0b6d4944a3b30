package main

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
)

func TestSeveralBatchers(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0", "--data-parallel-size", "2", "--enable-fault-injection", "--step-timeout", "30")
	const body = `{"prompt":"The capital of France is","max_tokens":40,"ignore_eos":true,"temperature":0}`
	_, quiet := post(t, r.url+"/v1/completions", body)
	for _, fault := range []string{`{"kind":"panic"}`, `{"kind":"error","batcher":0}`, `{"kind":"error","batcher":1}`} {
		status, text := post(t, r.url+"/debug/fault", fault)
		require.Equal(t, 200, status, text)
		status, text = post(t, r.url+"/v1/completions", body)
		require.Equal(t, 200, status, text)
		require.Equal(t, textOf(t, quiet), textOf(t, text), "as if nothing had happened")
	}
	_, text := get(t, http.DefaultClient, r.url+"/metrics")
	require.Contains(t, text, `vllm:num_requests_running{engine="1"`)
	require.Contains(t, text, `troupe:requests_received_total{key=""} 4`)
	require.Contains(t, text, `troupe:requests_finished_total{finished_reason="length",key=""} 4`)
	r.stop(t)
	require.Contains(t, r.log.String(), "2 batchers, each with threads, KV cache and limits of its own over the same weights")
}

// textOf returns the text of a completion's only choice.
func textOf(t *testing.T, body string) string {
	t.Helper()
	var answer struct{ Choices []struct{ Text string } }
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	require.Len(t, answer.Choices, 1)
	return answer.Choices[0].Text
}

// TestRunnersAreOpenedBesideEachOther: a batcher gets its next runner while an
// older one is open, over the same model and with as many blocks.
func TestRunnersAreOpenedBesideEachOther(t *testing.T) {
	cli, _, err := config.Parse([]string{"serve", "--num-gpu-blocks-override", "80", "--data-parallel-size", "2"}, config.Options{Getenv: noEnv})
	require.NoError(t, err)
	s, err := newServer(t.Context(), &cli.Serve, &Main{Stderr: io.Discard})
	require.NoError(t, err)
	// The engine has two open; here are two more.
	for batcher := range 2 {
		r, err := s.newRunner(batcher)
		require.NoError(t, err)
		require.Equal(t, 80, r.Spec().NumBlocks)
		defer func() { require.NoError(t, r.Close(), "after the model's backend") }()
	}
	require.NoError(t, s.Close())
}
