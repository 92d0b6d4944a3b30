package main

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
	"github.com/troupe-llm/troupe/infer"
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
	require.Contains(t, r.log.String(), "2 batchers, each with weights")
}

// textOf returns the text of a completion's only choice.
func textOf(t *testing.T, body string) string {
	t.Helper()
	var answer struct{ Choices []struct{ Text string } }
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	require.Len(t, answer.Choices, 1)
	return answer.Choices[0].Text
}

// stuckRunner never ends a step.
type stuckRunner struct{ infer.Runner }

func (stuckRunner) Launch(*infer.StepPlan, func(*infer.StepResult, error)) {}

func TestStuckStepCostsADevice(t *testing.T) {
	cli, _, err := config.Parse([]string{"serve", "--num-gpu-blocks-override", "80"}, config.Options{Getenv: noEnv})
	require.NoError(t, err)
	m := &Main{Stderr: io.Discard}
	s, err := newServer(&cli.Serve, m)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.engine.Close())
	d := s.devices[0]
	before := d.model
	_, err = s.newRunner(0)
	require.NoError(t, err)
	require.Same(t, before, d.model, "nothing runs: the device is good")

	d.last = &watchedRunner{Runner: stuckRunner{}}
	d.last.Launch(&infer.StepPlan{}, func(*infer.StepResult, error) {})
	fresh, err := s.newRunner(0)
	require.NoError(t, err)
	require.NotSame(t, before, d.model)
	require.Equal(t, before.KVSpec(), d.model.KVSpec())
	require.Equal(t, 80, fresh.Spec().NumBlocks)
}

func TestWatchedRunnerCountsEachStepOnce(t *testing.T) {
	r := &watchedRunner{Runner: panicRunner{}}
	require.Panics(t, func() { r.Launch(&infer.StepPlan{}, func(*infer.StepResult, error) {}) })
	require.Zero(t, r.steps.Load())
}

// panicRunner panics after it has answered.
type panicRunner struct{ infer.Runner }

func (panicRunner) Launch(_ *infer.StepPlan, done func(*infer.StepResult, error)) {
	done(nil, nil)
	panic("late")
}
