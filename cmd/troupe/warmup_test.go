package main

import (
	"net/http"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/compute"
	"github.com/troupe-llm/troupe/compute/cpu"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/understudy"
)

// countedBackend counts the steps of itself and its forks.
type countedBackend struct {
	compute.Backend
	steps *atomic.Int64
}

func (b *countedBackend) Fork() (compute.Backend, error) {
	fork, err := b.Backend.Fork()
	return &countedBackend{fork, b.steps}, err
}

func (b *countedBackend) Embed(dst compute.Buffer, table compute.Matrix, ids []int32) {
	b.steps.Add(1)
	b.Backend.Embed(dst, table, ids)
}

func TestRunnersAreWarmedUpAtTheStartOnly(t *testing.T) {
	own, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer own.Close()
	steps := &atomic.Int64{}
	s := &server{}
	loaded, err := model.Load(understudy.Embedded(), model.Options{
		Backend: &countedBackend{own, steps}, MaxNumSeqs: 4, MaxNumBatchedTokens: 64, NumBlocksOverride: 80,
	})
	require.NoError(t, err)
	s.devices = []*served{{model: loaded}}
	for _, want := range []int64{2, 0} {
		steps.Store(0)
		r, err := s.newRunner(0)
		require.NoError(t, err)
		require.Equal(t, want, steps.Load())
		require.NoError(t, r.Close())
		s.isReady.Store(true)
	}
}

// Nothing that is counted knows of the warm-up.
func TestWarmUpIsNotCounted(t *testing.T) {
	r := start(t, "serve", "--host", "127.0.0.1", "--port", "0")
	_, text := get(t, http.DefaultClient, r.url+"/metrics")
	for _, series := range []string{
		"vllm:iteration_tokens_total_count", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
		"vllm:prefix_cache_queries_total", "vllm:kv_cache_usage_perc", "vllm:num_requests_running",
	} {
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(series)+`\{[^}]*\} 0$`, text)
	}
	r.stop(t)
}
