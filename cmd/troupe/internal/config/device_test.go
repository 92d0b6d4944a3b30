package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/config"
)

func TestDevice(t *testing.T) {
	for line, want := range map[string]struct {
		device   config.Device
		batchers int
	}{
		"":                                    {config.Device{Kind: "auto"}, 1},
		"--device cpu":                        {config.Device{Kind: "cpu"}, 1},
		"--device auto -dp 2":                 {config.Device{Kind: "auto"}, 2},
		"--device cuda":                       {config.Device{Kind: "cuda"}, 1},
		"--device cuda:3":                     {config.Device{Kind: "cuda", Indexes: []int{3}}, 1},
		"--device cuda:2,0":                   {config.Device{Kind: "cuda", Indexes: []int{2, 0}}, 2},
		"--device ptxsim:0,1 -dp 2":           {config.Device{Kind: "ptxsim", Indexes: []int{0, 1}}, 2},
		"--device ptxsim -dp 3":               {config.Device{Kind: "ptxsim"}, 3},
		"--device cpu --data-parallel-size 3": {config.Device{Kind: "cpu"}, 3},
	} {
		s := parseServe(t, strings.Fields(line)...)
		require.NoError(t, s.Check(), line)
		require.Equal(t, want.device, s.Device(), line)
		require.Equal(t, want.batchers, s.Scheduler.DataParallelSize, line)
	}
	for line, complaint := range map[string]string{
		"--device tpu":                             `--device must be auto, cpu, cuda, cuda:i,j or ptxsim, got "tpu"`,
		"--device cpu:0":                           "--device cpu has no numbers",
		"--device cuda:":                           `"" is not the number of a device`,
		"--device cuda:0,x":                        `"x" is not the number of a device`,
		"--device cuda:64":                         `"64" is not the number of a device, which is from 0 to 63`,
		"--device cuda:00":                         `"00" is not the number`,
		"--device cuda:1,1":                        "device 1 is there twice",
		"--device cuda:0,1 -dp 3":                  "--data-parallel-size is 3, but --device cuda:0,1 names 2",
		"--gpu-memory-utilization 1.5":             "--gpu-memory-utilization must be above 0 and at most 1",
		"--gpu-memory-utilization plenty":          "--gpu-memory-utilization must be",
		"--gpu-memory-utilization=NaN":             "--gpu-memory-utilization must be",
		"--device cuda --gpu-memory-utilization 0": "--gpu-memory-utilization must be",
	} {
		require.ErrorContains(t, parseServe(t, strings.Fields(line)...).Check(), complaint, line)
	}
}

func TestMemoryShareCountsOnGPUs(t *testing.T) {
	s := parseServe(t, strings.Fields("--device cuda --gpu-memory-utilization 0.5")...)
	require.Empty(t, s.Warnings)
	require.InDelta(t, 0.5, s.MemoryFraction(), 0)
	require.Len(t, parseServe(t, strings.Fields("--device cpu --gpu-memory-utilization 0.5")...).Warnings, 1)
}
