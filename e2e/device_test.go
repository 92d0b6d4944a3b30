//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernels that GPUs run give the CPU's greedy text, through the whole server; the
// simulator finds no fault in them on the way.
func TestSimulatedGPUAnswersAsTheCPU(t *testing.T) {
	ask := obj{"messages": user("What is the capital of France?"), "temperature": 0, "max_tokens": 32}
	want, _ := serve(t, "--device", "cpu").chat(ask)
	simulated := serve(t, "--device", "ptxsim", "--num-gpu-blocks-override", "64", "--max-num-batched-tokens", "256", "--enable-per-request-metrics")
	got, _ := simulated.chat(ask)
	require.Equal(t, choice(want, 0)["message"], choice(got, 0)["message"])
	require.Equal(t, want["usage"], got["usage"])
	require.Contains(t, simulated.log.String(), "on ptxsim:0 (PTX simulator")
	require.NotNil(t, got["metrics"])
}

// A device that loses its context in the midst of a stream costs nobody a token: another one
// goes on, and the lost one is reset and serves again.
func TestStreamsSurviveALostDevice(t *testing.T) {
	ask := obj{"messages": user("What is the capital of France?"), "temperature": 0, "max_tokens": 32}
	want, _ := serve(t, "--device", "cpu").chat(ask)
	s := serveEnv(t, []string{"TROUPE_FAULT_LAUNCH=420"}, "--device", "ptxsim:0,1", "--num-gpu-blocks-override", "64", "--max-num-batched-tokens", "256")
	for range 2 {
		got, _ := s.chat(ask)
		require.Equal(t, choice(want, 0)["message"], choice(got, 0)["message"])
		require.Equal(t, want["usage"], got["usage"])
	}
	log := s.log.String()
	require.Contains(t, log, "The same on ptxsim:1 (PTX simulator")
	require.Contains(t, log, "CUDA_ERROR_ILLEGAL_ADDRESS")
	require.Contains(t, log, "A device is lost, and is reset: ptxsim:0")
}

// Without NVIDIA's driver a server starts all the same, and says what it does.
func TestCPUServesWhereThereIsNoGPU(t *testing.T) {
	log := serve(t).log.String()
	require.True(t, strings.Contains(log, "No GPU is used: ") && strings.Contains(log, " on cpu (") || strings.Contains(log, " on cuda:0 ("), log)
}
